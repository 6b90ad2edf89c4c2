"""OsDisk: the machine's own file system, by os.pread, pwritev and fdatasync.

Interrupted system calls are repeated by Python itself (PEP 475). Nothing is ever written through a
mapping (a full disk would be SIGBUS), and nothing is preallocated with fallocate. What a system
lacks (sync_file_range, mincore, posix_fadvise outside Linux) is a hint that is left out.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from broker.storage.directory_lock import DirectoryLock
from protocol.identifiers import Buffer
from protocol.limits import BUFFERS_PER_WRITE_MAX

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700

SYNC_FILE_RANGE_WRITE: Final = 2
"""sync_file_range(2): start writing out dirty pages that are not being written yet."""

OPEN_TRIES: Final = 5_000
OPEN_WAIT_S: Final = 0.001

_MAP_FAILED: Final = ctypes.c_void_p(-1).value
_PAGE_BYTES: Final = mmap.PAGESIZE

_sync = getattr(os, "fdatasync", os.fsync)  # macOS has fsync only


def _libc_function(name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of the C library, or None where it lacks it."""
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, OSError):
        return None
    function.restype = result
    function.argtypes = arguments
    return function


_sync_file_range = _libc_function(
    "sync_file_range", ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint
)
_mmap = _libc_function(
    "mmap64",
    ctypes.c_void_p,
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64),
)
_munmap = _libc_function("munmap", ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
_mincore = _libc_function(
    "mincore", ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
)


class OsFile:
    """An open file of the machine; safe to use from several threads, but for `close`."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def read(self, size: int, position: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or not data:
            return data
        return self._read_rest(data, size, position)

    def _read_rest(self, data: bytes, size: int, position: int) -> bytes:
        """Read on after a short read: the end of the file, or Linux's 2 GiB a call."""
        parts = [data]
        have = len(data)
        while have < size:
            data = os.pread(self._descriptor, size - have, position + have)
            if not data:
                break
            parts.append(data)
            have += len(data)
        return b"".join(parts) if len(parts) > 1 else parts[0]

    def read_into(self, buffer: memoryview, position: int) -> int:
        have = 0
        while have < len(buffer):
            count = os.preadv(self._descriptor, [buffer[have:]], position + have)
            if not count:
                break
            have += count
        return have

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        count = len(buffers)
        if count == 1:
            return os.pwrite(self._descriptor, buffers[0], position)
        if count > BUFFERS_PER_WRITE_MAX:  # a short write: the caller goes on
            buffers = buffers[:BUFFERS_PER_WRITE_MAX]
        return os.pwritev(self._descriptor, buffers, position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        # Cheaper than fstat; the file position that it moves is one that nobody relies on.
        return os.lseek(self._descriptor, 0, os.SEEK_END)

    def sync(self) -> None:
        _sync(self._descriptor)

    @property
    def sync_descriptor(self) -> int | None:
        return self._descriptor

    def start_writeback(self, position: int, size: int) -> None:
        if _sync_file_range is not None:
            # Its result is left alone: with this flag it does not take the error away from the
            # next sync of this descriptor, which is where an error has to come out.
            _sync_file_range(self._descriptor, position, size, SYNC_FILE_RANGE_WRITE)

    def drop_cached_pages(self, position: int, size: int) -> None:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, position, size, os.POSIX_FADV_DONTNEED)

    def map(self, size: int) -> memoryview | None:
        if size <= 0 or size > self.size():  # beyond the file's end a touch is SIGBUS
            return None
        try:
            if sys.version_info >= (3, 13):  # before, each mapping holds a descriptor of its own
                mapping = mmap.mmap(
                    self._descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ, trackfd=False
                )
            else:
                mapping = mmap.mmap(self._descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ)
        except (OSError, ValueError):  # out of mappings or descriptors, or no mappable file
            return None
        return memoryview(mapping)

    def is_cached(self, position: int, size: int) -> bool:
        pages = self._pages_in_memory(position, size)
        return pages is None or b"\0" not in pages

    def uncached_ranges(self, position: int, size: int) -> list[tuple[int, int]]:
        """Return (position, size) of what is not in memory; nothing where nobody knows."""
        pages = self._pages_in_memory(position, size) or b""
        start = position - position % _PAGE_BYTES
        found: list[tuple[int, int]] = []
        page = pages.find(b"\0")
        while page >= 0:
            end = pages.find(b"\1", page)
            end = len(pages) if end < 0 else end
            found.append((start + page * _PAGE_BYTES, (end - page) * _PAGE_BYTES))
            page = pages.find(b"\0", end)
        return found

    def expect_random_reads(self) -> None:
        """Have the kernel read what is asked for, and nothing ahead."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_RANDOM)

    def _pages_in_memory(self, position: int, size: int) -> bytes | None:
        """Return a byte a page, 1 for those in memory; None where nobody knows."""
        if size <= 0 or _mmap is None or _munmap is None or _mincore is None:
            return None
        start = position - position % _PAGE_BYTES
        mapped_bytes = position + size - start
        address = _mmap(
            None, mapped_bytes, mmap.PROT_READ, mmap.MAP_SHARED, self._descriptor, start
        )
        if address == _MAP_FAILED:
            return None
        try:
            pages = ctypes.create_string_buffer(-(-mapped_bytes // _PAGE_BYTES))
            if _mincore(address, mapped_bytes, pages):
                return None
            return pages.raw
        finally:
            _munmap(address, mapped_bytes)

    def close(self) -> None:
        """Close the descriptor; a second call does nothing, so that no stranger's is closed."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class _DirectoryOpener:
    """Opens directories to be synced, one at a time, with a descriptor kept back for it.

    A process out of descriptors must not take a directory that cannot be opened for one that cannot
    be synced, which would be its end. If another thread is quicker, it waits for one to come free.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spare = -1
        self._keep_spare()

    def _keep_spare(self) -> None:
        with contextlib.suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def open(self, path: Path) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        with self._lock:
            for _ in range(OPEN_TRIES):
                try:
                    return os.open(path, flags)
                except OSError as error:
                    if error.errno not in {errno.EMFILE, errno.ENFILE}:
                        raise
                if self._spare < 0:
                    time.sleep(OPEN_WAIT_S)
                    continue
                os.close(self._spare)
                self._spare = -1
            return os.open(path, flags)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)
        if self._spare < 0:
            with self._lock:
                if self._spare < 0:
                    self._keep_spare()


_directories = _DirectoryOpener()


def open_file(path: Path, *, create: bool = False, read_only: bool = False) -> int:
    """Return a descriptor of our own."""
    flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR)
    if create:
        flags |= os.O_CREAT
    return os.open(path, flags, FILE_MODE)


class OsDisk:
    """The machine's file system. It has no state: all objects of it are alike."""

    __slots__ = ()

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> OsFile:
        return OsFile(path, open_file(path, create=create, read_only=read_only))

    def exists(self, path: Path) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: Path) -> bool:
        return os.path.isdir(path)

    def list_directory(self, path: Path) -> list[str]:
        return sorted(os.listdir(path))

    def file_sizes(self, path: Path) -> dict[str, int]:
        with os.scandir(path) as entries:
            return {each.name: each.stat().st_size for each in entries if each.is_file()}

    def make_directory(self, path: Path) -> None:
        os.mkdir(path, DIRECTORY_MODE)

    def remove_directory(self, path: Path) -> None:
        os.rmdir(path)

    def rename(self, old: Path, new: Path) -> None:
        os.replace(old, new)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def read_file(self, path: Path) -> bytes:
        return path.read_bytes()

    def file_size(self, path: Path) -> int:
        return os.stat(path).st_size

    def modification_time_ms(self, path: Path) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modification_time_ms(self, path: Path, timestamp_ms: int) -> None:
        os.utime(path, ns=(timestamp_ms * 1_000_000, timestamp_ms * 1_000_000))

    def sync_directory(self, path: Path) -> None:
        descriptor = _directories.open(path)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a file system that has no sync of directories
                raise
        finally:
            _directories.close(descriptor)

    def free_bytes(self, path: Path) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: Path) -> int:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def lock(self, path: Path) -> DirectoryLock:
        return DirectoryLock(path)


class ObservedFile(OsFile):
    """Tells how much is read of it in large pieces; what `observe` raises ends that read."""

    __slots__ = ("_observe",)

    def __init__(self, path: Path, descriptor: int, observe: Callable[[int], object]) -> None:
        super().__init__(path, descriptor)
        self._observe = observe

    def read_into(self, buffer: memoryview, position: int) -> int:
        count = super().read_into(buffer, position)
        self._observe(count)
        return count


class ObservedDisk(OsDisk):
    """The machine's file system for long walks, which can be followed and interrupted."""

    __slots__ = ("_observe",)

    def __init__(self, observe: Callable[[int], object]) -> None:
        """Args:
        observe: Is told the bytes of each read of a walk. It may raise.
        """
        self._observe = observe

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> OsFile:
        descriptor = open_file(path, create=create, read_only=read_only)
        return ObservedFile(path, descriptor, self._observe)
