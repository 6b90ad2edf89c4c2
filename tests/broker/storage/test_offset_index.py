"""OffsetIndex: entries, look-ups, the file it leaves, and what it makes of a bad one."""

from __future__ import annotations

import errno
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.file_handles import FileHandles
from broker.storage.index_cache import IndexCache
from broker.storage.index_file import WRITE_BEHIND_ENTRIES
from broker.storage.offset_index import OffsetIndex
from broker.storage.os_disk import OsDisk
from protocol.errors import IndexFullError
from tests.support.fake_disk import FakeDisk

PATH = Path("/00000000000000000045.index")
BASE = 45
ENTRIES = [(51, 0x0100), (57, 0x0200), (61, 0x7000_0000)]


def index_of(disk, *, size_bytes_max=1000, active=True, create=False, path=PATH, base=BASE):
    return OffsetIndex.open(
        FileHandles(disk), path, base, size_bytes_max,
        active=active, cache=IndexCache(), create=create,
    )  # fmt: skip


def filled(disk, entries=tuple(ENTRIES), **options):
    index = index_of(disk, create=True, **options)
    for entry in entries:
        index.append(*entry)
    return index


def entries_of(index):
    return [tuple(index.entry(number)) for number in range(index.entries)]


def write(disk, data, path=PATH):
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write([data], 0)
    file.close()


def test_given_entries_when_closed_then_the_bytes_are_kafkas():
    """R12: relative offset int32, position int32, entry n at byte 8n; R13: trimmed on close."""
    disk = FakeDisk()
    index = filled(disk)

    index.close()

    assert disk.read_file(PATH) == struct.pack(">6i", 6, 0x0100, 12, 0x0200, 16, 0x7000_0000)


def test_given_a_new_index_when_made_then_its_file_has_its_full_size():
    """R13: full size from the start, rounded down to a whole number of entries."""
    disk = FakeDisk()

    index = index_of(disk, create=True, size_bytes_max=1003)

    assert disk.file_size(PATH) == 1000
    assert index.entries_max == 125
    assert index.size_bytes == 0


def test_given_a_leftover_file_when_a_new_index_is_made_then_nothing_of_it_stays():
    """R13, B4: an index of that name from before a crash is not gone on with."""
    disk = FakeDisk()
    filled(disk).close()

    index = index_of(disk, create=True)

    assert index.entries == 0
    assert disk.read_file(PATH) == bytes(1000)


@pytest.mark.parametrize("end", ["seal", "close"])
def test_given_a_trimmed_index_when_opened_as_active_then_it_has_room_again(end):
    """R13: trimmed on seal and close; grown on open, or the first append would find it full."""
    disk = FakeDisk()
    getattr(filled(disk), end)()
    trimmed_bytes = disk.file_size(PATH)

    index = index_of(disk)
    index.append(70, 0x7100_0000)

    assert trimmed_bytes == 24
    assert disk.file_size(PATH) == 1000
    assert entries_of(index) == [*ENTRIES, (70, 0x7100_0000)]


def test_given_a_sealed_index_when_opened_then_its_file_is_left_as_it_is():
    """R13: only the active segment's indexes are grown."""
    disk = FakeDisk()
    filled(disk).close()

    index = index_of(disk, active=False)

    assert disk.file_size(PATH) == 24
    assert entries_of(index) == ENTRIES
    assert not index.needs_rebuild


@pytest.mark.parametrize("offset", [61, 60, 44, 45 - 2**31])
def test_given_an_offset_not_above_the_last_when_appended_then_it_is_refused(offset):
    """R14: strictly above the last entry's; else an error."""
    index = filled(FakeDisk())

    with pytest.raises(ValueError):
        index.append(offset, 0x7200_0000)

    assert entries_of(index) == ENTRIES


def test_given_an_offset_out_of_reach_when_appended_then_it_is_refused():
    """R14, B14: a relative offset is 31 bits; it never wraps around."""
    index = filled(FakeDisk())

    index.append(BASE + 2**31 - 1, 0x7200_0000)
    with pytest.raises(ValueError):
        index.append(BASE + 2**31, 0x7300_0000)

    assert index.last_offset == BASE + 2**31 - 1


def test_given_a_full_index_when_appended_then_it_says_so_before_and_raises():
    """R14: full is full; `is_full` says so before."""
    index = index_of(FakeDisk(), create=True, size_bytes_max=17)
    index.append(46, 1)
    had_room = not index.is_full
    index.append(47, 2)

    with pytest.raises(IndexFullError):
        index.append(48, 3)

    assert had_room
    assert index.is_full
    assert index.entries == 2


