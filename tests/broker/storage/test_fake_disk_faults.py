"""The fake disk: the end of a process, and calls that fail."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from broker.clock import ManualClock
from protocol.errors import DataDirectoryError
from tests.support.fake_disk import FakeDisk, SimulatedCrash
from tests.support.fake_files import SEEDS, A, B, contents, new_file

# --- the end of a process ---------------------------------------------------------------------


def test_given_a_killed_process_when_read_then_the_page_cache_is_still_there() -> None:
    disk = FakeDisk()
    file = new_file(disk, A, b"unsynced", is_durable=False)
    disk.lock(B)

    disk.kill()

    assert disk.read_file(A) == b"unsynced"
    assert not disk.is_durable(A)
    disk.lock(B)
    with pytest.raises(OSError) as caught:
        file.read(1, 0)
    assert caught.value.errno == errno.EBADF


def test_given_a_crash_when_old_handles_are_used_then_they_are_dead() -> None:
    disk = FakeDisk()
    file = new_file(disk, A, b"data")

    disk.crash(Random(0))

    for use in (
        lambda: file.write([b"x"], 0),
        lambda: file.truncate(0),
        file.sync,
        file.size,
        lambda: file.map(1),
    ):
        with pytest.raises(OSError):
            use()
    assert disk.read_file(A) == b"data"
    assert disk.open_files == 0


@pytest.mark.parametrize("changes", range(7))
def test_given_a_crash_after_some_changes_when_they_are_done_then_the_next_never_happens(
    changes: int,
) -> None:
    disk = FakeDisk()
    disk.operations.clear()
    disk.crash_after(changes)

    with pytest.raises(SimulatedCrash):
        six_changes_and_one(disk)
    with pytest.raises(SimulatedCrash):
        disk.make_directory(B)

    names = [operation.name for operation in disk.changes()]
    assert names == ["create", "write", "sync", "sync_directory", "truncate", "unlink"][:changes]
    disk.crash()
    assert contents(disk) == ({"a": b"data"} if changes >= 4 else {})


def six_changes_and_one(disk: FakeDisk) -> None:
    file = new_file(disk, A, b"data")  # create, write, sync, sync_directory
    file.truncate(1)
    disk.unlink(A)
    disk.make_directory(B)


def test_given_a_crash_when_it_is_over_then_the_disk_works_again() -> None:
    disk = FakeDisk()
    disk.crash_after(0)
    disk.fail("write", OSError(errno.EIO, "broken"))
    disk.short_write(size=1)

    disk.crash()
    new_file(disk, A, b"data")

    assert contents(disk) == {"a": b"data"}


# --- faults -----------------------------------------------------------------------------------


def test_given_a_fault_when_its_turn_comes_then_those_calls_fail_and_no_others() -> None:
    disk = FakeDisk()
    a, b = new_file(disk, A), new_file(disk, B)
    disk.fail("write", OSError(errno.EIO, "broken"), after=1, times=2, path_suffix="a")

    outcomes = []
    for file in (a, b, a, b, a, a):
        try:
            outcomes.append(file.write([b"x"], 0))
        except OSError as error:
            outcomes.append(error.errno or 0)

    assert outcomes == [1, 1, errno.EIO, 1, errno.EIO, 1]


def test_given_a_failed_sync_when_the_next_succeeds_then_the_bytes_may_be_lost_all_the_same() -> (
    None
):
    """As Linux does: the pages count as clean, the cache still shows them."""
    left = set()
    for seed in SEEDS:
        disk = FakeDisk(seed=seed)
        file = new_file(disk, A, b"old ")
        file.write([b"lost?"], 4)
        disk.fail("sync", OSError(errno.EIO, "broken"))
        with pytest.raises(OSError):
            file.sync()
        file.write([b" later"], 9)
        file.sync()
        from_the_cache = disk.read_file(A)
        file.drop_cached_pages(0, 0)
        from_the_device = disk.read_file(A)
        disk.crash()

        assert from_the_cache == b"old lost? later"
        assert from_the_device == disk.read_file(A)
        assert from_the_device.startswith(b"old ")
        assert from_the_device.endswith(b" later")
        left.add(from_the_device[4:9])

    assert {b"lost?", bytes(5)} <= left


def test_given_dirty_pages_when_the_cache_is_dropped_then_they_stay() -> None:
    disk = FakeDisk()
    file = new_file(disk, A, b"clean")
    file.write([b"DIRTY"], 5)

    file.drop_cached_pages(0, 0)

    assert disk.read_file(A) == b"cleanDIRTY"


def test_given_short_writes_when_their_turn_comes_then_they_accept_less() -> None:
    disk = FakeDisk()
    file = new_file(disk, A)
    disk.short_write(after=1, size=2)

    accepted = [file.write([b"abc", b"def"], 0) for _ in range(3)]

    assert accepted == [6, 2, 6]


def test_given_little_space_when_written_then_it_is_short_then_full_until_there_is_room() -> None:
    disk = FakeDisk(space_bytes=10)
    a, b = new_file(disk, A), new_file(disk, B)

    accepted = [a.write([b"x" * 6], 0), b.write([b"x" * 6], 0), a.write([b"y" * 6], 0)]
    free_bytes = disk.free_bytes(Path("/"))
    with pytest.raises(OSError) as caught:
        b.write([b"x"], 4)
    a.truncate(1)

    assert accepted == [6, 4, 6]
    assert free_bytes == 0
    assert caught.value.errno == errno.ENOSPC
    assert b.write([b"x"], 4) == 1


def test_given_a_bound_of_open_files_when_passed_then_there_are_no_descriptors() -> None:
    disk = FakeDisk()
    disk.open_files_max = 1
    file = disk.open(A, create=True)

    with pytest.raises(OSError) as caught:
        disk.open(B, create=True)
    file.close()

    assert caught.value.errno == errno.EMFILE
    assert not disk.exists(B)
    disk.open(B, create=True)


def test_given_a_lock_when_taken_twice_then_the_second_is_refused() -> None:
    disk = FakeDisk()
    disk.lock(A)

    with pytest.raises(DataDirectoryError):
        disk.lock(A)


def test_given_a_clock_when_written_then_the_file_has_its_time() -> None:
    clock = ManualClock(now_ms=1_000)
    disk = FakeDisk(clock=clock)
    file = new_file(disk, A)

    created_ms = disk.modification_time_ms(A)
    clock.advance(ms=50)
    file.write([b"x"], 0)

    assert (created_ms, disk.modification_time_ms(A)) == (1_000, 1_050)
