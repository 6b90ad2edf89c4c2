"""Compaction of partitions: against the broker's cleaner byte for byte, and against a dict."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords
from pyarrow._fs import _MockFileSystem
from pyarrow.fs import FileSelector

from broker.stopped.verification import verify_directory
from broker.storage.os_disk import OsDisk
from protocol.legacy_message_set_builder import build_set
from protocol.record_batch import Record, iterate_batches, iterate_records
from protocol.record_batch_builder import build_batch
from protocol.record_batch_header import parse_header
from protocol.stored import transaction_index
from protocol.stored.checkpoint import offset_checkpoint_encode
from protocol.stored.file_names import LOG_START_CHECKPOINT
from tests.support import kafka_logs
from tests.support.cleaning import NOW_MS, last_records
from tests.support.keyed_logs import STEPS, all_batches, written
from tests.support.stored_partition import write_segment
from tidelog.segments.compaction import partition_compaction
from tidelog.segments.compaction.partition_compaction import CompactionRules, compact_partition
from tidelog.segments.errors import DamagedError, DataLossError, OptionError
from tidelog.segments.location import Location, locate
from tidelog.segments.log_files import list_partitions
from tidelog.segments.reader import read_table

RETENTION_MS = 1000


def compact(directory: Path, **rules):
    """Compact the one partition under a directory into `out` beside it; return what it says."""
    out = directory.parent / f"{directory.name}-out" / directory.name
    out.mkdir(parents=True)
    defaults = {"now_ms": NOW_MS, "delete_retention_ms": RETENTION_MS}
    location = locate(directory)
    (files,) = list_partitions(location)
    return compact_partition(location, files, locate(out), CompactionRules(**defaults | rules)), out


def batches_in(directory: Path) -> list[bytes]:
    found = []
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        found += [data[at : at + each.size_bytes] for at, each in iterate_batches(data)]
    return found


def records_in(directory: Path) -> list[Record]:
    return [
        record
        for batch in batches_in(directory)
        for _, header in iterate_batches(batch)
        if not header.is_control
        for record in iterate_records(batch)
    ]


def aborted_in(directory: Path):
    paths = sorted(directory.glob("*.txnindex"))
    found = [each for path in paths for each in transaction_index.decode(path.read_bytes())]
    return [each[:3] for each in found]  # the model does not keep last stable offsets


@pytest.fixture(scope="module")
def no_syncs():
    """Hundreds of small logs: nobody pulls the plug between them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        patch.setattr(os, "fdatasync", lambda file: None)
        yield


@pytest.mark.usefixtures("no_syncs")
@settings(max_examples=30, deadline=None)
@given(steps=STEPS, rounds=st.integers(1, 3))
def test_given_any_log_when_compacted_then_it_is_to_the_byte_what_the_broker_leaves(steps, rounds):
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "tide-0"
        writer = written(steps)
        segments = writer.stored(disk=OsDisk(), path=source)
        last = last_records(all_batches(writer))
        for number in range(rounds):  # the later ones meet horizons, and then pass them
            now_ms = NOW_MS + number * RETENTION_MS
            before = [batch.data for batch in segments.batches()]
            done, out = compact(source, now_ms=now_ms)
            assert [batch.data for batch in segments.batches()] == before
            segments.clock.advance(ms=now_ms - segments.clock.now_ms())
            segments.cleaned_offset = 0
            segments.clean(last_records=last, segment_bytes=1 << 20)

            expected = [batch.data for batch in segments.batches()]
            assert batches_in(out) == expected
            found, original = aborted_in(out), aborted_in(source)
            if number:  # ours begins where records of it are left, and theirs where they were
                assert all(ours >= theirs for ours, theirs in zip(found, original, strict=True))
                found, original = ([each[::2] for each in index] for index in (found, original))
            assert found == original
            assert done.records_kept == len(segments.records())
            out.rename(out.with_name(f"done-{number}"))
            out.parent.rename(out.parent.with_name(f"out-{number}"))


def keyed(offset: int, *records, **header) -> bytes:
    """A batch of (key, value) pairs."""
    rows = [
        Record(offset + number, NOW_MS + offset + number, key, value)
        for number, (key, value) in enumerate(records)
    ]
    return build_batch(rows, base_offset=offset, **header)


def read_by_kafka_python(directory: Path):
    """Return offset, key and value of each record, CRCs checked."""
    found = []
    for path in sorted(directory.glob("*.log")):
        batches = MemoryRecords(path.read_bytes())
        while batches.has_next():
            batch = batches.next_batch()
            assert batch.validate_crc()
            found += [(record.offset, record.key, record.value) for record in batch]
    return found


