"""`tidelog segments head | count | to-parquet | to-arrow`, as a user calls them."""

from __future__ import annotations

import io
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from protocol.record_batch_builder import build_batch
from tests.support.command_line import call, run
from tests.support.segment_logs import write_partition
from tidelog.segments.columns import COLUMNS, HEADERS
from tidelog.segments.reader import read_table

NOON_MS = 1_795_348_800_000  # 2026-11-22T12:00:00Z


@pytest.fixture
def data(tmp_path):
    """Two topics, of which one has two partitions; a record a second from noon on."""
    for name, count in (("logs-0", 30), ("logs-1", 10), ("users-0", 5)):
        rows = [
            (n, NOON_MS + 1000 * n, b"k%d" % n, b"\xff\x00" if n == 1 else b"line %d" % n,
             (("h", b"x"), ("null", None)) if n == 0 else ())
            for n in range(count)
        ]  # fmt: skip
        batches = [build_batch(rows[at : at + 5], base_offset=at) for at in range(0, count, 5)]
        write_partition(tmp_path / "data" / name, [batches])
    return tmp_path / "data"


def damage(data):
    path = data / "logs-0" / f"{0:020}.log"
    wrong = bytearray(path.read_bytes())
    wrong[wrong.index(b"line 17")] ^= 1
    path.write_bytes(wrong)
    return path


def test_given_a_data_directory_when_counted_then_a_line_for_each_partition(data):
    outcome = call("segments", "count", str(data))

    assert outcome.code == 0
    assert [" ".join(line.split()) for line in outcome.text.splitlines()[1:]] == [
        "logs 0 30 0 29", "logs 1 10 0 9", "users 0 5 0 4",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        (("--topic", "logs"), [30, 10]),
        (("--topic", "users", "--topic", "logs", "--partition", "0"), [30, 5]),
        (("--topic", "logs", "--from", "7", "--to", "12"), [5, 3]),
        (("--from", "2026-11-22T12:00:03Z", "--to", "2026-11-22T12:00:04.500+00:00"), [2, 2, 2]),
        (("--topic", "logs", "--partition", "0", "--from", "28", "--to", "2026-11-23"), [2]),
    ],
)
def test_given_filters_when_counted_as_json_then_only_what_they_let_through(data, options, counts):
    outcome = call("segments", "count", str(data), "--json", *options)

    assert [each["records"] for each in outcome.json] == counts


def test_given_records_when_shown_then_the_first_so_many_in_words(data):
    outcome = call("segments", "head", str(data / "logs-0"), "-n", "2")

    assert outcome.text == (
        "topic logs  partition 0  offset 0  timestamp 2026-11-22T12:00:00.000Z  timestampType 0  "
        "key 'k0'  value 'line 0'  headers h='x', null=null\n"
        "topic logs  partition 0  offset 1  timestamp 2026-11-22T12:00:01.000Z  timestampType 0  "
        "key 'k1'  value base64:'/wA='  headers none\n"
    )


def test_given_records_when_shown_as_json_then_bytes_that_are_no_text_are_base64(data):
    outcome = call(
        "segments", "head", str(data), "--topic", "logs", "--json", "--columns", "value,offset",
        "--max", "12", "--partition", "1",
    )  # fmt: skip

    assert len(outcome.json_lines) == 10
    assert outcome.json_lines[1] == {"value": "/wA=", "value_encoding": "base64", "offset": 1}


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_given_records_when_written_as_parquet_then_they_are_those_that_are_read(
    data, tmp_path, compression
):
    file = tmp_path / "out.parquet"

    outcome = call(
        "segments", "to-parquet", str(data), str(file), "--compression", compression, "--json"
    )

    names = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", HEADERS)
    assert set(names) == {*COLUMNS, HEADERS}
    assert pq.read_table(file).equals(read_table(data, columns=names))
    size = file.stat().st_size
    assert outcome.json == {"file": str(file), "records": 45, "size_bytes": size}
    assert {path.name for path in tmp_path.iterdir()} == {"data", file.name}


