"""TimeIndex: entries, look-ups, and what is silently left out."""

from __future__ import annotations

import errno
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.file_handles import FileHandles
from broker.storage.index_cache import IndexCache
from broker.storage.time_index import TimeIndex
from protocol.errors import IndexFullError
from tests.support.fake_disk import FakeDisk

PATH = Path("/00000000000000000045.timeindex")
BASE = 45
ENTRIES = [(10, 51), (20, 57), (2**40 + 1, 57), (2**40 + 2**31, 61)]


def index_of(disk, *, size_bytes_max=1200, active=True, create=False):
    return TimeIndex.open(
        FileHandles(disk), PATH, BASE, size_bytes_max,
        active=active, cache=IndexCache(), create=create,
    )  # fmt: skip


def filled(disk, entries=tuple(ENTRIES), **options):
    index = index_of(disk, create=True, **options)
    for entry in entries:
        assert index.append(*entry)
    return index


def entries_of(index):
    return [tuple(index.entry(number)) for number in range(index.entries)]


def write(disk, data):
    file = disk.open(PATH, create=True)
    file.truncate(0)
    file.write([data], 0)
    file.close()


def test_given_entries_when_closed_then_the_bytes_are_kafkas():
    """R12: timestamp int64, relative offset int32, 12 bytes; R13: trimmed on close."""
    disk = FakeDisk()
    index = filled(disk)

    index.close()

    pack = struct.Struct(">qi").pack
    assert disk.read_file(PATH) == b"".join(pack(time, offset - BASE) for time, offset in ENTRIES)


def test_given_a_size_when_made_then_it_is_rounded_down_to_whole_entries():
    """R13: 12-byte entries."""
    disk = FakeDisk()

    index = index_of(disk, create=True, size_bytes_max=1000)

    assert disk.file_size(PATH) == 996
    assert index.entries_max == 83


def test_given_a_trimmed_index_when_opened_as_active_then_it_goes_on():
    """R13: grown on open, its entries kept."""
    disk = FakeDisk()
    filled(disk).close()

    index = index_of(disk)
    index.append(2**50, 70)

    assert disk.file_size(PATH) == 1200
    assert entries_of(index) == [*ENTRIES, (2**50, 70)]


@pytest.mark.parametrize(
    "entry", [(2**40 + 2**31, 62), (5, 62), (2**41, 60)], ids=["equal", "earlier", "offset below"]
)
def test_given_an_entry_that_is_not_above_when_appended_then_it_is_left_out(entry):
    """R14: timestamp strictly above, offset not below; else silently left out."""
    index = filled(FakeDisk())

    taken = index.append(*entry)

    assert not taken
    assert entries_of(index) == ENTRIES


def test_given_no_timestamps_when_appended_then_the_index_stays_empty():
    """R14: -1 is no timestamp; 0 is one."""
    index = index_of(FakeDisk(), create=True)

    taken = [index.append(-1, 46), index.append(0, 47)]

    assert taken == [False, True]


@pytest.mark.parametrize("offset", [BASE - 1, BASE + 2**31])
def test_given_an_offset_out_of_reach_when_appended_then_it_is_refused(offset):
    """R14, B14: a relative offset is 31 bits; it never wraps around."""
    index = filled(FakeDisk())

    with pytest.raises(ValueError):
        index.append(2**50, offset)

    assert entries_of(index) == ENTRIES


def test_given_a_full_index_when_sealed_then_the_last_place_was_kept_for_that():
    """R14, R27: `is_full` one entry before the end, so that seal can add the last one."""
    index = index_of(FakeDisk(), create=True, size_bytes_max=24)
    index.append(1, 46)
    says_full = index.is_full

    with pytest.raises(IndexFullError):
        index.append(2, 47)
    taken = index.append(2, 47, last=True)

    assert says_full
    assert taken
    with pytest.raises(IndexFullError):
        index.append(3, 48, last=True)


