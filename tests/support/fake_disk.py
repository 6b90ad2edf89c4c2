"""FakeDisk: a file system in memory that knows what was synced, and loses the rest in a crash.

Deterministic: what a crash keeps is decided by the random numbers it is given. It keeps a journal
of its operations, fails or shortens those it is told to, fills up, and stops a program after any
of its changes. `crash` is a power cut; `kill` is kill -9, which leaves the page cache.
"""

from __future__ import annotations

import copy
import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

from broker.clock import Clock, ManualClock
from protocol.errors import DataDirectoryError
from protocol.identifiers import Buffer
from tests.support.fake_directory import Directory, Tree, os_error
from tests.support.fake_inode import Inode

CHANGES = frozenset(
    {
        *("create", "write", "truncate", "sync", "rename", "unlink"),
        *("make_directory", "remove_directory", "sync_directory"),
    }
)
"""The operations after which a crash finds another state than before."""

UNLIMITED_SPACE_BYTES = 1 << 40


class SimulatedCrash(BaseException):
    """The process ends here; what it had not synced may be lost. Call `crash` or `kill` next."""


class Operation(NamedTuple):
    """One call, as the journal keeps it; for a rename `path` is the new name."""

    name: str
    path: Path
    position: int = 0
    size: int = 0


@dataclass
class _Fault:
    name: str
    error: OSError
    after: int
    times: int
    path_suffix: str


class FakeFile:
    """An open file of a FakeDisk; dead (EBADF) once closed, and after a crash."""

    def __init__(self, disk: FakeDisk, path: Path, inode: Inode) -> None:
        self.path = path
        self.inode = inode
        self._disk = disk
        self._life = disk.life

    def read(self, size: int, position: int) -> bytes:
        self._check_open()
        self._disk.note("read", self.path, position, size)
        return bytes(self.inode.data[position : position + size])

    def read_into(self, buffer: memoryview, position: int) -> int:
        data = self.read(len(buffer), position)
        buffer[: len(data)] = data
        return len(data)

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        self._check_open()
        data = b"".join(buffers)
        self._disk.note("write", self.path, position, len(data))
        data = data[: self._disk.bytes_to_accept(self.inode, position, len(data))]
        self.inode.write(position, data)
        self.inode.modification_time_ms = self._disk.clock.now_ms()
        return len(data)

    def truncate(self, size: int) -> None:
        self._check_open()
        self._disk.note("truncate", self.path, 0, size)
        self.inode.truncate(size)
        self.inode.modification_time_ms = self._disk.clock.now_ms()

    def size(self) -> int:
        self._check_open()
        return len(self.inode.data)

    def sync(self) -> None:
        self._check_open()
        try:
            self._disk.note("sync", self.path)
        except OSError:
            self.inode.fail_sync(self._disk.random)
            raise
        self.inode.sync()

    @property
    def sync_descriptor(self) -> None:
        return None  # there is no descriptor: only `sync` does it

    def start_writeback(self, position: int, size: int) -> None:
        self._check_open()
        self._disk.note("start_writeback", self.path, position, size)

    def drop_cached_pages(self, position: int, size: int) -> None:
        self._check_open()
        self._disk.note("drop_cached_pages", self.path, position, size)
        self.inode.drop_clean_pages()

    def map(self, size: int) -> memoryview | None:
        self._check_open()
        return None

    def is_cached(self, position: int, size: int) -> bool:
        self._check_open()
        return True

    def close(self) -> None:
        if self._life == self._disk.life:
            self._disk.open_files -= 1
            self._life = -1
            self._disk.note("close", self.path)

    def _check_open(self) -> None:
        if self._life != self._disk.life:
            raise os_error(errno.EBADF, self.path)


class FakeLock:
    """A lock on a FakeDisk."""

    def __init__(self, disk: FakeDisk, path: Path) -> None:
        self._disk, self._path = disk, path

    def release(self) -> None:
        self._disk.locked.discard(self._path)

    def check(self) -> None:
        self._disk.file_size(self._path)


