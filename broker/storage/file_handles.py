"""FileHandles: few open files for many segments.

Files are opened when asked for; beyond `open_files_max` the least recently used idle one is closed.
A pinned file is never closed. Pinned is what has unflushed bytes, a running sync or a running read:
*the descriptor that wrote is the one that syncs*, because one opened after a failed write-back was
reported once says OK over lost data. Pinned files are counted; they may exceed that bound, but not
`pinned_files_max`, which keeps descriptors for those who must not go without (`OsDisk`).

When the process is out of descriptors the bound goes down (`shrink`), and comes back by and by
(`relax`): else the cache would soon take again what it has just given.

Not thread-safe: the event loop owns it. A thread gets a file that was pinned for it on the loop.
"""

from __future__ import annotations

import errno
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from broker.storage.disk import Disk, DiskFile
from broker.storage.mapped_files import MappedFiles

OPEN_FILES_MAX: Final = 1_000
MAPPED_FILES_MAX: Final = 256
RELAX_PART: Final = 60
"""A cache that had to shrink takes so many seconds to be as large as before."""

_OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
_log = structlog.get_logger(__name__)


class _Pinned:
    """A file that must stay open, and how many need it."""

    __slots__ = ("count", "file", "is_forgotten")

    def __init__(self, file: DiskFile) -> None:
        self.file = file
        self.count = 1
        self.is_forgotten = False


