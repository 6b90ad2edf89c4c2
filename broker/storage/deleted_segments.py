"""DeletedSegments: segments that have left a log's list and wait for their unlinking (R39)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from broker.storage.disk import Disk
from protocol.errors import StorageError
from protocol.stored.file_names import DELETED_SUFFIX, SEGMENT_SUFFIXES, segment_file_name

if TYPE_CHECKING:
    from broker.storage.log_context import LogContext
    from broker.storage.segment import LogSegment

_log = structlog.get_logger(__name__)


class UnlinkTask:
    """Files and directories to be removed; run in a thread: unlinking a large file takes long."""

    __slots__ = ("_disk", "directories", "is_durable", "paths")

    def __init__(self, disk: Disk, paths: Iterable[Path], directories: Iterable[Path] = ()) -> None:
        """Args:
        paths: Files; the directories they are in are synced afterwards.
        directories: Removed with the files in them; there are no directories in those.
        """
        self._disk = disk
        self.paths = tuple(paths)
        self.directories = tuple(directories)
        self.is_durable = False
        """Whether the files' removal is: they will not come back."""

    def run(self) -> None:
        """Remove them. What cannot be removed is logged, and stays until the next start."""
        for path in self.paths:
            self._unlink(path)
        try:
            for parent in sorted({path.parent for path in self.paths}):
                self._disk.sync_directory(parent)
            self.is_durable = True
        except OSError as error:
            _log.warning("removed files may come back", error=str(error))
        for directory in self.directories:
            try:
                for name in self._disk.list_directory(directory):
                    self._unlink(directory / name)
                self._disk.remove_directory(directory)
            except OSError as error:
                _log.warning("a deleted partition stays", path=str(directory), error=str(error))

    def _unlink(self, path: Path) -> None:
        try:
            self._disk.unlink(path)
        except FileNotFoundError:
            pass  # most segments lack some kind of file
        except OSError as error:
            _log.warning("a deleted file stays", path=str(path), error=str(error))


class DeletedSegments:
    """Of one log. Readers that began before go on reading the files.

    A segment deleted at the log's start keeps its name until the new log start is checkpointed:
    else a crash could bring an older segment back and not the one behind it, and the log would
    have a hole. With the log start known, nothing below it is read, or comes back.
    """

    __slots__ = (
        "_context", "_next_due_at", "_renamed", "_replaced_count", "_unrenamed", "is_settled",
    )  # fmt: skip

    def __init__(self, context: LogContext) -> None:
        self._context = context
        self._unrenamed: deque[LogSegment] = deque()
        self._renamed: list[tuple[float, LogSegment, tuple[str, ...]]] = []
        self._next_due_at = math.inf
        self._replaced_count = 0
        self.is_settled = True
        """No deleted segment can come back: the log start need not be known any more."""

    def add(self, segment: LogSegment) -> None:
        """Take a segment that has left the list, to be renamed when the log start is durable."""
        self._unrenamed.append(segment)
        self.is_settled = False

    def add_renamed(self, segment: LogSegment, delay_ms: int) -> None:
        """Take a segment and rename its files to `.deleted`; they stay readable for `delay_ms`.

        Raises:
            StorageError: a file cannot be renamed.
        """
        segment.rename_suffix("", DELETED_SUFFIX)
        self._wait(segment, delay_ms, (DELETED_SUFFIX,))

    def add_replaced(self, segment: LogSegment, delay_ms: int) -> None:
        """As `add_renamed`, for a segment whose base offset another one has now (the cleaner's).

        Under a name of its own, such as `.1.deleted`: the other one may be replaced in its turn
        while readers of this one go on.

        Raises:
            StorageError: the log file cannot be renamed.
        """
        self._replaced_count += 1
        state = f".{self._replaced_count}{DELETED_SUFFIX}"
        try:
            segment.rename_suffix("", state)
        except StorageError as error:
            if not segment.path.name.endswith(state):
                raise
            _log.warning("an index keeps its name", segment=repr(segment), error=str(error))
        self._wait(segment, delay_ms, (state,))

    def _wait(self, segment: LogSegment, delay_ms: int, states: tuple[str, ...]) -> None:
        due_at = self._context.clock.monotonic() + delay_ms / 1000
        self._renamed.append((due_at, segment, states))
        self._next_due_at = min(self._next_due_at, due_at)
        self.is_settled = False

    def _rename_or_wait(self, segment: LogSegment, delay_ms: int) -> None:
        """Rename a segment below the log start; one that cannot be is unlinked by its old name."""
        try:
            self.add_renamed(segment, delay_ms)
        except StorageError as error:
            _log.warning(
                "a deleted segment keeps its name", segment=repr(segment), error=str(error)
            )
            self._wait(segment, delay_ms, ("", DELETED_SUFFIX))

    def rename_below(self, log_start_offset: int, delay_ms: int) -> bool:
        """Rename the oldest segment, if it is below a log start that is checkpointed."""
        if not self._unrenamed or self._unrenamed[0].base_offset >= log_start_offset:
            return False
        self._rename_or_wait(self._unrenamed.popleft(), delay_ms)
        return True

    def rename_oldest(self, delay_ms: int) -> bool:
        """Rename one segment without a checkpoint, which a full disk may refuse: the earlier one's
        renaming is made durable first, so that they can only come back newest first.
        """
        if not self._unrenamed:
            return False
        segment = self._unrenamed[0]
        try:
            self._context.disk.sync_directory(segment.directory)
        except OSError as error:
            _log.warning("a deleted segment stays", segment=repr(segment), error=str(error))
            return False
        self._rename_or_wait(self._unrenamed.popleft(), delay_ms)
        return True

    def take_due(self, now: float, limit: int) -> tuple[int, list[Path]]:
        """Close segments whose time has come; return how many, and their files, to be unlinked.

        Args:
            now: Of the monotonic clock.
            limit: No more than so many.
        """
        if now < self._next_due_at:
            return 0, []
        due = [waiting for waiting in self._renamed if waiting[0] <= now][:limit]
        if len(due) == len(self._renamed):
            self._renamed = []
        else:
            taken = set(map(id, due))
            self._renamed = [waiting for waiting in self._renamed if id(waiting) not in taken]
        self._next_due_at = min((waiting[0] for waiting in self._renamed), default=math.inf)
        paths: list[Path] = []
        for _, segment, states in due:
            abandon_segment(segment)
            paths += [
                segment.directory / segment_file_name(segment.base_offset, suffix, state)
                for suffix in SEGMENT_SUFFIXES
                for state in states
            ]
        return len(due), paths

    def unlinked(self, task: UnlinkTask) -> None:
        """A task with what `take_due` returned has run."""
        self.is_settled = task.is_durable and not self._unrenamed and not self._renamed

    def abandon(self) -> None:
        """Close them all: the partition is being deleted."""
        for segment in (*self._unrenamed, *(each[1] for each in self._renamed)):
            abandon_segment(segment)
        self._unrenamed.clear()
        self._renamed, self._next_due_at = [], math.inf

    def __len__(self) -> int:
        return len(self._renamed)


def abandon_segment(segment: LogSegment) -> None:
    """Close the files of a segment that is being removed; nothing of it is saved."""
    segment.records.abandon()
    segment.offset_index.abandon()
    segment.time_index.abandon()
    segment.transaction_index.abandon()