class FakeDisk:
    """A Disk in memory. The root directory is there, and durable; all else has to be made."""

    def __init__(
        self, *, clock: Clock | None = None, space_bytes: int | None = None, seed: int = 0
    ) -> None:
        """Args:
        clock: Gives files their modification times.
        space_bytes: What all files together may hold before ENOSPC; may be set later too.
        seed: Decides what a failed sync loses.
        """
        self.clock = clock if clock is not None else ManualClock()
        self.space_bytes = space_bytes
        self.random = Random(seed)
        self.operations: list[Operation] = []
        self.locked: set[Path] = set()
        self.open_files = 0
        self.open_files_max: int | None = None
        """EMFILE beyond it."""
        self.life = 0
        """Counts crashes: handles of an earlier life are dead."""
        self.before_change: Callable[[Operation], None] | None = None
        """Is told of each changing operation; to `fork` there."""
        self._tree = Tree()
        self._faults: list[_Fault] = []
        self._short_writes: list[list[int]] = []  # [writes before it, bytes it accepts]
        self._changes_left: int | None = None

    # --- faults -------------------------------------------------------------------------------

    def fail(
        self,
        operation: str,
        error: OSError,
        *,
        after: int = 0,
        times: int = 1,
        path_suffix: str = "",
    ) -> None:
        """Let `after` more calls of an operation (on such paths) pass, then fail `times` calls.

        A failed sync loses some of what it should have saved and counts it as saved, as Linux does.
        """
        self._faults.append(_Fault(operation, error, after, times, path_suffix))

    def short_write(self, *, after: int = 0, size: int) -> None:
        """Let `after` more writes pass; the next one accepts `size` bytes only."""
        self._short_writes.append([after, size])

    def crash_after(self, changes: int) -> None:
        """Let `changes` more changing operations pass; each one later raises SimulatedCrash."""
        self._changes_left = changes

    def crash(self, random: Random | None = None) -> None:
        """Cut the power: of what was not synced, `random` decides; without it all is lost.

        A lost write may be torn, its sectors zero; a file whose entry was not synced may be gone,
        or be back under its old name. All handles are dead, faults forgotten, locks released.
        """
        self._tree.cut_power(random)
        for node in self._tree.nodes():
            if isinstance(node, Inode):
                node.cut_power(random)
        self.kill()

    def kill(self) -> None:
        """End the process (kill -9): its handles and locks are gone, the page cache stays."""
        self.life += 1
        self.open_files = 0
        self.locked.clear()
        self._faults.clear()
        self._short_writes.clear()
        self._changes_left = None

    def fork(self, clock: Clock) -> FakeDisk:
        """Return another disk that holds the same, unsynced bytes included; this one goes on."""
        other = FakeDisk(clock=clock, space_bytes=self.space_bytes)
        other._tree = copy.deepcopy(self._tree)
        return other

    def changes(self) -> list[Operation]:
        """Return the journal without the operations that change nothing."""
        return [operation for operation in self.operations if operation.name in CHANGES]

    def is_durable(self, path: Path) -> bool:
        """Whether this file's entry, and each byte of it, would outlive a power cut now."""
        node: Directory | Inode | None = self._tree.root
        for name in path.parts[1:] if path.is_absolute() else path.parts:
            node = node.durable.get(name) if isinstance(node, Directory) else None
        return node is not None and node is self._tree.find(path) and not _pending(node)

    # --- Disk ---------------------------------------------------------------------------------

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FakeFile:
        self.note("open", path)
        if self.open_files_max is not None and self.open_files >= self.open_files_max:
            raise os_error(errno.EMFILE, path)
        if create and self._tree.find(path) is None:
            self._tree.directory(path.parent)
            self.note("create", path)
            inode = Inode()
            inode.modification_time_ms = self.clock.now_ms()
            self._tree.add(path, inode)
        inode = self._tree.file(path)
        self.open_files += 1
        return FakeFile(self, path, inode)

    def exists(self, path: Path) -> bool:
        return self._tree.find(path) is not None

    def is_directory(self, path: Path) -> bool:
        return isinstance(self._tree.find(path), Directory)

    def list_directory(self, path: Path) -> list[str]:
        self.note("list_directory", path)
        return sorted(self._tree.directory(path).entries)

    def file_sizes(self, path: Path) -> dict[str, int]:
        self.note("list_directory", path)
        directory = self._tree.directory(path)
        return {
            name: len(node.data)
            for name, node in directory.entries.items()
            if isinstance(node, Inode)
        }

    def make_directory(self, path: Path) -> None:
        if self._tree.find(path) is not None:
            raise os_error(errno.EEXIST, path)
        self._tree.directory(path.parent)
        self.note("make_directory", path)
        self._tree.add(path, Directory())

    def remove_directory(self, path: Path) -> None:
        if self._tree.directory(path).entries:
            raise os_error(errno.ENOTEMPTY, path)
        self.note("remove_directory", path)
        self._tree.remove(path)

    def rename(self, old: Path, new: Path) -> None:
        node, target = self._tree.find(old), self._tree.find(new)
        if node is None:
            raise os_error(errno.ENOENT, old)
        if old in new.parents:
            raise os_error(errno.EINVAL, new)
        if target is not None and isinstance(target, Directory) != isinstance(node, Directory):
            raise os_error(errno.EISDIR if isinstance(target, Directory) else errno.ENOTDIR, new)
        if isinstance(target, Directory) and target is not node and target.entries:
            raise os_error(errno.ENOTEMPTY, new)
        self._tree.directory(new.parent)
        self.note("rename", new)
        self._tree.rename(old, new)

    def unlink(self, path: Path) -> None:
        self._tree.file(path)
        self.note("unlink", path)
        self._tree.remove(path)

    def read_file(self, path: Path) -> bytes:
        self.note("read_file", path)
        return bytes(self._tree.file(path).data)

    def file_size(self, path: Path) -> int:
        return len(self._tree.file(path).data)

    def modification_time_ms(self, path: Path) -> int:
        return self._tree.file(path).modification_time_ms

    def set_modification_time_ms(self, path: Path, timestamp_ms: int) -> None:
        self._tree.file(path).modification_time_ms = timestamp_ms

    def sync_directory(self, path: Path) -> None:
        directory = self._tree.directory(path)
        self.note("sync_directory", path)
        self._tree.sync(directory)

    def free_bytes(self, path: Path) -> int:
        self._tree.directory(path)
        if self.space_bytes is None:
            return UNLIMITED_SPACE_BYTES
        return max(0, self.space_bytes - self._used_bytes())

    def total_bytes(self, path: Path) -> int:
        self._tree.directory(path)
        return UNLIMITED_SPACE_BYTES if self.space_bytes is None else self.space_bytes

    def lock(self, path: Path) -> FakeLock:
        if path in self.locked:
            raise DataDirectoryError(f"{path.parent} is in use by another broker")
        self.open(path, create=True).close()
        self.locked.add(path)
        return FakeLock(self, path)

    # --- for FakeFile -------------------------------------------------------------------------

    def note(self, name: str, path: Path, position: int = 0, size: int = 0) -> None:
        """Write one operation into the journal, or stop or fail it as was asked for."""
        if self.before_change is not None and name in CHANGES:
            self.before_change(Operation(name, path, position, size))
        if name in CHANGES and self._changes_left is not None:
            if self._changes_left <= 0:
                raise SimulatedCrash(f"before {name} of {path}")
            self._changes_left -= 1
        for fault in self._faults:
            if fault.name != name or not str(path).endswith(fault.path_suffix):
                continue
            if fault.after > 0:
                fault.after -= 1
            elif fault.times > 0:
                fault.times -= 1
                raise fault.error
        self.operations.append(Operation(name, path, position, size))

    def bytes_to_accept(self, inode: Inode, position: int, size: int) -> int:
        """Return how much of a write goes through; ENOSPC where that is nothing."""
        for short in self._short_writes:
            short[0] -= 1
        if self._short_writes and self._short_writes[0][0] < 0:
            size = min(size, self._short_writes.pop(0)[1])
        if self.space_bytes is None:
            return size
        growth_max = max(0, self.space_bytes - self._used_bytes())
        accepted = min(size, max(0, inode.written_bytes - position) + growth_max)
        if size and not accepted:
            raise os_error(errno.ENOSPC)
        return accepted

    def _used_bytes(self) -> int:
        return sum(node.written_bytes for node in self._tree.nodes() if isinstance(node, Inode))


def _pending(node: Directory | Inode) -> bool:
    return isinstance(node, Inode) and bool(node.pending)
