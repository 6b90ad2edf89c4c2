"""The real disk: what only the operating system can show."""

from __future__ import annotations

import contextlib
import mmap
import os
import resource
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from broker.storage import os_disk
from broker.storage.os_disk import OsDisk
from protocol.errors import DataDirectoryError
from protocol.limits import BUFFERS_PER_WRITE_MAX


def test_given_any_umask_when_made_then_only_the_owner_may_look(tmp_path: Path) -> None:
    disk = OsDisk()
    before = os.umask(0)
    try:
        disk.make_directory(tmp_path / "d")
        disk.open(tmp_path / "d" / "a", create=True).close()
        disk.lock(tmp_path / "d" / ".lock").release()
    finally:
        os.umask(before)

    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("d", "d/a", "d/.lock")]

    assert modes == [0o700, 0o600, 0o600]


def test_given_an_open_file_when_a_program_is_started_then_it_is_not_inherited(
    tmp_path: Path,
) -> None:
    file = OsDisk().open(tmp_path / "a", create=True)

    inherited = os.get_inheritable(file._descriptor)

    assert not inherited


def test_given_a_read_only_file_when_written_then_it_is_refused(tmp_path: Path) -> None:
    disk = OsDisk()
    disk.open(tmp_path / "a", create=True).close()

    with pytest.raises(OSError):
        disk.open(tmp_path / "a", read_only=True).write([b"x"], 0)


def test_given_too_many_buffers_when_written_then_the_write_is_short(tmp_path: Path) -> None:
    file = OsDisk().open(tmp_path / "a", create=True)

    accepted = file.write([b"x"] * (BUFFERS_PER_WRITE_MAX + 1), 0)

    assert accepted == BUFFERS_PER_WRITE_MAX


def test_given_written_bytes_when_mapped_then_the_view_is_whole_and_read_only(
    tmp_path: Path,
) -> None:
    file = OsDisk().open(tmp_path / "a", create=True)
    file.write([b"abcdef"], 0)

    view = file.map(4)
    file.close()

    assert view is not None
    assert bytes(view) == b"abcd"
    assert view.readonly


def test_given_more_than_is_written_when_mapped_then_there_is_no_mapping(tmp_path: Path) -> None:
    """A touch beyond the file's end would be SIGBUS."""
    file = OsDisk().open(tmp_path / "a", create=True)
    file.write([b"abcdef"], 0)

    assert file.map(7) is None
    assert file.map(0) is None


def test_given_no_mappings_left_when_mapped_then_none_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = OsDisk().open(tmp_path / "a", create=True)
    file.write([b"abcdef"], 0)

    def fail(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", fail)

    assert file.map(6) is None


def test_given_written_pages_when_asked_then_they_are_cached(tmp_path: Path) -> None:
    file = OsDisk().open(tmp_path / "a", create=True)
    file.write([bytes(100_000)], 0)

    assert file.is_cached(0, 100_000)
    assert file.is_cached(5_000, 1)
    assert file.is_cached(0, 0)


def test_given_a_system_without_hints_when_asked_then_nothing_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os_disk, "_mincore", None)
    monkeypatch.setattr(os_disk, "_sync_file_range", None)
    file = OsDisk().open(tmp_path / "a", create=True)

    file.start_writeback(0, 1)

    assert file.is_cached(0, 1)


@pytest.mark.parametrize("missing", [False, True])
def test_given_the_c_library_when_searched_then_functions_are_found_or_none(missing: bool) -> None:
    name = "no_such_function" if missing else "mincore"

    found = os_disk._libc_function(name, None)

    assert (found is None) is missing


def test_given_a_directory_without_sync_when_synced_then_other_errors_still_come_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [OSError(22, "Invalid argument"), OSError(5, "Input/output error")]

    def fail(_: int) -> None:
        raise errors.pop(0)

    monkeypatch.setattr(os, "fsync", fail)

    OsDisk().sync_directory(tmp_path)
    with pytest.raises(OSError, match="Input/output"):
        OsDisk().sync_directory(tmp_path)


HOLDER = """
    import sys
    from pathlib import Path
    from broker.storage.directory_lock import DirectoryLock
    lock = DirectoryLock(Path(sys.argv[1]))
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_given_no_descriptor_left_when_a_directory_is_synced_then_it_still_can_be(
    tmp_path: Path,
) -> None:
    """Else a burst of new partitions would look like a failed sync, and end the broker."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/dev/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    taken: list[int] = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(OSError, match="Too many open files"):
            os.open(tmp_path, os.O_RDONLY)

        for _ in range(2):  # what it took is kept back again
            OsDisk().sync_directory(tmp_path)
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_given_another_process_when_it_locks_then_it_is_named_until_it_is_killed(
    tmp_path: Path,
) -> None:
    path = tmp_path / ".lock"
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(os_disk.__file__).parents[2],
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"

        with pytest.raises(DataDirectoryError, match=f"process id {holder.pid}"):
            OsDisk().lock(path)
        holder.kill()
        holder.wait()

    OsDisk().lock(path).release()


def test_given_a_holder_without_a_number_when_locked_then_another_broker_is_blamed(
    tmp_path: Path,
) -> None:
    lock = OsDisk().lock(tmp_path / ".lock")
    (tmp_path / ".lock").write_bytes(b"")

    with pytest.raises(DataDirectoryError, match="in use by another broker"):
        OsDisk().lock(tmp_path / ".lock")
    lock.release()
    lock.release()  # a second release is harmless
