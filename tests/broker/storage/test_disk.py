"""The Disk contract, held by the real disk and by the fake one alike; and what is built on it."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.storage.disk import Disk, DiskFile, replace_file, storage_errors, write_whole
from broker.storage.os_disk import OsDisk
from protocol.errors import DataDirectoryError, StorageError
from protocol.limits import BUFFERS_PER_WRITE_MAX
from tests.support.fake_disk import FakeDisk, SimulatedCrash


@pytest.fixture(params=["os", "fake"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, Path]:
    """A disk and an empty directory on it."""
    if request.param == "os":
        return OsDisk(), tmp_path
    disk = FakeDisk()
    disk.make_directory(Path("/data"))
    return disk, Path("/data")


def test_given_a_new_file_when_written_then_it_is_read_back(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    file = disk.open(directory / "a", create=True)

    accepted = file.write([b"one", bytearray(b"two"), memoryview(b"three")], 2)

    assert accepted == 11
    assert file.size() == 13
    assert file.read(100, 0) == b"\0\0onetwothree"
    assert file.read(3, 5) == b"two"
    assert file.read(3, 13) == b""
    assert disk.read_file(directory / "a") == b"\0\0onetwothree"
    assert disk.file_size(directory / "a") == 13


def test_given_a_file_when_read_into_then_it_fills_up_to_the_end(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    file = disk.open(directory / "a", create=True)
    file.write([b"abcdef"], 0)
    buffer = bytearray(b"........")

    whole = file.read_into(memoryview(buffer)[:3], 1)
    cut = file.read_into(memoryview(buffer)[3:], 4)

    assert (whole, cut) == (3, 2)
    assert buffer == b"bcdef..."


def test_given_a_file_when_truncated_then_it_shrinks_and_grows(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    file = disk.open(directory / "a", create=True)
    file.write([b"abcdef"], 0)

    file.truncate(2)
    file.truncate(4)

    assert file.read(10, 0) == b"ab\0\0"


def test_given_hints_when_called_then_nothing_changes(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    file = disk.open(directory / "a", create=True)
    file.write([b"abcdef"], 0)

    file.start_writeback(0, 6)
    file.sync()
    file.drop_cached_pages(0, 0)
    file.is_cached(0, 6)

    assert file.read(6, 0) == b"abcdef"


def test_given_no_file_when_opened_then_it_is_not_found(place: tuple[Disk, Path]) -> None:
    disk, directory = place

    with pytest.raises(FileNotFoundError):
        disk.open(directory / "a")
    with pytest.raises(FileNotFoundError):
        disk.open(directory / "missing" / "a", create=True)
    assert not disk.exists(directory / "a")


def test_given_an_open_file_when_renamed_and_unlinked_then_it_stays_readable(
    place: tuple[Disk, Path],
) -> None:
    disk, directory = place
    file = disk.open(directory / "a", create=True)
    file.write([b"abc"], 0)

    disk.rename(directory / "a", directory / "b")
    names = disk.list_directory(directory)
    disk.unlink(directory / "b")

    assert names == ["b"]
    assert disk.list_directory(directory) == []
    assert file.read(3, 0) == b"abc"


def test_given_a_closed_file_when_used_then_it_is_refused(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    file = disk.open(directory / "a", create=True)

    file.close()
    file.close()

    with pytest.raises(OSError) as caught:
        file.read(1, 0)
    assert caught.value.errno == errno.EBADF


def test_given_a_directory_when_renamed_then_its_files_go_along(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    disk.make_directory(directory / "t-0")
    disk.open(directory / "t-0" / "a", create=True).close()

    disk.rename(directory / "t-0", directory / "t-0.x-delete")

    assert disk.is_directory(directory / "t-0.x-delete")
    assert disk.list_directory(directory / "t-0.x-delete") == ["a"]
    assert not disk.exists(directory / "t-0")


def test_given_a_modification_time_when_set_then_it_is_read(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    disk.open(directory / "a", create=True).close()

    disk.set_modification_time_ms(directory / "a", 1_600_000_000_123)

    assert disk.modification_time_ms(directory / "a") == 1_600_000_000_123


def test_given_a_locked_directory_when_locked_again_then_it_is_refused(
    place: tuple[Disk, Path],
) -> None:
    disk, directory = place
    lock = disk.lock(directory / ".lock")

    with pytest.raises(DataDirectoryError):
        disk.lock(directory / ".lock")
    lock.release()

    disk.lock(directory / ".lock").release()


def test_given_a_directory_when_asked_for_space_then_there_is_some(
    place: tuple[Disk, Path],
) -> None:
    disk, directory = place

    free_bytes = disk.free_bytes(directory)

    assert free_bytes > 0


NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/b", "e"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, st.integers(0, 20), st.binary(max_size=20)),
        st.tuples(st.just("truncate"), NAMES, st.integers(0, 30)),
        st.tuples(st.just("rename"), NAMES, NAMES),
        st.tuples(st.just("unlink"), NAMES),
        st.tuples(st.just("make_directory"), st.sampled_from(["d", "e"])),
        st.tuples(st.just("remove_directory"), st.sampled_from(["d", "e"])),
    ),
    max_size=15,
)


def outcome(disk: Disk, root: Path, step: tuple[Any, ...]) -> object:
    """What a step leaves behind, or the kind of error it meets."""
    name, first, *rest = step
    path = root / first
    try:
        if name == "write":
            file = disk.open(path, create=True)
            file.write([rest[1]], rest[0])
            file.close()
            return disk.read_file(path)
        if name == "truncate":
            disk.open(path).truncate(rest[0])
            return disk.read_file(path)
        if name == "rename":
            disk.rename(path, root / rest[0])
        else:
            getattr(disk, name)(path)
        return disk.list_directory(root)
    except OSError as error:
        # Which of several reasons is named first is the kernel's business.
        return "refused" if error.errno in REFUSALS else error.errno


REFUSALS = {
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.EINVAL),
    errno.EPERM,
}


@given(steps=STEPS)
@settings(max_examples=60, deadline=None)
def test_given_any_steps_when_done_on_both_disks_then_they_agree(
    steps: list[tuple[Any, ...]],
) -> None:
    fake = FakeDisk()
    with tempfile.TemporaryDirectory() as name:
        real_outcomes = [outcome(OsDisk(), Path(name), step) for step in steps]
        real_names = sorted(str(path.relative_to(name)) for path in Path(name).rglob("*"))

    fake_outcomes = [outcome(fake, Path("/"), step) for step in steps]

    assert fake_outcomes == real_outcomes
    assert [
        path for path in ["a", "b", "d", "d/a", "d/b", "e"] if fake.exists(Path("/", path))
    ] == [path for path in real_names if path in {"a", "b", "d", "d/a", "d/b", "e"}]


# --- write_whole, replace_file ----------------------------------------------------------------


@given(
    buffers=st.lists(st.binary(max_size=30), max_size=12),
    accepted_bytes=st.lists(st.integers(1, 25), max_size=6),
)
def test_given_short_writes_when_written_whole_then_every_byte_is_in_place(
    buffers: list[bytes], accepted_bytes: list[int]
) -> None:
    disk = FakeDisk()
    file = disk.open(Path("/a"), create=True)
    for size in accepted_bytes:
        disk.short_write(size=size)

    written = write_whole(file, buffers, 3)

    assert written == len(b"".join(buffers))
    assert file.read(1000, 3) == b"".join(buffers)


def test_given_more_buffers_than_a_call_takes_when_written_whole_then_all_are_written(
    place: tuple[Disk, Path],
) -> None:
    disk, directory = place
    file = disk.open(directory / "a", create=True)
    buffers = [b"%d," % number for number in range(2 * BUFFERS_PER_WRITE_MAX + 5)]

    written = write_whole(file, buffers, 0)

    assert written == file.size()
    assert file.read(written + 1, 0) == b"".join(buffers)


def test_given_a_disk_that_accepts_nothing_when_written_whole_then_it_ends() -> None:
    disk = FakeDisk()
    file = disk.open(Path("/a"), create=True)
    disk.short_write(size=0)

    with pytest.raises(OSError) as caught:
        write_whole(file, [b"abc"], 0)

    assert caught.value.errno == errno.EIO


def test_given_a_file_when_replaced_then_the_order_makes_it_durable() -> None:
    disk = FakeDisk()

    replace_file(disk, Path("/checkpoint"), b"new")

    names = [operation.name for operation in disk.changes()]
    assert names == ["create", "truncate", "write", "sync", "rename", "sync_directory"]
    assert disk.is_durable(Path("/checkpoint"))


@given(random=st.randoms(use_true_random=False), changes=st.integers(0, 6))
def test_given_a_crash_in_a_replacement_when_read_then_it_is_the_old_or_the_new(
    random: Random, changes: int
) -> None:
    disk = FakeDisk()
    path = Path("/checkpoint")
    replace_file(disk, path, b"the old one, longer")

    disk.crash_after(changes)
    finished = replaced(disk, path, b"new")
    disk.crash(random)

    found = disk.read_file(path)
    assert found == b"new" if finished else found in {b"the old one, longer", b"new"}
    replace_file(disk, path, b"again")  # a leftover does not get in the way
    assert disk.read_file(path) == b"again"


def replaced(disk: FakeDisk, path: Path, data: bytes) -> bool:
    try:
        replace_file(disk, path, data)
    except SimulatedCrash:
        return False
    return True


def test_given_an_os_error_when_met_inside_then_a_storage_error_names_file_and_errno() -> None:
    disk = FakeDisk()
    file: DiskFile = disk.open(Path("/a"), create=True)
    disk.fail("read", OSError(errno.EIO, "broken"))

    with (
        pytest.raises(StorageError, match="cannot read /a: broken") as caught,
        storage_errors("read", file.path),
    ):
        file.read(1, 0)

    assert caught.value.errno == errno.EIO
