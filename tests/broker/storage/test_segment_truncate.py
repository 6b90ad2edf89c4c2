"""LogSegment.truncate_to: what is cut, and what is left as if the rest had never been."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.segments import (
    Workbench,
    batch,
    batch_lists,
    fill,
    interesting_timestamps,
    positions,
    run,
    scan_for_offset,
    scan_for_timestamp,
)


@given(
    batches=batch_lists(1_000),
    state=st.sampled_from(["active", "sealed", "loaded"]),
    data=st.data(),
)
def test_given_any_offset_when_truncated_then_the_rest_is_as_if_it_were_all(batches, state, data):
    """R25: cuts log and indexes at the first batch at or above offset, returns bytes cut."""
    bench = Workbench()
    segment = bench.create(1_000)
    fill(segment, batches)
    if state != "active":
        segment.seal()
    if state == "loaded":
        segment.close()
        segment = bench.open(1_000)
    offset = data.draw(st.integers(999, batches[-1].next_offset + 2))
    left = [each for each in batches if each.last_offset < offset]

    cut_bytes = segment.truncate_to(offset)

    assert cut_bytes == sum(len(each.data) for each in batches[len(left) :])
    assert segment.size_bytes == bench.disk.file_size(segment.path)
    assert segment.largest_timestamp() == max(
        (each.max_timestamp for each in left), default=bench.clock.now_ms()
    )
    again = [batch(offset + 10, [1_700_000_000_500, 1_700_090_000_000])]
    fill(segment, again)
    whole = left + again
    for asked in range(1_000, offset + 13):
        assert segment.translate_offset(asked) == scan_for_offset(whole, asked)
    for timestamp in interesting_timestamps(whole):
        assert segment.offset_for_timestamp(timestamp) == scan_for_timestamp(whole, timestamp)
    assert bench.cache.index_rebuilds == 0


def test_given_an_offset_inside_a_batch_when_truncated_then_the_batch_goes_whole():
    """R25: at the first batch whose last offset is at or above."""
    batches = run(5)
    segment = Workbench().create()
    fill(segment, batches)

    segment.truncate_to(5)

    assert segment.size_bytes == positions(batches)[2]
    assert segment.next_offset() == 4


@pytest.mark.parametrize("offset", [10, 11, 10**12])
def test_given_an_offset_above_the_last_when_truncated_then_nothing_happens(offset):
    """R25: above the last offset it does nothing."""
    segment = Workbench().create()
    fill(segment, run(5))
    before = segment.size_bytes

    cut_bytes = segment.truncate_to(offset)

    assert cut_bytes == 0
    assert segment.size_bytes == before
    assert segment.next_offset() == 10


def test_given_everything_cut_when_truncated_then_the_segment_is_new():
    """R25: cutting everything resets the creation time (and with it the age for a roll, R26)."""
    bench = Workbench()
    segment = bench.create(50)
    fill(segment, run(5, 50))
    bench.clock.advance(ms=9_000)

    segment.truncate_to(40)

    assert segment.size_bytes == 0
    assert segment.created_at_ms == bench.clock.now_ms()
    assert segment.first_batch_timestamp() == -1
    assert segment.next_offset() == 50
    assert (segment.offset_index.entries, segment.time_index.entries) == (0, 0)


def test_given_some_left_when_truncated_then_the_creation_time_stays():
    """R25: only cutting everything resets it."""
    bench = Workbench()
    segment = bench.create()
    fill(segment, run(5))
    created_at_ms = segment.created_at_ms
    bench.clock.advance(ms=9_000)

    segment.truncate_to(2)

    assert segment.created_at_ms == created_at_ms
    assert segment.first_batch_timestamp() == 1_001


@pytest.mark.parametrize("offset", [8, 99])
def test_given_bytes_since_the_last_entry_when_truncated_then_they_are_zeroed(offset):
    """R25: always zeroes bytes-since-last-index-entry, even where nothing is cut."""
    batches = run(6)  # the interval is more than one of them, and less than two
    segment = Workbench().create()
    fill(segment, batches[:2])  # the next one would get an entry

    segment.truncate_to(offset)
    fill(segment, batches[2:4])
    entries_after_two = segment.offset_index.entries
    fill(segment, batches[4:5])

    assert entries_after_two == 0
    assert segment.offset_index.last_offset == 9


def test_given_a_cut_when_appended_then_bytes_count_towards_an_entry_from_there():
    """R25: the bytes that are left since the last entry count no more."""
    batches = run(6)
    segment = Workbench().create()
    fill(segment, batches[:3])  # the third has an entry

    segment.truncate_to(4)
    entries_after_the_cut = segment.offset_index.entries
    fill(segment, batches[2:4])
    entries_after_two = segment.offset_index.entries
    fill(segment, batches[4:5])

    assert (entries_after_the_cut, entries_after_two) == (0, 0)
    assert segment.offset_index.last_offset == 9


def test_given_an_append_of_several_batches_when_cut_in_its_middle_then_its_entry_goes():
    """R25, R19: the entry names the last offset of what was appended at once."""
    (first,) = run(1)
    segment = Workbench().create()
    fill(segment, [first, *run(1, 2)])
    several = [batch(4 + 2 * n, [2_000 + n, 2_000 + n]) for n in range(5)]
    size = sum(len(each.data) for each in several)
    segment.append(13, 2_004, 13, [each.data for each in several], size)
    assert segment.offset_index.last_offset == 13

    segment.truncate_to(8)
    fill(segment, [batch(8, [3_000])])

    assert segment.next_offset() == 9
    assert [segment.translate_offset(n).offset for n in (4, 6, 8)] == [4, 6, 8]
    assert segment.offset_for_timestamp(2_002) == (3_000, 8)


def test_given_a_sealed_segment_when_truncated_then_it_is_the_one_appended_to():
    """R25, R13: truncation makes an older segment the active one: its indexes have full size."""
    bench = Workbench()
    segment = bench.create()
    fill(segment, run(9))
    segment.seal()

    segment.truncate_to(6)

    assert not segment.records.is_sealed
    assert bench.disk.file_size(segment.offset_index.path) == 4096
    assert bench.disk.file_size(segment.time_index.path) == 4092


def test_given_a_truncation_when_power_is_cut_after_its_flush_then_it_holds():
    """R25: what was cut does not come back once the cut is flushed."""
    bench = Workbench()
    segment = bench.create()
    fill(segment, run(9))
    segment.flush()
    bench.disk.sync_directory(bench.directory)

    segment.truncate_to(6)
    segment.flush()
    bench.crash()

    assert bench.open().recover().next_offset == 6