@pytest.mark.parametrize("seal", [False, True])
def test_given_entries_when_looked_up_then_the_floor_is_found(seal):
    """R15: the entry with the largest offset at or below; under the first (base offset, 0)."""
    index = filled(FakeDisk())
    if seal:
        index.seal()

    found = [tuple(index.lookup(offset)) for offset in (0, 45, 50, 51, 56, 57, 60, 61, 10_000)]

    first, second, third = ENTRIES
    assert found == [(45, 0)] * 3 + [first, first, second, second, third, third]


def test_given_an_empty_index_when_asked_then_the_base_offset_answers():
    """R15: (base offset, 0) in an empty index; `last_offset` is the base offset."""
    index = index_of(FakeDisk(), create=True)

    facts = (index.lookup(99), index.last_entry, index.last_offset, index.entries)

    assert facts == ((45, 0), (45, 0), 45, 0)


def test_given_entries_when_asked_by_number_then_they_are_counted_from_0():
    """R15: `entry(n)`, `last_entry`, `last_offset`, `entries`, `size_bytes`."""
    index = filled(FakeDisk())

    facts = (index.entry(1), index.last_entry, index.last_offset, index.entries, index.size_bytes)

    assert facts == (ENTRIES[1], ENTRIES[2], 61, 3, 24)
    for number in (-1, 3):
        with pytest.raises(IndexError):
            index.entry(number)


@given(
    steps=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 999)), max_size=60),
    seal=st.booleans(),
)
def test_given_any_entries_when_looked_up_then_it_is_as_in_a_list(steps, seal):
    """R15: every offset, active or sealed, against a plain search."""
    entries, offset, position = [], BASE, 0
    for offset_step, position_step in steps:
        offset, position = offset + offset_step, position + position_step
        entries.append((offset, position))

    index = filled(FakeDisk(), entries)
    if seal:
        index.seal()

    for asked in range(BASE - 1, offset + 2):
        below = [entry for entry in entries if entry[0] <= asked]
        assert index.lookup(asked) == (below[-1] if below else (BASE, 0))


@pytest.mark.parametrize(("offset", "left"), [(45, 0), (51, 0), (52, 1), (57, 1), (61, 2), (62, 3)])
def test_given_entries_when_truncated_to_an_offset_then_those_from_it_on_go(offset, left):
    """R16: `truncate_to` drops entries at or above the offset; what follows can be appended."""
    disk = FakeDisk()
    index = filled(disk)
    index.write_out()

    index.truncate_to(offset)
    index.append(100, 0x7800_0000)
    index.close()

    kept = struct.pack(">6i", 6, 0x0100, 12, 0x0200, 16, 0x7000_0000)[: 8 * left]
    assert disk.read_file(PATH) == kept + struct.pack(">ii", 55, 0x7800_0000)


def test_given_entries_when_cut_and_resized_then_the_file_follows():
    """R16: `truncate_to_entries`, `truncate`, `resize`, `trim_to_valid_size`."""
    disk = FakeDisk()
    index = filled(disk)
    index.write_out()

    index.truncate_to_entries(2)
    sizes = [disk.file_size(PATH)]
    index.resize(500)
    sizes.append(disk.file_size(PATH))
    index.trim_to_valid_size()
    sizes.append(disk.file_size(PATH))
    index.truncate()

    assert sizes == [1000, 496, 16]
    assert index.entries_max == 62
    assert index.entries == 0


def test_given_more_entries_than_the_new_size_when_resized_then_all_stay():
    """R16: an index is never cut below its entries."""
    index = filled(FakeDisk())

    index.resize(8)

    assert entries_of(index) == ENTRIES
    assert index.is_full


