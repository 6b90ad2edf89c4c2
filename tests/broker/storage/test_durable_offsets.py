"""DurableOffsets: the slot file says less than is true, or just as much; never more."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.durable_offsets import DurableOffsets, read_durable_offsets
from tests.support.fake_disk import FakeDisk

PATH = Path("/durable-offsets")
IDS = [UUID(int=number) for number in range(1, 5)]


def started(disk: FakeDisk, *offsets: int) -> DurableOffsets:
    return DurableOffsets(disk, PATH, [(IDS[n], n, offset) for n, offset in enumerate(offsets)])


def found(disk: FakeDisk) -> list[int]:
    return list(read_durable_offsets(disk, PATH).values())


def test_given_offsets_when_the_file_is_made_then_it_is_durable_at_once():
    disk = FakeDisk()

    started(disk, 5, 7)
    disk.crash()

    assert read_durable_offsets(disk, PATH) == {(IDS[0], 0): 5, (IDS[1], 1): 7}


def test_given_a_raised_offset_when_written_then_exact_after_kill_and_old_after_a_power_cut():
    disk = FakeDisk()
    offsets = started(disk, 5)
    slot = offsets.add(IDS[0], 0, 5)

    slot.set(9)
    assert found(disk) == [5]
    offsets.write()
    disk.kill()
    assert found(disk) == [9]

    disk.crash()
    assert found(disk) == [5]


def test_given_a_sync_when_the_power_is_cut_then_what_was_written_before_it_is_there():
    disk = FakeDisk()
    offsets = started(disk, 5)
    offsets.add(IDS[0], 0, 9)
    offsets.write()
    assert offsets.needs_sync

    offsets.sync()
    disk.crash()

    assert found(disk) == [9]
    assert not offsets.needs_sync


def test_given_a_truncation_when_the_offset_is_lowered_then_that_is_durable_on_return():
    disk = FakeDisk()
    offsets = started(disk, 50)

    offsets.add(IDS[0], 0, 50).lower(10)
    disk.crash()

    assert found(disk) == [10]


def test_given_a_deleted_partition_when_its_slot_is_freed_then_the_next_one_gets_it():
    disk = FakeDisk()
    offsets = started(disk, 5, 7)

    offsets.remove(IDS[0], 0)
    offsets.remove(IDS[0], 0)
    offsets.write()
    assert read_durable_offsets(disk, PATH) == {(IDS[1], 1): 7}
    size = disk.file_size(PATH)
    offsets.add(IDS[2], 0, 3)
    offsets.write()

    assert read_durable_offsets(disk, PATH) == {(IDS[2], 0): 3, (IDS[1], 1): 7}
    assert disk.file_size(PATH) == size


def test_given_a_full_disk_when_writing_then_it_is_written_the_next_time():
    disk = FakeDisk()
    offsets = started(disk, 5)
    slot = offsets.add(IDS[0], 0, 9)
    disk.fail("write", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    offsets.write()
    assert found(disk) == [5]
    slot.set(10)
    offsets.write()

    assert found(disk) == [10]


def test_given_a_sync_that_fails_when_lowering_then_the_caller_learns_it():
    disk = FakeDisk()
    slot = started(disk, 5).add(IDS[0], 0, 5)
    disk.fail("sync", OSError(errno.EIO, os.strerror(errno.EIO)))

    with pytest.raises(OSError, match="Input/output"):
        slot.lower(1)


@given(wound=st.integers(0, 32 * 3 - 1), bit=st.integers(0, 7))
def test_given_a_flipped_bit_when_read_then_at_most_hints_are_lost(wound, bit):
    disk = FakeDisk()
    started(disk, 5, 7)
    file = disk.open(PATH)
    (byte,) = file.read(1, wound)
    file.write([bytes([byte ^ 1 << bit])], wound)

    offsets = read_durable_offsets(disk, PATH)

    assert offsets.items() <= {(IDS[0], 0): 5, (IDS[1], 1): 7}.items()
    assert len(offsets) == (0 if wound < 32 else 1)


def test_given_no_file_when_read_then_nothing_is_known():
    assert read_durable_offsets(FakeDisk(), PATH) == {}
