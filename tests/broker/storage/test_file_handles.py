"""FileHandles and MappedFiles: bounded, but for what must stay open."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.file_handles import RELAX_PART, FileHandles
from tests.support.fake_disk import FakeDisk


def path(number: int) -> Path:
    return Path(f"/{number:020d}.log")


def disk_with_files(count: int) -> FakeDisk:
    disk = FakeDisk()
    for number in range(count):
        disk.open(path(number), create=True).close()
    return disk


def test_given_10000_files_when_all_are_read_then_100_are_open() -> None:
    """10,000 segments must not need 10,000 open files."""
    disk = disk_with_files(10_000)
    handles = FileHandles(disk, 100)

    for number in range(10_000):
        handles.get(path(number)).write([b"%d" % number], 0)
        assert disk.open_files <= 100

    assert handles.open_files == disk.open_files == 100
    assert handles.get(path(77)).read(9, 0) == b"77"


def test_given_a_full_cache_when_another_is_opened_then_the_least_recently_used_goes() -> None:
    disk = disk_with_files(3)
    handles = FileHandles(disk, 2)
    first, second = handles.get(path(0)), handles.get(path(1))

    handles.get(path(0))
    handles.get(path(2))

    assert handles.get(path(0)) is first
    assert handles.get(path(1)) is not second


def test_given_as_many_pinned_as_may_be_when_another_is_then_it_is_refused_until_one_goes() -> None:
    """Descriptors are left for those who cannot do without, such as a sync of a directory."""
    handles = FileHandles(disk_with_files(3), 1, pinned_files_max=2)
    first = handles.pin(path(0))
    handles.pin(path(1))

    with pytest.raises(OSError) as raised:
        handles.pin(path(2))
    again = handles.pin(path(0))
    handles.unpin(first)
    handles.unpin(again)

    assert raised.value.errno == errno.EMFILE
    assert handles.pin(path(2)).path == path(2)


def test_given_pinned_files_when_the_cache_is_full_then_they_stay_open() -> None:
    """The descriptor that wrote is the one that syncs."""
    handles = FileHandles(disk_with_files(10), 2)
    pinned = [handles.pin(path(number)) for number in range(4)]

    for number in range(4, 10):
        handles.get(path(number))

    assert [handles.get(path(number)) for number in range(4)] == pinned
    assert handles.open_files == 5  # one idle file is let in, or nothing could be read


def test_given_a_file_pinned_twice_when_unpinned_once_then_it_stays() -> None:
    disk = disk_with_files(3)
    handles = FileHandles(disk, 1)
    file = handles.pin(path(0))
    handles.pin(path(0))

    handles.unpin(file)
    handles.get(path(1))
    assert handles.get(path(0)) is file
    handles.unpin(file)
    handles.get(path(2))

    assert disk.open_files == 1
    assert handles.get(path(0)) is not file


def test_given_more_pinned_than_allowed_when_unpinned_then_the_bound_holds_again() -> None:
    disk = disk_with_files(5)
    handles = FileHandles(disk, 2)
    pinned = [handles.pin(path(number)) for number in range(5)]

    for file in pinned:
        handles.unpin(file)

    assert disk.open_files == handles.open_files == 2


def test_given_an_open_file_when_renamed_then_it_is_found_by_its_new_name() -> None:
    disk = disk_with_files(2)
    handles = FileHandles(disk, 10)
    idle, pinned = handles.get(path(0)), handles.pin(path(1))

    for number in (0, 1):
        disk.rename(path(number), path(number + 10))
        handles.renamed(path(number), path(number + 10))
    handles.unpin(pinned)

    assert handles.get(path(10)) is idle
    assert handles.get(path(11)) is pinned
    assert (idle.path, pinned.path) == (path(10), path(11))
    with pytest.raises(FileNotFoundError):
        handles.get(path(0))


def test_given_a_directory_when_renamed_then_all_its_open_files_follow() -> None:
    disk = FakeDisk()
    old, new = Path("/t-0"), Path("/t-0.x-delete")
    disk.make_directory(old)
    handles = FileHandles(disk, 10)
    idle = handles.get(old / "a", create=True)
    pinned = handles.pin(old / "b", create=True)
    other = handles.get(Path("/t-01"), create=True)

    disk.rename(old, new)
    handles.renamed(old, new)

    assert handles.get(new / "a") is idle
    assert handles.get(new / "b") is pinned
    assert handles.get(Path("/t-01")) is other


def test_given_an_open_file_when_another_takes_its_name_then_the_other_is_found() -> None:
    disk = disk_with_files(2)
    handles = FileHandles(disk, 10)
    replaced, replacing = handles.get(path(0)), handles.get(path(1))

    disk.rename(path(1), path(0))
    handles.renamed(path(1), path(0))

    assert handles.get(path(0)) is replacing
    assert replaced is not replacing
    assert disk.open_files == 1


def test_given_a_pinned_file_when_forgotten_then_its_last_unpin_closes_it() -> None:
    """A thread may be syncing it: its descriptor must not become another file's."""
    disk = disk_with_files(1)
    handles = FileHandles(disk, 10)
    file = handles.pin(path(0))

    handles.forget(path(0))
    disk.unlink(path(0))
    renewed = handles.pin(path(0), create=True)
    file.sync()
    handles.unpin(file)

    assert renewed is not file
    assert handles.open_files == disk.open_files == 1
    with pytest.raises(OSError):
        file.sync()
    renewed.sync()