@pytest.mark.parametrize(
    ("data", "sane"),
    [
        (b"", True),
        (struct.pack(">ii", 0, 7), True),  # the last offset is the base offset (B2)
        (struct.pack(">4i", 1, 7, 2, 9), True),
        (struct.pack(">ii", 1, 7) + b"\0", False),  # not a whole number of entries
        (struct.pack(">ii", -1, 7), False),  # below the base offset
        (struct.pack(">ii", 1, -7), False),
        (struct.pack(">4i", 2, 7, 1, 9), False),  # not above the entry before it
        (struct.pack(">4i", 1, 9, 2, 9), False),
        (struct.pack(">ii", 1, 7) + bytes(80), False),  # a zero tail: entries were lost
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


def test_given_a_preallocated_file_when_opened_as_active_then_its_zero_tail_ends_it():
    """R17, B4: entries of zeros are no entries."""
    disk = FakeDisk()
    write(disk, struct.pack(">4i", 6, 0x0100, 12, 0x0200) + bytes(984))

    index = index_of(disk)

    assert entries_of(index) == ENTRIES[:2]
    assert not index.needs_rebuild


@pytest.mark.parametrize("active", [False, True])
def test_given_no_file_when_opened_then_it_wants_to_be_rebuilt(active):
    """R17, B6: a missing index is no error and no corruption: it is built again."""
    disk = FakeDisk()

    index = index_of(disk, active=active)

    assert index.needs_rebuild
    assert not index.sanity_check()
    assert index.lookup(99) == (BASE, 0)


@pytest.mark.parametrize(
    "operation", ["write", "truncate"], ids=["the entries", "the preallocation"]
)
def test_given_a_disk_that_refuses_when_appended_then_memory_answers_and_seal_repairs(operation):
    """R18: a failed index write never fails the caller; the index is marked and written later."""
    disk = FakeDisk()
    disk.fail(operation, OSError(errno.ENOSPC, "full"))
    index = filled(disk)
    index.write_out()
    was_marked = index.needs_rebuild

    index.seal()

    assert was_marked
    assert not index.needs_rebuild
    assert index.lookup(57) == (57, 0x0200)
    assert entries_of(index_of(disk, active=False)) == ENTRIES


def test_given_a_disk_that_goes_on_refusing_when_sealed_then_no_half_file_stays():
    """R18: a file that lacks entries would pass for a whole one after a restart."""
    disk = FakeDisk()
    index = filled(disk)
    disk.fail("write", OSError(errno.EIO, "bad"), times=100)

    index.seal()

    assert index.needs_rebuild
    assert not disk.exists(PATH)
    assert index.lookup(57) == (57, 0x0200)  # from the cache


def test_given_a_sync_that_fails_when_flushed_then_the_file_is_removed():
    """R18: after a failed sync nobody knows what the file holds; the log does not fail for it."""
    disk = FakeDisk()
    index = filled(disk)
    disk.fail("sync", OSError(errno.EIO, "bad"))

    index.flush()

    assert index.needs_rebuild
    assert not disk.exists(PATH)


def test_given_a_flush_when_power_is_cut_then_the_entries_are_there():
    """R27: a sealed index that was flushed is durable."""
    disk = FakeDisk()
    index = filled(disk)
    index.seal()
    index.flush()
    disk.sync_directory(PATH.parent)

    disk.crash()

    assert entries_of(index_of(disk, active=False)) == ENTRIES


def test_given_many_entries_when_appended_then_they_are_written_in_blocks():
    """R18: by pwrite, never one call for each entry."""
    disk = FakeDisk()
    index = index_of(disk, create=True, size_bytes_max=80_000)

    for number in range(3 * WRITE_BEHIND_ENTRIES + 10):
        index.append(BASE + number, number * 100 + 1)
    writes = [operation for operation in disk.operations if operation.name == "write"]

    assert 3 <= len(writes) <= 4
    index.close()
    assert index_of(disk, active=False).entries == 3 * WRITE_BEHIND_ENTRIES + 10


def test_given_a_sealed_index_when_renamed_and_deleted_then_the_file_goes_along():
    """R23, R39: an index is renamed and deleted with its segment; a missing file is no error."""
    disk = FakeDisk()
    index = filled(disk)
    index.seal()
    renamed = PATH.with_name(PATH.name + ".deleted")

    index.rename_to(renamed)
    there = disk.exists(renamed)
    index.delete()
    index.delete()

    assert there
    assert disk.list_directory(PATH.parent) == []


def test_given_a_real_disk_when_preallocated_then_the_file_is_sparse_and_reads_back(tmp_path):
    """R18: sparse ftruncate, never fallocate; the same on the real disk."""
    path = tmp_path / PATH.name
    index = filled(OsDisk(), path=path, size_bytes_max=10 * 1024 * 1024)
    index.write_out()
    status = path.stat()

    index.close()

    assert status.st_size == 10 * 1024 * 1024
    assert status.st_blocks * 512 < 64 * 1024
    assert entries_of(index_of(OsDisk(), path=path, active=False)) == ENTRIES