class FileHandles:
    """A bounded cache of open files, by path."""

    __slots__ = (
        "_forgotten",
        "_idle",
        "_open_files_wanted",
        "_pinned",
        "disk",
        "mapped_files",
        "monotonic",
        "observe_flush_seconds",
        "open_files_max",
        "pinned_files_max",
    )

    def __init__(
        self,
        disk: Disk,
        open_files_max: int = OPEN_FILES_MAX,
        *,
        pinned_files_max: int = sys.maxsize,
        mapped_files_max: int = MAPPED_FILES_MAX,
        observe_flush_seconds: Callable[[float], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args:
        mapped_files_max: How many files may be mapped at once; 0 maps none.
        observe_flush_seconds: Is told how long each sync took (R11); on the loop's thread.
        monotonic: The clock that times them.
        """
        assert open_files_max >= 1
        self.disk = disk
        self._open_files_wanted = open_files_max
        self.open_files_max = open_files_max
        """Now; at most what was asked for."""
        self.pinned_files_max = pinned_files_max
        self.mapped_files = MappedFiles(mapped_files_max)
        self.observe_flush_seconds = observe_flush_seconds
        self.monotonic = monotonic
        self._idle: OrderedDict[Path, DiskFile] = OrderedDict()
        self._pinned: dict[Path, _Pinned] = {}
        self._forgotten: dict[int, _Pinned] = {}  # by id() of a file that is still in use

    @property
    def open_files(self) -> int:
        """How many files are open now."""
        return len(self._idle) + len(self._pinned) + len(self._forgotten)

    @property
    def is_crowded(self) -> bool:
        """Whether pinned files alone fill the bound: who holds one for long should flush it."""
        return len(self._pinned) > self.open_files_max

    def get(self, path: Path, *, create: bool = False) -> DiskFile:
        """Return the file, open; it may be closed again by the next call of any method.

        Raises:
            OSError: it cannot be opened; FileNotFoundError without `create` if it is not there.
        """
        pinned = self._pinned.get(path)
        if pinned is not None:
            return pinned.file
        file = self._idle.get(path)
        if file is not None:
            self._idle.move_to_end(path)
            return file
        while self.open_files >= self.open_files_max and self._idle:
            self._close_oldest()
        file = self._open(path, create=create)
        self._idle[path] = file
        return file

    def pin(self, path: Path, *, create: bool = False) -> DiskFile:
        """Return the file, open until it has been given to `unpin` as often as pinned.

        Raises:
            OSError: as `get`; EMFILE if `pinned_files_max` are.
        """
        pinned = self._pinned.get(path)
        if pinned is not None:
            pinned.count += 1
            return pinned.file
        if len(self._pinned) >= self.pinned_files_max:
            raise OSError(errno.EMFILE, "Too many files have unflushed bytes", str(path))
        file = self.get(path, create=create)
        del self._idle[path]
        self._pinned[path] = _Pinned(file)
        return file

    def unpin(self, file: DiskFile) -> None:
        """Take back one `pin`, also of a file that was renamed or forgotten since."""
        pinned = self._forgotten.get(id(file)) or self._pinned[file.path]
        assert pinned.file is file, "unpin of a file that these handles did not pin"
        pinned.count -= 1
        if pinned.count:
            return
        if pinned.is_forgotten:
            del self._forgotten[id(file)]
            self._close(file)
            return
        del self._pinned[file.path]
        self._idle[file.path] = file
        while self.open_files > self.open_files_max and self._idle:
            self._close_oldest()

    def forget(self, path: Path) -> None:
        """Close the file and drop it; one that is pinned is closed by its last `unpin`.

        A new file of the same name may be opened at once.
        """
        pinned = self._pinned.pop(path, None)
        if pinned is not None:
            pinned.is_forgotten = True
            self._forgotten[id(pinned.file)] = pinned
        file = self._idle.pop(path, None)
        if file is not None:
            self._close(file)

    def renamed(self, old: Path, new: Path) -> None:
        """Follow a rename of a file or a directory: what is open stays open, by its new name."""
        self.forget(new)  # it was replaced
        if old in self._idle or old in self._pinned:
            self._move(old, new)
            return
        inside = f"{old}/"
        for path in [*self._idle, *self._pinned]:
            if str(path).startswith(inside):  # a tenth of what `path.parents` costs
                self._move(path, new / path.relative_to(old))

    def _move(self, old: Path, new: Path) -> None:
        file = self._idle.pop(old, None)
        if file is not None:
            self._idle[new] = file
        else:
            pinned = self._pinned.pop(old)
            self._pinned[new] = pinned
            file = pinned.file
        file.path = new

    def close_all(self) -> None:
        """Close everything that is open, pinned or not: for the end of the process."""
        pinned = [*self._pinned.values(), *self._forgotten.values()]
        files = [*self._idle.values(), *(entry.file for entry in pinned)]
        self._idle.clear()
        self._pinned.clear()
        self._forgotten.clear()
        for file in files:
            self._close(file)

    def _open(self, path: Path, *, create: bool) -> DiskFile:
        try:
            return self.disk.open(path, create=create)
        except OSError as error:
            if error.errno not in _OUT_OF_DESCRIPTORS or not self._idle:
                raise
        _log.warning("out of file descriptors: closing idle files", idle_files=len(self._idle))
        self.shrink()
        try:
            return self.disk.open(path, create=create)
        except OSError as error:
            if error.errno not in _OUT_OF_DESCRIPTORS or not self._idle:
                raise
        while self._idle:  # somebody was quicker
            self._close_oldest()
        return self.disk.open(path, create=create)

    def shrink(self) -> None:
        """Give descriptors back: close half of the idle files, and hold no more than are left.

        Mappings go too: before Python 3.13 each has a descriptor of its own.
        """
        for _ in range(-(-len(self._idle) // 2)):
            self._close_oldest()
        self.open_files_max = max(1, min(self.open_files_max, self.open_files))
        self.mapped_files.shrink()

    def relax(self) -> None:
        """Hold some more again, up to what was asked for; call it each second."""
        if self.open_files_max < self._open_files_wanted:
            step = -(-self._open_files_wanted // RELAX_PART)
            self.open_files_max = min(self._open_files_wanted, self.open_files_max + step)

    def _close_oldest(self) -> None:
        _, file = self._idle.popitem(last=False)
        self._close(file)

    def _close(self, file: DiskFile) -> None:
        try:
            file.close()
        except OSError as error:  # it holds nothing unflushed, so nothing is lost
            _log.warning("closing a file failed", path=str(file.path), error=str(error))