def test_given_an_idle_file_when_forgotten_then_it_is_closed() -> None:
    disk = disk_with_files(1)
    handles = FileHandles(disk, 10)
    handles.get(path(0))

    handles.forget(path(0))
    handles.forget(path(0))

    assert disk.open_files == 0


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_given_no_descriptors_left_when_opened_then_idle_files_make_room(number: int) -> None:
    disk = disk_with_files(5)
    handles = FileHandles(disk, 100)
    pinned = handles.pin(path(0))
    handles.get(path(1))
    handles.get(path(2))
    disk.fail("open", OSError(number, "Too many open files"))

    handles.get(path(3))

    assert disk.open_files == 3
    assert handles.get(path(0)) is pinned


def test_given_no_descriptors_when_shrunk_then_half_goes_and_it_stays_small_for_a_while() -> None:
    disk = disk_with_files(10)
    handles = FileHandles(disk, 6)
    pinned = handles.pin(path(9))
    for number in range(5):
        handles.get(path(number))

    handles.shrink()
    shrunk = disk.open_files
    for number in range(9):
        handles.get(path(number))
    refilled = disk.open_files
    for _ in range(RELAX_PART):
        handles.relax()
    for number in range(9):
        handles.get(path(number))

    assert (shrunk, refilled, disk.open_files) == (3, 3, 6)
    assert handles.get(path(9)) is pinned


def test_given_everything_pinned_when_shrunk_then_files_can_still_be_opened() -> None:
    handles = FileHandles(disk_with_files(3), 1)
    handles.shrink()

    assert handles.open_files_max == 1
    assert handles.get(path(0)).size() == handles.get(path(1)).size()


def test_given_no_descriptors_and_nothing_idle_when_opened_then_the_error_comes_out() -> None:
    disk = disk_with_files(3)
    handles = FileHandles(disk, 100)
    disk.open_files_max = 1
    handles.pin(path(0))

    with pytest.raises(OSError) as caught:
        handles.get(path(1))

    assert caught.value.errno == errno.EMFILE


def test_given_a_close_that_fails_when_evicted_then_the_next_file_is_opened_all_the_same() -> None:
    disk = disk_with_files(2)
    handles = FileHandles(disk, 1)
    handles.get(path(0))
    disk.fail("close", OSError(errno.EIO, "Input/output error"))

    handles.get(path(1))

    assert handles.open_files == 1


def test_given_open_files_when_all_are_closed_then_none_is_open() -> None:
    disk = disk_with_files(3)
    handles = FileHandles(disk, 10)
    handles.get(path(0))
    handles.pin(path(1))
    handles.pin(path(2))
    handles.forget(path(2))

    handles.close_all()

    assert handles.open_files == disk.open_files == 0


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["get", "pin", "unpin", "forget"]), st.integers(0, 5)),
        max_size=40,
    )
)
def test_given_any_steps_when_done_then_pinned_stay_open_and_the_rest_is_bounded(
    steps: list[tuple[str, int]],
) -> None:
    disk = disk_with_files(6)
    handles = FileHandles(disk, 3)
    pinned: list[tuple[int, object]] = []

    for step, number in steps:
        if step == "get":
            handles.get(path(number))
        elif step == "pin":
            pinned.append((number, handles.pin(path(number))))
        elif step == "forget":
            handles.forget(path(number))
        elif pinned:
            handles.unpin(pinned.pop(number % len(pinned))[1])  # type: ignore[arg-type]
        in_use = {id(file) for _, file in pinned}

        assert all(file.read(1, 0) == b"" for _, file in pinned)  # type: ignore[attr-defined]
        assert disk.open_files == handles.open_files <= max(3, len(in_use) + 1)