def problems_of(directory: Path):
    """What `tidelog verify` says of logs and indexes."""
    return [each.problems for each in verify_directory(directory) if each.problems]


def last_of_keys(records) -> list[Record]:
    last = {record.key: record for record in records if record.key is not None}
    return sorted(last.values())


@pytest.mark.parametrize("partition", ["compacted-idempotent-0", "compacted-txn-0"])
def test_given_a_log_of_kafka_when_compacted_then_what_it_serves_is_left(partition, tmp_path):
    shutil.copytree(kafka_logs.DIRECTORY / partition, tmp_path / partition)
    served = kafka_logs.served(partition)

    done, out = compact(tmp_path / partition, now_ms=1_750_000_000_000)  # before all horizons

    found = {record.offset for record in records_in(out)}
    # Also the aborted ones of the active segment are gone, which it serves to read_uncommitted.
    assert found <= {record.offset for record in served}
    assert last_of_keys(records_in(out)) == records_in(out)
    assert done.end_offset == parse_header(batches_in(tmp_path / partition)[-1]).next_offset
    assert parse_header(batches_in(out)[-1]).next_offset == done.end_offset
    assert problems_of(out) == []


def test_given_records_of_all_kinds_when_compacted_then_as_kafka_does_it(tmp_path):
    directory = tmp_path / "tide-0"
    write_segment(
        directory,
        [
            keyed(0, (b"a", b"old"), (None, b"no key"), (b"b", b"1")),
            keyed(3, (b"a", b"new"), (b"b", None)),
            keyed(5, (b"c", b"1"), (b"c", b"2"), codec=4),
        ],
    )
    write_segment(directory, [keyed(7, (b"d", b"1"), (b"d", b"2")), keyed(9, (None, b"last"))])

    done, out = compact(directory, segment_bytes=1)

    assert [(each.offset, each.key, each.value) for each in records_in(out)] == [
        (3, b"a", b"new"), (4, b"b", None), (6, b"c", b"2"), (8, b"d", b"2"),
    ]  # fmt: skip
    assert (done.keyless, done.keys, done.records_read, done.records_kept) == (2, 4, 10, 4)
    assert (done.end_offset, done.cleaned_offset, done.segments) == (10, 10, 4)
    assert sorted(path.name for path in out.glob("*.log")) == [
        f"{offset:020d}.log" for offset in (0, 5, 7, 9)
    ]


def test_given_more_keys_than_memory_when_compacted_then_the_same_is_left(tmp_path):
    rows = [(b"key %d" % (number * 7 % 30_000), b"v%d" % number) for number in range(40_000)]
    directory = tmp_path / "tide-0"
    batches = [keyed(first, *rows[first : first + 4_000]) for first in range(0, 40_000, 4_000)]
    write_segment(directory, batches)

    done, out = compact(directory, memory_bytes=1)

    all_records = [record for batch in batches for record in iterate_records(batch)]
    assert records_in(out) == last_of_keys(all_records)
    assert (done.keys, done.readings > 1) == (30_000, True)
    assert [(each.offset, each.key, each.value) for each in records_in(out)] == (
        read_by_kafka_python(out)
    )
    assert (out / f"{0:020d}.index").stat().st_size > 0
    assert problems_of(out) == []


def test_given_an_open_transaction_when_compacted_then_all_from_its_begin_on_stays(tmp_path):
    open_ = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    batches = [
        keyed(0, (b"a", b"1"), (b"a", b"2")),
        keyed(2, (b"a", b"undecided"), **open_),
        keyed(3, (b"a", b"3"), (b"a", b"4")),
    ]
    write_segment(tmp_path / "tide-0", batches)

    done, out = compact(tmp_path / "tide-0")

    assert [record.offset for record in records_in(out)] == [1, 2, 3, 4]
    assert batches_in(out)[1:] == batches[1:]
    assert (done.cleaned_offset, done.end_offset) == (2, 5)


def test_given_deleted_records_when_compacted_then_they_are_gone_and_their_segments(tmp_path):
    directory = tmp_path / "tide-0"
    write_segment(directory, [keyed(0, (b"a", b"1"))])
    write_segment(directory, [keyed(1, (b"b", b"2"), (b"c", b"3")), keyed(3, (b"d", b"4"))])
    starts = offset_checkpoint_encode({("tide", 0): 2})
    (tmp_path / LOG_START_CHECKPOINT).write_bytes(starts)

    done, out = compact(directory)

    assert [record.offset for record in records_in(out)] == [2, 3]
    assert done.log_start_offset == 2
    assert min(out.glob("*.log")).name == f"{1:020d}.log"


