"""DeletedSegments: segments that have left a log's list and wait for their unlinking (R39)."""

from __future__ import annotations

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

    __slots__ = ("_disk", "directories", "paths")

    def __init__(self, disk: Disk, paths: Iterable[Path], directories: Iterable[Path] = ()) -> None:
        """Args:
        directories: Removed with the files in them; there are no directories in those.
        """
        self._disk = disk
        self.paths = tuple(paths)
        self.directories = tuple(directories)

    def run(self) -> None:
        """Remove them. What cannot be removed is logged, and stays until the next start."""
        for path in self.paths:
            self._unlink(path)
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
    """Of one log. Readers that began before go on reading the renamed files."""

    __slots__ = ("_context", "_waiting")

    def __init__(self, context: LogContext) -> None:
        self._context = context
        self._waiting: list[tuple[float, LogSegment]] = []

    def add(self, segment: LogSegment, delay_ms: int) -> None:
        """Rename a segment's files to `.deleted`; they stay readable for `delay_ms`.

        What cannot be renamed is logged: it comes back at the next start, and goes again.
        """
        try:
            segment.rename_suffix("", DELETED_SUFFIX)
        except StorageError as error:
            _log.warning(
                "a deleted segment keeps its name", segment=repr(segment), error=str(error)
            )
        due_at = self._context.clock.monotonic() + delay_ms / 1000
        self._waiting.append((due_at, segment))

    def take_due(self, now: float) -> list[Path]:
        """Close the segments whose time has come; return their files, to be unlinked.

        Args:
            now: Of the monotonic clock.
        """
        due = [segment for due_at, segment in self._waiting if due_at <= now]
        self._waiting = [waiting for waiting in self._waiting if waiting[0] > now]
        paths: list[Path] = []
        for segment in due:
            abandon_segment(segment)
            directory = segment.directory
            paths += [
                directory / segment_file_name(segment.base_offset, suffix, DELETED_SUFFIX)
                for suffix in SEGMENT_SUFFIXES
            ]
        return paths

    def __len__(self) -> int:
        return len(self._waiting)


def abandon_segment(segment: LogSegment) -> None:
    """Close the files of a segment that is being removed; nothing of it is saved."""
    segment.records.abandon()
    segment.offset_index.close()
    segment.time_index.close()
