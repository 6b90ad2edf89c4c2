"""LogSegment: appending, when index entries are made, and sealing."""

from __future__ import annotations

import errno

import pytest

from broker.storage.log_config import LogConfig
from protocol.errors import StorageError
from protocol.identifiers import TimestampMs
from tests.support.segments import Workbench, batch, fill, positions, run

NOW_MS = 1_700_000_000_000  # of a ManualClock


def with_config(**settings):
    return Workbench(config=LogConfig(**{"segment_index_bytes": 4096, **settings}))


def offset_entries(segment):
    return [tuple(segment.offset_index.entry(n)) for n in range(segment.offset_index.entries)]


def time_entries(segment):
    return [tuple(segment.time_index.entry(n)) for n in range(segment.time_index.entries)]


def test_given_batches_when_appended_then_they_lie_one_after_the_other():
    """R19: append writes the bytes at the end, and says where."""
    batches = run(5, base_offset=10)
    segment = Workbench().create(10)

    found = fill(segment, batches)

    assert found == positions(batches)
    assert segment.size_bytes == sum(len(each.data) for each in batches)
    whole = segment.records.read_bytes(0, segment.size_bytes)
    assert whole == b"".join(each.data for each in batches)


def test_given_batches_when_appended_then_an_index_entry_comes_after_each_interval():
    """R19: an entry when more than `index_interval_bytes` were appended since the last one."""
    batches = run(9)  # of one size
    size = len(batches[0].data)
    segment = with_config(index_interval_bytes=2 * size).create()

    fill(segment, batches)

    # None for the first; then after three batches, that is more than two, each time.
    assert offset_entries(segment) == [(7, 3 * size), (13, 6 * size)]
    assert time_entries(segment) == [(1_031, 7), (1_061, 13)]


def test_given_an_interval_that_is_just_reached_when_appended_then_there_is_no_entry_yet():
    """R19: more than the interval, not as much as it."""
    batches = run(2)
    size = len(batches[0].data)

    exact, below = (with_config(index_interval_bytes=n).create() for n in (size, size - 1))
    fill(exact, batches)
    fill(below, batches)

    assert offset_entries(exact) == []
    assert offset_entries(below) == [(3, size)]


def test_given_timestamps_that_do_not_grow_when_appended_then_there_is_no_time_entry():
    """R19: a time entry only if the timestamp grew; it names the batch that has the largest."""
    batches = [batch(n, [timestamp]) for n, timestamp in enumerate([50, 90, 70, 80, 90, 95])]
    segment = with_config(index_interval_bytes=0).create()

    fill(segment, batches)

    assert len(offset_entries(segment)) == 5
    assert time_entries(segment) == [(90, 1), (95, 5)]


def test_given_several_batches_in_one_append_when_indexed_then_the_entry_is_kafkas():
    """R19: the last offset of all that was appended, and the position of the first byte."""
    first, *others = run(4)
    segment = with_config(index_interval_bytes=0).create()
    fill(segment, [first])

    size = sum(len(each.data) for each in others)
    segment.append(7, 1_031, 7, [each.data for each in others], size)

    assert offset_entries(segment) == [(7, len(first.data))]
    assert [segment.translate_offset(offset).offset for offset in (2, 4, 6)] == [2, 4, 6]


def test_given_an_offset_out_of_reach_when_appended_then_nothing_is_written():
    """R26, B14: relative offsets are 31 bits: append raises and never wraps around."""
    segment = Workbench().create(5)

    with pytest.raises(ValueError):
        fill(segment, [batch(5 + 2**31, [1])])

    assert segment.size_bytes == 0
    fill(segment, [batch(5 + 2**31 - 1, [1])])
    assert segment.next_offset() == 5 + 2**31


def test_given_a_full_disk_when_appended_then_nothing_has_changed():
    """R19: all or nothing; the next append goes on where the last good one ended."""
    bench = Workbench()
    segment = bench.create()
    batches = run(3)
    fill(segment, batches[:1])
    before = segment.size_bytes
    bench.disk.fail("write", OSError(errno.ENOSPC, "full"), path_suffix=".log")

    with pytest.raises(StorageError):
        fill(segment, batches[1:2])

    assert segment.size_bytes == before
    assert segment.next_offset() == 2
    assert fill(segment, batches[1:]) == positions(batches)[1:]


