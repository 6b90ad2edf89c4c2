"""`tidelog dump`, on files that Kafka has written and on damaged ones."""

import gzip
import itertools
import json
import shutil
from pathlib import Path

import pytest

from protocol.stored.index_entries import OffsetIndexEntry, TimeIndexEntry
from protocol.stored.index_entries import encode_offset_index as offset_index
from protocol.stored.index_entries import encode_time_index as time_index
from protocol.stored.producer_snapshot import ProducerEntry
from protocol.stored.producer_snapshot import encode as snapshot
from protocol.stored.transaction_index import AbortedTransaction
from protocol.stored.transaction_index import encode as transaction_index
from tests.support.command_line import call

DATA = Path(__file__).parents[2] / "data"
LOG = DATA / "kafka-4.3/shapes-0/00000000000000000000.log"


def known_records(name):
    """Return what Kafka's own consumer read, as the data's README says."""
    lines = gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def test_given_kafkas_log_when_dumped_then_batches_follow_one_another():
    outcome = call("dump", str(LOG), "--json")

    batches = outcome.json_lines
    assert outcome.code == 0
    assert {batch["type"] for batch in batches} == {"batch"}
    assert sum(batch["size_bytes"] for batch in batches) == LOG.stat().st_size
    for batch, following in itertools.pairwise(batches):
        assert following["position"] == batch["position"] + batch["size_bytes"]
        assert following["base_offset"] == batch["last_offset"] + 1


def test_given_kafkas_log_when_records_are_dumped_then_there_are_as_many_as_kafka_read():
    outcome = call("dump", str(LOG), "--records", "--json")

    records = [one for one in outcome.json_lines if one["type"] == "record"]
    batches = [one for one in outcome.json_lines if one["type"] == "batch"]
    control = sum(one["record_count"] for one in batches if one["is_control"])
    assert len(records) == sum(one["record_count"] for one in batches)
    assert len(records) - control == len(known_records("kafka-4.3/shapes-0"))


def test_given_an_old_log_when_dumped_then_its_entries_are_shown(tmp_path):
    packed = DATA / "kafka-2.8/v1-1/00000000000000000000.log.gz"
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(gzip.decompress(packed.read_bytes()))

    outcome = call("dump", str(file), "--records", "--json")
    text = call("dump", str(file))

    records = [one for one in outcome.json_lines if one["type"] == "record"]
    assert (outcome.code, text.code) == (0, 0)
    assert len(records) == len(known_records("kafka-2.8/v1-1"))
    assert "magic 1" in text.text


def test_given_max_and_offset_when_dumped_then_only_so_much_is_shown():
    whole = call("dump", str(LOG), "--json").json_lines

    first = call("dump", str(LOG), "--max", "2", "--json")
    later = call("dump", str(LOG), "--max", "1", "--from-offset", "5", "--json")
    none = call("dump", str(LOG), "--max", "0")

    assert first.json_lines == whole[:2]
    assert later.json_lines[0]["last_offset"] >= 5
    assert (none.code, none.output) == (0, b"")


def test_given_a_batch_and_its_records_when_dumped_for_people_then_a_line_each():
    outcome = call("dump", str(LOG), "--max", "1", "--records")

    batch, record = outcome.text.splitlines()
    assert batch.startswith("batch at 0, 109 bytes: offsets 0 to 0, records 1, magic 2, none")
    assert record.startswith("  offset 0  2025-06-15T15:06:40.026Z  key null  value ")


def test_given_damage_when_dumped_then_it_is_said_and_the_code_tells(tmp_path):
    file = tmp_path / LOG.name
    data = bytearray(LOG.read_bytes())
    data[100] ^= 1
    file.write_bytes(data[:-10])

    outcome = call("dump", str(file), "--records")
    as_json = call("dump", str(file), "--json")

    problems = [one["problem"] for one in as_json.json_lines if one.get("problem")]
    assert (outcome.code, as_json.code) == (1, 1)
    assert len(problems) == 2
    assert "crc" in problems[0].lower()
    assert "ends inside" in problems[1]
    assert [f"  PROBLEM: {one}" for one in problems] == [
        line for line in outcome.text.splitlines() if "PROBLEM" in line
    ]


@pytest.mark.parametrize(
    ("suffix", "data", "kind", "fields"),
    [
        (
            ".index",
            offset_index([OffsetIndexEntry(50, 4096)], 42),
            "index_entry",
            {"offset": 50, "position": 4096},
        ),
        (
            ".timeindex",
            time_index([TimeIndexEntry(1000, 50)], 42),
            "time_index_entry",
            {"timestamp": 1000, "offset": 50},
        ),
        (
            ".snapshot",
            snapshot([ProducerEntry(7, 1, 99, 50)]),
            "producer",
            {"producer_id": 7, "last_sequence": 99},
        ),
        (
            ".txnindex",
            transaction_index([AbortedTransaction(7, 1, 5, 1)]),
            "aborted_transaction",
            {"producer_id": 7, "last_offset": 5},
        ),
    ],
)
def test_given_another_file_of_a_segment_when_dumped_then_its_entries_are_shown(
    tmp_path, suffix, data, kind, fields
):
    file = tmp_path / f"00000000000000000042{suffix}"
    file.write_bytes(data)

    outcome = call("dump", str(file), "--json")
    text = call("dump", str(file))

    (entry,) = outcome.json_lines
    assert (outcome.code, text.code) == (0, 0)
    assert entry["type"] == kind
    assert fields.items() <= entry.items()
    assert all(f"{name.replace('_', ' ')} {value}" in text.text for name, value in fields.items())


def test_given_an_index_of_zeros_when_dumped_then_it_is_said_that_there_is_nothing(tmp_path):
    file = tmp_path / "00000000000000000042.index"
    file.write_bytes(b"\0" * 80)

    outcome = call("dump", str(file))
    as_json = call("dump", str(file), "--json")

    assert (outcome.code, outcome.text) == (0, "")
    assert outcome.errors == f"tidelog: {file.name} has no entries\n"
    assert (as_json.code, as_json.text, as_json.errors) == (0, "", "")


def test_given_a_damaged_snapshot_when_dumped_then_it_is_said(tmp_path):
    file = tmp_path / "00000000000000000042.snapshot"
    file.write_bytes(b"\x00" * 9)

    outcome = call("dump", str(file))

    assert outcome.code == 1
    assert "PROBLEM" in outcome.text


@pytest.mark.parametrize("name", ["00000000000000000042.log", "notes.txt"])
def test_given_what_cannot_be_read_when_dumped_then_one_sentence_and_code_2(tmp_path, name):
    outcome = call("dump", str(tmp_path / name))

    assert outcome.code == 2
    assert name in outcome.errors
    assert outcome.errors.count("\n") == 1


def test_given_a_directory_when_dumped_then_code_2(tmp_path):
    directory = tmp_path / "00000000000000000042.log"
    shutil.copytree(LOG.parent, directory)

    outcome = call("dump", str(directory))

    assert (outcome.code, outcome.errors) == (2, f"tidelog: {directory}: Is a directory\n")