def test_given_records_when_written_as_arrow_then_a_file_or_a_stream(data, tmp_path):
    file = tmp_path / "out.arrow"
    options = ("--topic", "logs", "--columns", "offset,value")

    outcome = call("segments", "to-arrow", str(data), str(file), *options)
    stream = run("segments", "to-arrow", str(data), "-", *options)

    expected = read_table(data, topics=["logs"], columns=("offset", "value"))
    assert pa.ipc.open_file(file).read_all().equals(expected)
    assert pa.ipc.open_stream(io.BytesIO(stream.output)).read_all().equals(expected)
    assert outcome.text.startswith(f"{file}: 40 records, ")


def test_given_a_file_that_is_there_when_written_then_only_by_force(data, tmp_path):
    file = tmp_path / "out.parquet"
    file.write_text("mine")
    command = ("segments", "to-parquet", str(data), str(file))

    refused = call(*command)

    assert (refused.code, file.read_text()) == (2, "mine")
    assert refused.errors == f"tidelog: {file} is there already; --force replaces it\n"
    assert call(*command, "--force").code == 0
    assert pq.read_table(file).num_rows == 45


def test_given_damage_when_written_then_it_is_told_and_nothing_is_left_behind(data, tmp_path):
    path = damage(data)
    file = tmp_path / "out.parquet"

    outcome = call("segments", "to-parquet", str(data), str(file))

    assert outcome.code == 1
    assert outcome.errors.startswith(f"tidelog: {path} is damaged at byte ")
    assert "(offsets 15 to 19): its CRC does not match" in outcome.errors
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


def test_given_damage_when_skipped_or_tagged_then_the_rest_is_there(data):
    damage(data)
    command = ("segments", "count", str(data), "--topic", "logs", "--partition", "0", "--json")

    (skipped,) = call(*command, "--on-corrupt", "skip").json
    (tagged,) = call(*command, "--on-corrupt", "tag").json
    shown = call("segments", "head", str(data / "logs-0"), "--from", "16", "--on-corrupt", "tag")

    assert (skipped["records"], tagged["records"], tagged["damaged"]) == (25, 25, 1)
    assert "offset 16" in shown.text.splitlines()[0]
    assert "its CRC does not match" in shown.text.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("count", "nowhere"), 1, "nowhere is not there"),
        (("count", "s4://bucket/logs"), 2, "s4://bucket/logs cannot be read"),
        (("head", "{data}", "--columns", "ofset"), 2, "there is no column 'ofset'; there are key"),
        (("head", "{data}", "--from", "noon"), 2, "--from noon: neither an offset nor an ISO 8601"),
        (("to-arrow", "{data}", "-", "--json"), 2, "--json and a stream both want standard output"),
    ],
)
def test_given_what_cannot_be_when_called_then_one_sentence_says_why(data, arguments, code, text):
    outcome = call("segments", *(each.format(data=data) for each in arguments))

    assert outcome.code == code
    assert text in outcome.errors
    assert outcome.errors.count("\n") == 1
    assert outcome.output == b""


def test_given_a_topic_that_is_not_there_when_counted_then_it_is_said(data):
    outcome = call("segments", "count", str(data), "--topic", "lgos", "--json")

    assert outcome.json == []
    assert outcome.errors == f"tidelog: nothing of the topic lgos is in {data}\n"


def test_given_no_pyarrow_when_called_then_it_says_what_to_install(data, monkeypatch):
    for name in [each for each in sys.modules if each.startswith("tidelog.segments")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    outcome = call("segments", "count", str(data))

    assert outcome.code == 1
    assert "pip install 'tidelog[segments]'" in outcome.errors


def test_given_a_progress_bar_when_written_then_standard_output_is_the_result_alone(data, tmp_path):
    outcome = run(
        "segments", "to-parquet", str(data), str(tmp_path / "out.parquet"), "--progress", "--json"
    )

    assert json.loads(outcome.output)["records"] == 45
    assert "reading" in outcome.errors


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("no/such.parquet", "there is no directory"), (".", "is a directory: name a file")],
)
def test_given_no_place_for_a_file_when_it_is_to_be_made_then_one_sentence_names_it(
    data, tmp_path, name, sentence
):
    outcome = call("segments", "to-parquet", str(data), str(tmp_path / name), "--force")

    assert outcome.code == 2
    assert outcome.errors.startswith(f"tidelog: {tmp_path}")
    assert sentence in outcome.errors