@pytest.mark.parametrize("seal", [False, True])
def test_given_entries_when_looked_up_then_the_floor_is_found(seal):
    """R15: the last entry at or below the timestamp; before the first (-1, base offset)."""
    index = filled(FakeDisk())
    if seal:
        index.seal()

    found = [index.lookup(timestamp) for timestamp in (-5, 9, 10, 19, 20, 2**40, 2**62)]

    none = (-1, 45)
    assert found == [none, none, *[ENTRIES[0]] * 2, *[ENTRIES[1]] * 2, ENTRIES[3]]


def test_given_entries_when_asked_then_the_facts_are_told():
    """R15: `entry(n)`, `last_entry`, `last_offset`, `entries`, `size_bytes`; of an empty one."""
    index, empty = filled(FakeDisk()), index_of(FakeDisk(), create=True)

    facts = (index.entry(2), index.last_entry, index.last_offset, index.entries, index.size_bytes)

    assert facts == (ENTRIES[2], ENTRIES[3], 61, 4, 48)
    assert (empty.last_entry, empty.last_offset, empty.entries) == ((-1, 45), 45, 0)
    with pytest.raises(IndexError):
        index.entry(-1)


@given(
    steps=st.lists(st.tuples(st.integers(1, 2**34), st.integers(0, 9)), max_size=60),
    seal=st.booleans(),
)
def test_given_any_entries_when_looked_up_then_it_is_as_in_a_list(steps, seal):
    """R15: 64-bit timestamps, active or sealed and read back, against a plain search.

    Timestamps begin above 0: an entry of 0 at the base offset is all zeros, so a sealed index ends
    there (R17), and the look-up begins where it would without an entry: at the base offset.
    """
    entries, timestamp, offset = [], 0, BASE
    for time_step, offset_step in steps:
        timestamp, offset = timestamp + time_step, offset + offset_step
        entries.append((timestamp, offset))
    disk = FakeDisk()
    index = filled(disk, entries)

    if seal:
        index.close()
        index = index_of(disk, active=False)

    for asked in {timestamp + step for timestamp, _ in entries for step in (-1, 0, 1)}:
        below = [entry for entry in entries if entry[0] <= asked]
        assert index.lookup(asked) == (below[-1] if below else (-1, BASE))


@pytest.mark.parametrize(("offset", "left"), [(45, 0), (51, 0), (52, 1), (57, 1), (61, 3), (62, 4)])
def test_given_entries_when_truncated_to_an_offset_then_those_from_it_on_go(offset, left):
    """R16: `truncate_to` drops entries at or above the offset."""
    index = filled(FakeDisk())

    index.truncate_to(offset)

    assert entries_of(index) == ENTRIES[:left]
    assert index.append(2**60, 70)


@pytest.mark.parametrize(
    ("data", "sane"),
    [
        (b"", True),
        (struct.pack(">qi", 5, 0), True),  # the last offset is the base offset (B2)
        (struct.pack(">qi", 0, 0), True),  # a record of 1970, at the base offset
        (struct.pack(">qiqi", 5, 3, 6, 3), True),
        (struct.pack(">qi", 5, 0) + bytes(8), False),
        (struct.pack(">qi", 5, -1), False),
        (struct.pack(">qi", -5, 1), False),
        (struct.pack(">qiqi", 5, 3, 5, 4), False),
        (struct.pack(">qiqi", 5, 3, 6, 2), False),
        (struct.pack(">qi", 5, 3) + bytes(12), False),
    ],
)
def test_given_a_sealed_file_when_checked_then_only_a_whole_one_is_sane(data, sane):
    """R17: size, last offset, order at the end, and no zero tail in a file that was trimmed."""
    disk = FakeDisk()
    write(disk, data)
    index = index_of(disk, active=False)

    result = index.sanity_check()

    assert result is sane
    assert index.needs_rebuild is not sane


def test_given_a_disk_that_refuses_when_appended_then_memory_answers_and_seal_repairs():
    """R18: a failed index write never fails the caller."""
    disk = FakeDisk()
    disk.fail("write", OSError(errno.ENOSPC, "full"))
    index = filled(disk)
    index.write_out()
    was_marked = index.needs_rebuild

    index.close()

    assert was_marked
    assert entries_of(index_of(disk, active=False)) == ENTRIES
