"""Unflushed: what of one log was written and is not durable yet, and when it has to be.

The flushing side of a PartitionLog; what happens in which order is written in `flush`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from broker.storage.disk import DiskFile
from broker.storage.flush import DUE_NOW, FlushTask, flush_due_at
from broker.storage.log_config import FlushPolicy
from protocol.errors import StorageError
from protocol.limits import INT64_MAX

if TYPE_CHECKING:
    from broker.storage.file_flush import FileFlush
    from broker.storage.index_file import IndexFile
    from broker.storage.log_context import LogContext
    from broker.storage.partition_log import PartitionLog
    from broker.storage.segment import LogSegment


class Unflushed:
    """Bookkeeping between an append and the end of the flush that covers it.

    The log's append changes `size_bytes` and looks at the flags itself: it is the hot path.
    """

    __slots__ = (
        "_context", "_directories", "_first_at", "_indexes", "_is_commit", "_log", "_paths",
        "_sealed", "due_at", "is_noted", "notice_bytes", "offset_max", "size_bytes", "task",
        "writeback_at",
    )  # fmt: skip

    def __init__(self, log: PartitionLog, context: LogContext) -> None:
        self._log = log
        self._context = context
        self._paths: list[Path] = []
        self._directories: list[Path] = []
        self._sealed: list[LogSegment] = []
        self._indexes: list[IndexFile] = []  # of segments that were sealed
        self._is_commit = True  # then any byte is due at once
        self._first_at: float | None = None  # when the first unflushed byte was written
        self.size_bytes = 0
        """Written to log files and not durable, what a running task covers included."""
        self.notice_bytes = 0
        """Up to here nobody needs to be told."""
        self.due_at: float | None = None
        """When the log is to be flushed, on the monotonic clock; None: not yet to be said."""
        self.is_noted = False
        """A flush is due or under way: nobody has to be told before it is over."""
        self.task: FlushTask | None = None
        """The one that is out; there is at most one."""
        self.offset_max = INT64_MAX
        """What the task covers at most: a truncation may have taken away some of it."""
        self.writeback_at = context.options.writeback_bytes
        """The size of the active segment at which the kernel should start to write it."""

    # --- what there is ------------------------------------------------------------------------

    def add_file(self, path: Path) -> None:
        """Have a small file that was written and closed synced by the next task."""
        self._paths.append(path)

    def add_directory(self, path: Path) -> None:
        """Have a directory synced by the next task, after the files and those added before."""
        if path not in self._directories:
            self._directories.append(path)

    def add_sealed(self, segment: LogSegment) -> None:
        """Have a segment that was just sealed, and its indexes, synced by the next task."""
        self._sealed.append(segment)
        indexes = (segment.offset_index, segment.time_index)
        self._indexes += indexes
        self._paths += [index.path for index in indexes]
        if segment.transaction_index.size_bytes:
            self._paths.append(segment.transaction_index.path)

    def remove_sealed(self, segment: LogSegment) -> None:
        """Forget a segment that is being deleted."""
        if segment in self._sealed:
            self._sealed.remove(segment)

    def recount(self, active: LogSegment) -> None:
        """Count anew after a cut: too many is harmless, too few would let bytes be forgotten."""
        covered = self.task.size_bytes if self.task is not None else 0
        dirty = [each for each in (*self._sealed, active) if each.records.has_unflushed]
        self.size_bytes = covered + sum(each.size_bytes for each in dirty)
        if self._log.log_end_offset > self._log.durable_offset:
            self.size_bytes = max(self.size_bytes, 1)  # even if only a directory is to be synced
        self.writeback_at = active.size_bytes + self._context.options.writeback_bytes

    def drop(self) -> None:
        """Let go of everything that no task has: the log is closed or deleted."""
        self._paths, self._directories, self._sealed, self._indexes = [], [], [], []
        self.size_bytes = self.task.size_bytes if self.task is not None else 0
        self.due_at = self._first_at = None

    # --- when it is due -----------------------------------------------------------------------

    def policy_changed(self) -> None:
        """Follow the log's settings."""
        config = self._log.config
        is_timed = config.flush_policy is FlushPolicy.INTERVAL and (
            config.flush_ms < INT64_MAX or config.flush_messages < INT64_MAX
        )
        self._is_commit = config.flush_policy is FlushPolicy.COMMIT
        is_quiet = not self._is_commit and not is_timed
        self.notice_bytes = self._context.options.unflushed_bytes_max if is_quiet else 0
        self.is_noted = self.task is not None
        self.due_at = None
        self.note()

    def note(self) -> None:
        """Tell the listener when the log has to be flushed, if that is news."""
        if self.is_noted or not (self.size_bytes or self._sealed):
            return
        due_at = DUE_NOW if self._is_commit else self._due_at()
        if due_at is None or (self.due_at is not None and due_at >= self.due_at):
            return
        self.due_at = due_at
        self.is_noted = due_at == DUE_NOW
        self._log.listener.unflushed(self._log)

    def flush_now(self) -> None:
        """Have what there is flushed at once under any policy: its files are held open for it."""
        if not self.is_noted:
            self.due_at, self.is_noted = DUE_NOW, True
            self._log.listener.unflushed(self._log)

    def _due_at(self) -> float | None:
        log = self._log
        if self.size_bytes and self._first_at is None:
            self._first_at = self._context.clock.monotonic()
        return flush_due_at(
            log.config,
            unflushed_bytes=self.size_bytes,
            unflushed_messages=log.log_end_offset - log.durable_offset,
            unflushed_bytes_max=self._context.options.unflushed_bytes_max,
            first_unflushed_at=self._first_at or 0.0,
            has_sealed=bool(self._sealed),
        )

    def writeback_due(self) -> tuple[DiskFile, int, int] | None:
        """Return file, position and size of what was appended since the last step was named.

        None: too little yet, or it is synced all the time.
        """
        step = self._context.options.writeback_bytes
        active = self._log.active
        if active.size_bytes < self.writeback_at:
            return None
        start = self.writeback_at - step
        self.writeback_at = active.size_bytes + step
        if self._is_commit:
            return None  # the sync that is due at once writes it, without a thread of ours
        return self._context.handles.get(active.path), start, active.size_bytes - start

    # --- flushing it --------------------------------------------------------------------------

    def begin(self) -> FlushTask | None:
        """Take a snapshot of all there is, and start anew; None: nothing to do, or one is out.

        Raises:
            OSError: a log file cannot be cut: nothing of it can be made durable.
        """
        has_some = self.size_bytes or self._paths or self._directories or self._sealed
        if self.task is not None or not has_some:
            return None
        flushes = self._file_flushes()
        paths, self._paths = self._paths, []
        task = FlushTask(
            self._context.disk, flushes, self._pinned(paths) if paths else (),
            tuple(self._directories), self._log.end_metadata(), self.size_bytes,
            self._context.clock.monotonic(),
        )  # fmt: skip
        self._directories, self._sealed = [], []
        self.due_at = self._first_at = None
        self.is_noted = True
        self.offset_max = INT64_MAX
        self.task = task
        return task

    def _file_flushes(self) -> tuple[FileFlush, ...]:
        flushes: list[FileFlush] = []
        try:
            for segment in (*self._sealed, self._log.active):
                if segment.records.has_unflushed:
                    flushes += [segment.records.start_flush()]
        except StorageError as error:
            for flush in flushes:
                flush.finish()  # never ran: changes nothing
            raise OSError(f"nothing can be flushed: {error}") from error
        return tuple(flushes)

    def _pinned(self, paths: list[Path]) -> tuple[DiskFile, ...]:
        files: list[DiskFile] = []
        for path in paths:
            try:
                files.append(self._context.handles.pin(path))
            except FileNotFoundError:
                pass  # an index may be missing at any time; it is built again when asked for
            except OSError:  # out of descriptors, say: none of these holds a record
                self._paths.append(path)
        return tuple(files)

    def _postpone(self, task: FlushTask) -> None:
        """Have the directories of a task that did not reach them synced by the next one."""
        later = [each for each in self._directories if each not in task.directories]
        self._directories = [*task.directories, *later]
        self.size_bytes = max(self.size_bytes, 1)
        self._log.listener.flush_postponed(self._log)

    def _note_synced_indexes(self, synced: set[Path]) -> None:
        """Spare a clean stop the sync of indexes that have been synced, one after the other.

        One that was built again meanwhile is taken for synced too: it is a hint.
        """
        if self._indexes:
            for index in self._indexes:
                if index.path in synced:
                    index.is_dirty = False
            self._indexes = [index for index in self._indexes if index.path in self._paths]

    def finish(self, task: FlushTask) -> int:
        """Let go of a task that is over, however it went; return up to where it has covered."""
        assert task is self.task, "this task is not out"
        self.task = None
        self.is_noted = False
        for flush in task.flushes:
            flush.finish()
        for file in task.files:
            self._context.handles.unpin(file)
        if task.has_run:
            self._note_synced_indexes({file.path for file in task.files})
        self.size_bytes -= task.size_bytes
        if task.unreachable is not None:
            self._postpone(task)
        if self.size_bytes:
            self._first_at = task.started_at  # or a little later; never too late
        return min(task.end.message_offset, self.offset_max)