def test_given_old_formats_when_compacted_then_their_records_are_left_as_batches(tmp_path):
    source = kafka_logs.DIRECTORY.parent / "kafka-2.8" / "upgraded-1"
    shutil.copytree(source, tmp_path / "upgraded-1")

    done, out = compact(tmp_path / "upgraded-1")

    table = read_table(source, columns=("key", "value", "offset"))
    rows = [row for row in table.to_pylist() if row["key"] is not None]
    expected = sorted({row["key"]: (row["offset"], row["value"]) for row in rows}.values())
    assert [(each.offset, each.value) for each in records_in(out)] == expected
    assert done.keyless == table.num_rows - len(rows)


def test_given_an_empty_partition_when_compacted_then_its_end_is_kept(tmp_path):
    (tmp_path / "tide-0").mkdir()
    (tmp_path / "tide-0" / f"{42:020d}.log").touch()

    done, out = compact(tmp_path / "tide-0")

    assert sorted(path.name[20:] for path in out.iterdir()) == [".index", ".log", ".timeindex"]
    assert (done.end_offset, next(out.glob("*.log")).stem) == (42, f"{42:020d}")


def test_given_damage_when_compacted_then_it_is_refused_with_its_place(tmp_path):
    path = write_segment(tmp_path / "tide-0", [keyed(0, (b"a", b"1")), keyed(1, (b"b", b"2"))])
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data + keyed(2, (b"c", b"3")))

    with pytest.raises(DamagedError, match=r"is damaged at byte \d+ \(offsets 1 to 1\)"):
        compact(tmp_path / "tide-0")


def test_given_another_file_system_when_compacted_into_it_then_the_files_are_the_same(tmp_path):
    directory = tmp_path / "tide-0"
    write_segment(directory, [keyed(0, (b"a", b"1"), (b"a", b"2")), keyed(2, (b"b", b"3"))])
    _, out = compact(directory)
    elsewhere = Location(_MockFileSystem(), "out")
    elsewhere.filesystem.create_dir("out")
    (files,) = list_partitions(locate(directory))
    rules = CompactionRules(now_ms=NOW_MS, delete_retention_ms=RETENTION_MS)

    compact_partition(locate(directory), files, elsewhere, rules)

    found = {
        info.base_name: elsewhere.filesystem.open_input_stream(info.path).read()
        for info in elsewhere.filesystem.get_file_info(FileSelector("out"))
    }
    assert found == {path.name: path.read_bytes() for path in out.iterdir()}


def test_given_a_segment_that_a_cleaner_replaces_meanwhile_when_compacted_then_it_is_refused(
    tmp_path, monkeypatch
):
    batches = [keyed(0, (b"a", b"1")), keyed(1, (b"b", b"2")), keyed(2, (b"c", b"3"))]
    path = write_segment(tmp_path / "tide-0", batches)
    find_latest = partition_compaction.find_latest

    def replaced(*arguments, **settings):
        found = find_latest(*arguments, **settings)
        path.write_bytes(b"".join(batches[1:]))
        return found

    monkeypatch.setattr(partition_compaction, "find_latest", replaced)

    with pytest.raises(DataLossError, match="segments of tide-0 were replaced"):
        compact(tmp_path / "tide-0")


def test_given_an_old_message_that_cannot_be_decoded_when_compacted_then_it_is_refused(tmp_path):
    sets = [
        build_set([Record(n, 5, b"k", b"v") for n in range(at, at + 4)], magic=1, codec=1)
        for at in (0, 4)
    ]
    wrong = bytearray(sets[1])
    wrong[7] ^= 2  # its offset, outside of its CRC: 5 where it was 7
    (tmp_path / "tide-0").mkdir()
    (tmp_path / "tide-0" / f"{0:020d}.log").write_bytes(sets[0] + bytes(wrong))

    with pytest.raises(DamagedError, match="offsets 2 to 5 do not belong here"):
        compact(tmp_path / "tide-0")


@pytest.mark.parametrize("segment_bytes", [0, 1 << 31])
def test_given_a_size_that_no_index_can_hold_when_asked_for_then_it_is_refused(segment_bytes):
    with pytest.raises(OptionError, match="it may be 1 to 2147483647"):
        CompactionRules(now_ms=NOW_MS, segment_bytes=segment_bytes)


def test_given_a_tombstone_before_all_times_when_compacted_then_it_stays_without_a_horizon(
    tmp_path,
):
    rows = [Record(n, -(2**63) + 5, key, None) for n, key in enumerate((b"a", b"b"))]
    batch = build_batch(rows)
    write_segment(tmp_path / "tide-0", [batch])

    _, out = compact(tmp_path / "tide-0")

    assert batches_in(out) == [batch]
