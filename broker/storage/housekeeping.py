"""Housekeeping: what a data directory needs from time to time, whoever calls.

Retention each `retention_check_ms`, some logs a turn; unlinking of what was deleted; checkpoints
and the sync of the durable offsets each `checkpoint_interval_ms`, or earlier where a log asks.
What decides happens on the event loop, what waits for a disk in a task for a thread.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import structlog

from protocol.errors import StorageError

if TYPE_CHECKING:
    from broker.storage.checkpoint import CheckpointTask
    from broker.storage.deleted_segments import UnlinkTask
    from broker.storage.durable_offsets import DurableOffsets
    from broker.storage.log_directory import LogDirectory
    from broker.storage.partition_log import PartitionLog

_log = structlog.get_logger(__name__)

RETENTION_LOGS_PER_TURN: Final = 50
"""Some tens of microseconds each; the event loop goes on in between."""


class HousekeepingTask:
    """One round of work that waits for a disk; `run` may be called in a thread."""

    __slots__ = ("_durable_offsets", "checkpoint", "unlink")

    def __init__(
        self,
        unlink: UnlinkTask | None,
        durable_offsets: DurableOffsets | None,
        checkpoint: CheckpointTask | None,
    ) -> None:
        self.unlink = unlink
        self._durable_offsets = durable_offsets
        self.checkpoint = checkpoint

    def run(self) -> None:
        """Unlink, sync the durable offsets, write the checkpoints.

        A checkpoint that cannot be written is logged, and written the next time: it is a hint, and
        the old one still holds.

        Raises:
            OSError: a sync of the durable offsets failed: final.
        """
        if self.unlink is not None:
            self.unlink.run()
        if self._durable_offsets is not None:
            self._durable_offsets.sync()
        if self.checkpoint is not None:
            try:
                self.checkpoint.run()
            except OSError as error:
                _log.warning("checkpoints not written", error=str(error))


class Housekeeping:
    """For one data directory. On the event loop's thread."""

    __slots__ = ("_checkpoint_at", "_directory", "_out", "_retention_at", "_to_check")

    def __init__(self, directory: LogDirectory) -> None:
        """The first checkpoint is one interval away, the first retention check due at once."""
        self._directory = directory
        self._to_check: deque[PartitionLog] = deque()
        now = directory.context.clock.monotonic()
        self._retention_at = now
        self._checkpoint_at = now + directory.context.options.checkpoint_interval_ms / 1000
        self._out: HousekeepingTask | None = None

    def due(self, now: float) -> HousekeepingTask | None:
        """Do what is quick, return what is slow; None: nothing, or the last task is still out.

        Args:
            now: Of the monotonic clock. Call it some times a second.
        """
        self._check_retention(now)
        if self._out is not None:
            return None
        directory = self._directory
        unlink = directory.unlink_task(now)
        durable_offsets = checkpoint = None
        if now >= self._checkpoint_at or directory.context.is_checkpoint_due:
            self._checkpoint_at = now + directory.context.options.checkpoint_interval_ms / 1000
            checkpoint = directory.checkpoint_task()
            directory.durable_offsets.write()
            if directory.durable_offsets.needs_sync:
                durable_offsets = directory.durable_offsets
        if unlink is None and checkpoint is None:
            return None
        self._out = HousekeepingTask(unlink, durable_offsets, checkpoint)
        return self._out

    def done(self) -> None:
        """The task that `due` returned has run, however it went; on the loop's thread."""
        task, self._out = self._out, None
        if task is None:
            return
        if task.unlink is not None:
            self._directory.unlink_done(task.unlink)
        if task.checkpoint is not None:
            self._directory.checkpoint_done(task.checkpoint)

    def run_due(self, now: float) -> None:
        """Do everything that is due in place; for tools and tests. Errors as of the task."""
        task = self.due(now)
        if task is not None:
            try:
                task.run()
            finally:
                self.done()

    def _check_retention(self, now: float) -> None:
        if not self._to_check:
            if now < self._retention_at:
                return
            self._retention_at = now + self._directory.context.options.retention_check_ms / 1000
            self._to_check.extend(self._directory.logs.values())
        now_ms = self._directory.context.clock.now_ms()
        for _ in range(min(len(self._to_check), RETENTION_LOGS_PER_TURN)):
            log = self._to_check.popleft()
            try:
                log.delete_old_segments(now_ms)
            except StorageError as error:  # the others go on, this one the next time
                _log.warning(
                    "retention failed", partition=str(log.topic_partition), error=str(error)
                )
