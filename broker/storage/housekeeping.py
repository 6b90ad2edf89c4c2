"""Housekeeping: what a data directory needs from time to time, whoever calls.

Retention each `retention_check_ms`, some segments a turn; unlinking of what was deleted;
checkpoints and the sync of the durable offsets each `checkpoint_interval_ms`, or earlier where a
log asks. What decides happens on the event loop, what waits for a disk in a task for a thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import structlog

from broker.storage.deletion import rename_steps
from broker.storage.producer_expiry import ProducerExpiry
from protocol.errors import StorageError

if TYPE_CHECKING:
    from broker.storage.checkpoint import CheckpointTask
    from broker.storage.deleted_segments import UnlinkTask
    from broker.storage.durable_offsets import DurableOffsets
    from broker.storage.log_directory import LogDirectory
    from broker.storage.partition_log import PartitionLog

_log = structlog.get_logger(__name__)

TURN_S: Final = 0.001
"""After so long a turn ends; the event loop goes on in between."""

SEGMENTS_PER_TURN: Final = 16
"""However fast it goes."""

SEGMENTS_AT_ONCE: Final = 1
"""Of one log: a segment that was not looked at before has its files opened and its end read, some
milliseconds where its index is sparse."""


class HousekeepingTask:
    """One round of work that waits for a disk; `run` may be called in a thread."""

    __slots__ = ("_durable_offsets", "_failure", "checkpoint", "unlink")

    def __init__(
        self,
        unlink: UnlinkTask | None,
        durable_offsets: DurableOffsets | None,
        checkpoint: CheckpointTask | None,
        failure: OSError | None = None,
    ) -> None:
        """Args:
        failure: Why the durable offsets could not be written: then there is no checkpoint. A log
            start must not be in it alone (`directory_plan`).
        """
        self._failure = failure
        self.unlink = unlink
        self._durable_offsets = durable_offsets
        self.checkpoint = checkpoint

    def run(self) -> None:
        """Unlink, sync the durable offsets, write the checkpoints.

        A checkpoint that cannot be written is logged, once, and written the next time: it is a
        hint, and the old one still holds.

        Raises:
            OSError: a sync of the durable offsets failed: final.
        """
        if self.unlink is not None:
            self.unlink.run()
        if self._durable_offsets is not None:
            self._durable_offsets.sync()
        if self.checkpoint is not None:
            try:
                if self._failure is not None:
                    raise self._failure
                self.checkpoint.run()
            except OSError as error:
                self.checkpoint.failed(error)


class Housekeeping:
    """For one data directory. On the event loop's thread."""

    __slots__ = (
        "_checkpoint_at", "_directory", "_expiry", "_is_noting", "_out", "_out_waiters",
        "_renamings", "_retention_at", "_to_check", "_waiters",
    )  # fmt: skip

    def __init__(self, directory: LogDirectory) -> None:
        """The first checkpoint is one interval away, the first retention check due at once."""
        self._directory = directory
        self._expiry = ProducerExpiry(directory)
        self._to_check: deque[PartitionLog] = deque()
        self._renamings: deque[Iterator[None]] = deque()
        now = directory.context.clock.monotonic()
        self._retention_at = now
        self._checkpoint_at = now + directory.context.options.checkpoint_interval_ms / 1000
        self._is_noting = False  # the next checkpoint waits until all logs are noted
        self._out: HousekeepingTask | None = None
        self._waiters: list[Callable[[bool], object]] = []
        self._out_waiters: list[Callable[[bool], object]] = []

    # --- on the loop --------------------------------------------------------------------------

    def turn(self, now: float) -> bool:
        """Do about a millisecond of what is due: retention, renames of what was deleted, producers
        to be forgotten.

        Args:
            now: Of the monotonic clock. Call it some times a second.

        Returns:
            Whether more is due at once: call again soon, after something else had its turn.
        """
        monotonic = self._directory.context.clock.monotonic
        deadline = monotonic() + TURN_S
        left = SEGMENTS_PER_TURN
        self._begin_round(now)
        while left > 0 and (self._renamings or self._to_check):
            left -= self._rename_one() if self._renamings else self._check_one(left)
            if monotonic() >= deadline:
                break
        is_expiring = self._expiry.turn(now)
        self._is_noting = self._is_checkpoint_due(now) and self._directory.note_touched()
        return bool(self._renamings or self._to_check or is_expiring or self._is_noting)

    def check_soon(self, log: PartitionLog) -> None:
        """Have retention look at a log before its next round."""
        self._to_check.append(log)

    def _begin_round(self, now: float) -> None:
        if now >= self._retention_at and not self._to_check:
            self._retention_at = now + self._directory.context.options.retention_check_ms / 1000
            self._to_check.extend(self._directory.logs.values())

    def _rename_one(self) -> int:
        try:
            next(self._renamings[0])
        except StopIteration:
            self._renamings.popleft()
        return 1

    def _check_one(self, limit: int) -> int:
        """Delete some segments of the next log; return how many were looked at."""
        log, deleted = self._to_check[0], 0
        limit = min(limit, SEGMENTS_AT_ONCE)
        try:
            deleted = log.delete_old_segments(self._directory.context.clock.now_ms(), limit)
        except StorageError as error:  # the others go on, this one the next time
            _log.warning("retention failed", partition=str(log.topic_partition), error=str(error))
        if deleted < limit:  # else it may have more of them
            self._to_check.popleft()
        return deleted + 1

    # --- beside it ----------------------------------------------------------------------------

    def due(self, now: float) -> HousekeepingTask | None:
        """Return what is to be done in a thread; None: nothing, or the last task is still out.

        Args:
            now: Of the monotonic clock. Call it some times a second.
        """
        if self._out is not None:
            return None
        directory = self._directory
        unlink = directory.unlink_task(now)
        durable_offsets = checkpoint = failure = None
        if self._is_checkpoint_due(now) and not self._is_noting:
            self._checkpoint_at = now + directory.context.options.checkpoint_interval_ms / 1000
            checkpoint = directory.checkpoint_task()
            self._out_waiters, self._waiters = self._waiters, []
            directory.durable_offsets.write()
            failure = directory.durable_offsets.failure
            if directory.durable_offsets.needs_sync:
                durable_offsets = directory.durable_offsets
        if unlink is None and checkpoint is None:
            return None
        self._out = HousekeepingTask(unlink, durable_offsets, checkpoint, failure)
        return self._out

    def _is_checkpoint_due(self, now: float) -> bool:
        if self._out is not None:
            return False
        return now >= self._checkpoint_at or self._directory.context.is_checkpoint_due

    def done(self) -> None:
        """The task that `due` returned has run, however it went; on the loop's thread."""
        task, self._out = self._out, None
        if task is None:
            return
        if task.unlink is not None:
            self._directory.unlink_done(task.unlink)
        if task.checkpoint is not None:
            self._renamings.append(rename_steps(self._directory.context, task.checkpoint))
            waiters, self._out_waiters = self._out_waiters, []
            for callback in waiters:
                callback(task.checkpoint.is_written)

    def checkpoint_soon(self, callback: Callable[[bool], object]) -> None:
        """Have the offsets as they are now checkpointed with the next task.

        Args:
            callback: Is told, once, whether they are: on the loop's thread.
        """
        self._directory.context.is_checkpoint_due = True
        self._waiters.append(callback)

    @property
    def has_waiters(self) -> bool:
        """Whether somebody waits for the next task."""
        return bool(self._waiters)

    def give_up(self) -> None:
        """There will be no further checkpoint: tell all who wait for one."""
        waiters = self._out_waiters + self._waiters
        self._out_waiters, self._waiters = [], []
        for callback in waiters:
            callback(False)

    def run_due(self, now: float) -> None:
        """Do everything that is due in place; for tools and tests. Errors as of the task."""
        while self.turn(now):
            pass
        task = self.due(now)
        if task is not None:
            try:
                task.run()
            finally:
                self.done()
        while self.turn(now):
            pass
