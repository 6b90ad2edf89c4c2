"""Disk: what the engine may ask of a file system, so that a test can put a failing one beneath it.

All positions and sizes are bytes. Every call may raise OSError, which passes through as it is: the
engine decides by errno, and turns it into a StorageError where a caller of ours can meet it.
`OsDisk` is the real one; the tests have one in memory that loses what was not synced.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from protocol.errors import StorageError
from protocol.limits import BUFFERS_PER_WRITE_MAX

if TYPE_CHECKING:
    from pathlib import Path

    from protocol.identifiers import Buffer

TEMPORARY_SUFFIX = ".tmp"
"""A file being replaced is first written beside itself under this suffix; leftovers are junk."""


class DiskFile(Protocol):
    """An open file without a file position: each read and write names its own (R7)."""

    path: Path
    """Under which name it is known now; whoever renames the file sets it."""

    def read(self, size: int, position: int) -> bytes:
        """Return `size` bytes from `position` on, fewer only at the end of the file."""
        ...

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from `position` on; return the bytes read, fewer only at the end."""
        ...

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        """Write the buffers one after the other, by one system call; return the bytes written.

        It may be short, a full disk's first answer; `write_whole` goes on where it stopped.
        """
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, or grow it by a hole of zeros."""
        ...

    def size(self) -> int: ...

    def sync(self) -> None:
        """Return once data and size are on stable storage (fdatasync).

        An error here is final: the kernel has marked the pages clean and may have lost them.
        """
        ...

    @property
    def sync_descriptor(self) -> int | None:
        """The descriptor whose fdatasync is all that `sync` does; None if it does anything else."""
        ...

    def start_writeback(self, position: int, size: int) -> None:
        """Have the kernel start writing dirty pages (sync_file_range): a hint, nothing durable."""
        ...

    def drop_cached_pages(self, position: int, size: int) -> None:
        """Forget clean pages, so that the next read asks the device; size 0 is to the end."""
        ...

    def map(self, size: int) -> memoryview | None:
        """Return the first `size` bytes as a read-only mapping, or None where that cannot be."""
        ...

    def is_cached(self, position: int, size: int) -> bool:
        """Whether all of the range is in memory; True where nobody knows."""
        ...

    def close(self) -> None: ...


class Lock(Protocol):
    """A lock on a directory, held until released or until the process ends."""

    def release(self) -> None: ...

    def check(self) -> None:
        """Raise OSError if another file, or none, is now where the locked one was.

        Then the directory is not the one that was locked: it was unmounted, or removed.
        """
        ...


class Disk(Protocol):
    """A file system. Entries of a directory are durable after `sync_directory` of it only."""

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> DiskFile:
        """Open a file; with `create` it is made, for its owner only, where there is none."""
        ...

    def exists(self, path: Path) -> bool: ...

    def is_directory(self, path: Path) -> bool: ...

    def list_directory(self, path: Path) -> list[str]:
        """Return the names in a directory, sorted, so that nothing depends on their order."""
        ...

    def file_sizes(self, path: Path) -> dict[str, int]:
        """Return the sizes of the regular files in a directory, by name."""
        ...

    def make_directory(self, path: Path) -> None:
        """Make one directory, for its owner only; its parent must be there."""
        ...

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file or directory, atomically; a file at `new` is replaced."""
        ...

    def unlink(self, path: Path) -> None: ...

    def read_file(self, path: Path) -> bytes:
        """Return a whole, small file."""
        ...

    def file_size(self, path: Path) -> int: ...

    def modification_time_ms(self, path: Path) -> int: ...

    def set_modification_time_ms(self, path: Path, timestamp_ms: int) -> None: ...

    def sync_directory(self, path: Path) -> None:
        """Return once the directory's entries (new, renamed, removed) are on stable storage."""
        ...

    def free_bytes(self, path: Path) -> int:
        """Return what this user may still write to the file system that holds `path`."""
        ...

    def total_bytes(self, path: Path) -> int:
        """Return the size of the file system that holds `path`."""
        ...

    def lock(self, path: Path) -> Lock:
        """Lock by the file `path`, made if missing. DataDirectoryError: another one holds it."""
        ...


def write_whole(
    file: DiskFile, buffers: Sequence[Buffer], position: int, *, written: int = 0
) -> int:
    """Write all bytes of `buffers` from `position` on; return how many those are.

    Args:
        written: How many of them, from the first on, are there already.

    Raises:
        OSError: Some of the bytes may have been written: the caller cuts back.
    """
    pending = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
    first, accepted = 0, written
    while True:
        while first < len(pending) and accepted >= len(pending[first]):
            accepted -= len(pending[first])
            first += 1
        if first == len(pending):
            return written
        pending[first] = pending[first][accepted:]
        accepted = file.write(pending[first : first + BUFFERS_PER_WRITE_MAX], position + written)
        if accepted <= 0:  # never said by a sane kernel; without this it would be an endless loop
            raise OSError(errno.EIO, "the disk accepts no bytes and gives no reason")
        written += accepted


def replace_file(disk: Disk, path: Path, data: bytes) -> None:
    """Give the file `path` new contents, all or nothing, durable on return.

    A temporary file is written and synced, renamed over `path`, and the directory synced. Without
    the first sync, a crash may leave an empty file under the old name (KAFKA-16541).

    Raises:
        OSError: `path` has its old contents, or the new ones, perhaps not durably; nothing else is
            left behind, so that a full disk gets no fuller.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    file = disk.open(temporary, create=True)
    try:
        file.truncate(0)  # a leftover of a crash may be longer than `data`
        write_whole(file, [data], 0)
        file.sync()
    except OSError:
        with contextlib.suppress(OSError):
            disk.unlink(temporary)
        raise
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_directory(path.parent)


class storage_errors:  # noqa: N801 - read as a word: `with storage_errors("read", path):`
    """Turn an OSError inside into a StorageError that says what was done to which file.

    A class and no generator, because reads on the way to a client pass through it.
    """

    __slots__ = ("_action", "_path")

    def __init__(self, action: str, path: Path) -> None:
        self._action, self._path = action, path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None and isinstance(error, OSError):
            raise storage_error(self._action, self._path, error) from error


def storage_error(action: str, path: Path, error: OSError) -> StorageError:
    """Return the StorageError for an OSError met while doing `action` to `path`."""
    reason = error.strerror or str(error)
    return StorageError(f"cannot {action} {path}: {reason}", errno=error.errno)