def test_given_an_index_that_cannot_be_written_when_appended_then_the_records_stand():
    """R18, B16: the index never fails the record; look-ups answer, and seal writes it anew."""
    bench = with_config(index_interval_bytes=0, segment_index_bytes=8192)
    segment = bench.create()
    batches = run(600)
    bench.disk.fail("write", OSError(errno.EIO, "bad"), path_suffix="index")

    fill(segment, batches)
    was_marked = segment.offset_index.needs_rebuild

    assert was_marked
    assert segment.translate_offset(900).offset == 900
    segment.seal()
    segment.close()
    assert bench.open().sanity_check()


def test_given_full_indexes_when_appended_all_the_same_then_the_records_stand():
    """B16: a roll that was not made is no reason to lose records."""
    segment = with_config(index_interval_bytes=0, segment_index_bytes=24).create()
    batches = run(20)

    fill(segment, batches)

    assert segment.offset_index.is_full
    assert segment.next_offset() == 40
    assert segment.translate_offset(38).offset == 38
    assert segment.largest_timestamp() == 1_191


# --- R20 -----------------------------------------------------------------------------------------


def test_given_timestamps_when_asked_then_the_largest_is_the_last_entrys_or_newer():
    """R20: the last time index entry's, or what was appended since."""
    bench = Workbench()
    segment = bench.create()
    fill(segment, run(10))
    with_entries = segment.largest_timestamp()

    fill(segment, [batch(20, [99_999]), batch(21, [5])])

    assert with_entries == 1_091
    assert segment.largest_timestamp() == 99_999
    segment.seal()
    segment.close()
    assert bench.open().largest_timestamp() == 99_999


@pytest.mark.parametrize("timestamp", [-1, 0])
def test_given_no_timestamps_when_asked_then_the_files_time_is_the_largest(timestamp):
    """R20: if none is above 0, the file's modification time."""
    bench = Workbench()
    segment = bench.create()
    fill(segment, [batch(0, [timestamp])])

    segment.set_modification_time_ms(123_456_000)

    assert segment.largest_timestamp() == 123_456_000


def test_given_an_empty_segment_when_asked_then_the_files_time_is_the_largest():
    """R20: an empty segment has no timestamp at all."""
    bench = Workbench()
    segment = bench.create()

    largest = segment.largest_timestamp()

    assert largest == NOW_MS
    assert segment.first_batch_timestamp() == -1


# --- R27 -----------------------------------------------------------------------------------------


def test_given_a_segment_when_sealed_then_the_indexes_are_trimmed_and_the_time_index_is_complete():
    """R27: on roll the indexes are trimmed, the last time-index entry written."""
    bench = Workbench()
    segment = bench.create()
    batches = run(4)
    fill(segment, batches)
    entries_before = time_entries(segment)

    segment.seal()

    assert entries_before[-1] == (1_021, 5)
    assert time_entries(segment)[-1] == (1_031, 7)
    for index in (segment.offset_index, segment.time_index):
        assert bench.disk.file_size(index.path) == index.size_bytes


def test_given_a_sealed_segment_when_not_flushed_yet_then_its_file_stays_pinned():
    """R27: the flush comes later, by the descriptor that wrote."""
    bench = Workbench()
    segment = bench.create()
    fill(segment, run(4))

    segment.seal()

    assert segment.records.has_unflushed
    bench.handles.open_files_max = 1
    bench.handles.get(segment.time_index.path)
    segment.flush()
    assert not segment.records.has_unflushed
    bench.disk.sync_directory(bench.directory)
    bench.crash()
    reopened = bench.open()
    assert reopened.sanity_check()
    assert reopened.next_offset() == 8


def test_given_a_sealed_segment_when_activated_then_it_can_be_appended_to():
    """R13: its indexes have room again."""
    bench = Workbench()
    bench.closed(run(10))
    segment = bench.open()

    segment.activate()
    fill(segment, run(10, base_offset=20, start_ms=5_000))

    assert segment.next_offset() == 40
    assert segment.translate_offset(33).offset == 32
    assert bench.disk.file_size(segment.offset_index.path) == 4096
    assert segment.largest_timestamp() == 5_091


def test_given_a_loaded_segment_when_appended_then_the_interval_goes_on():
    """R19: the bytes since the last index entry are found by the scan for the end."""
    batches = run(12)
    bench, other = Workbench(), Workbench()
    whole = other.create()
    fill(whole, batches)
    bench.closed(batches[:6])

    segment = bench.open(active=True)
    fill(segment, batches[6:])

    assert offset_entries(segment) == offset_entries(whole)


def test_given_a_clock_when_created_then_the_creation_time_is_known():
    bench = Workbench()
    bench.clock.advance(ms=77)

    segment = bench.create()

    assert segment.created_at_ms == TimestampMs(NOW_MS + 77)
