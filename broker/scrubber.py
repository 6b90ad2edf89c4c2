"""Scrubber: looks at every byte of every log, round after round, so that damage shows early (R40).

A round takes the logs in a random order, for its place is kept nowhere: a broker that is often
restarted must not look at the same ones each time. Of each log the newest segment comes first. The
reading is done in a worker process (`storage.scrubbing`), at `storage.scrub_bytes_per_second`.

What a look finds is looked at again, from the disk, before it counts: segments are cleaned, cut and
deleted meanwhile. Then it goes the way of recovery's findings (`PartitionLog.add_damage`); a wrong
index is built anew by its next use. Nothing ends the scrubber but the end of the broker.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from broker.scrub_job import run_scrub_job
from broker.storage.scrubbing import ScrubPlan, ScrubResult
from broker.worker import WorkerDiedError, WorkerPool
from protocol.errors import StorageError

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.metrics import ScrubMetrics
    from broker.storage.damage import Damage
    from broker.storage.log_directory import LogDirectory
    from broker.storage.partition_log import PartitionLog
    from broker.storage.segment import LogSegment
    from broker.worker import Jobs

_log = structlog.get_logger("tidelog.scrubber")

ROUND_INTERVAL_S: Final = 3600.0
"""A round begins so long after the one before, at the earliest: few logs need no haste."""
FAILURE_PAUSE_S: Final = 10.0
"""After an error that is not a log's: a process that dies, or cannot be had."""


def start_scrubber(
    directories: Sequence[LogDirectory],
    bytes_per_second: int,
    *,
    clock: Clock,
    metrics: ScrubMetrics,
) -> Callable[[], Awaitable[None]]:
    """Start a scrubber with a worker process of its own; return what ends both."""
    workers = WorkerPool()
    scrubber = Scrubber(directories, bytes_per_second, jobs=workers, clock=clock, metrics=metrics)
    scrubber.start()

    async def end() -> None:
        await asyncio.gather(scrubber.close(), workers.close())

    return end


class Scrubber:
    """Of one broker; on the event loop, but for what its worker does."""

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        bytes_per_second: int,
        *,
        jobs: Jobs,
        clock: Clock,
        metrics: ScrubMetrics,
        shuffle: Callable[[list[PartitionLog]], object] = random.shuffle,
    ) -> None:
        """Args:
        bytes_per_second: What is read at most, of all logs together.
        jobs: Where segments are looked at; closed by whoever made it.
        shuffle: Puts the logs of a round in order.
        """
        self._directories, self._bytes_per_second = directories, bytes_per_second
        self._jobs, self._clock, self._shuffle = jobs, clock, shuffle
        self.metrics = metrics
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; `close` ends it."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """End it: what is under way is given up, and changes nothing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        while True:
            started_s = self._clock.monotonic()
            try:
                await self.scrub_all()
            except Exception:  # a bug: it must not be the end of all scrubbing
                _log.exception("the scrubber met an error of its own")
                self.metrics.failures += 1
            took_s = self._clock.monotonic() - started_s
            await asyncio.sleep(max(FAILURE_PAUSE_S, ROUND_INTERVAL_S - took_s))

    async def scrub_all(self) -> None:
        """Run one round over all logs that there are now."""
        started_s = self._clock.monotonic()
        logs = [log for directory in self._directories for log in directory.logs.values()]
        self._shuffle(logs)
        for log in logs:
            await self.scrub_log(log)
        self.metrics.rounds += 1
        self.metrics.last_round_ms = self._clock.now_ms()
        self.metrics.last_round_seconds = self._clock.monotonic() - started_s

    async def scrub_log(self, log: PartitionLog) -> None:
        """Look at one log, newest segment first."""
        for segment in reversed(log.segments):
            plan = _plan(log, segment)
            if plan is None:
                continue
            try:
                await self._scrub_segment(log, segment, plan)
            except (OSError, StorageError) as error:
                if _is_part_of(log, segment):  # else it was deleted while it was read
                    self.metrics.failures += 1
                    _log.error(
                        "segment not readable", log=plan.directory.name,
                        segment=segment.base_offset, error=str(error),
                    )  # fmt: skip
            except WorkerDiedError as error:
                self.metrics.failures += 1
                _log.error(
                    "a look at a segment died", log=plan.directory.name,
                    segment=segment.base_offset, error=str(error),
                )  # fmt: skip
                await asyncio.sleep(FAILURE_PAUSE_S)

    async def _scrub_segment(self, log: PartitionLog, segment: LogSegment, plan: ScrubPlan) -> None:
        result = await self._look(plan)
        if result.index_fault and _is_part_of(log, segment) and segment is not log.active:
            self._distrust_indexes(plan, segment, result.index_fault)
        for finding in result.findings:
            if not _holds(log, segment, finding):
                return  # cleaned, cut or deleted meanwhile: the next round looks again
            again = await self._look(
                plan._replace(
                    start_position=finding.position, start_offset=finding.first_offset,
                    end_offset=max(finding.next_offset, finding.first_offset + 1),
                    size_bytes=segment.size_bytes, is_second_look=True,
                )
            )  # fmt: skip
            if not _holds(log, segment, finding):
                return
            if not any(each.touches(finding) for each in again.findings):
                _log.warning("bad bytes in memory only: the disk has others", **finding._asdict())
                continue
            if log.add_damage(finding):
                self.metrics.findings += 1

    async def _look(self, plan: ScrubPlan) -> ScrubResult:
        result = await self._jobs.run(run_scrub_job, plan, self._bytes_per_second)
        self.metrics.bytes_read += result.bytes_read
        return result

    def _distrust_indexes(self, plan: ScrubPlan, segment: LogSegment, fault: str) -> None:
        if segment.offset_index.needs_rebuild or segment.time_index.needs_rebuild:
            return  # known, and not used since
        segment.offset_index.distrust()
        segment.time_index.distrust()
        self.metrics.index_findings += 1
        _log.warning(
            "a wrong index: its next use builds it anew", log=plan.directory.name,
            segment=segment.base_offset, fault=fault,
        )  # fmt: skip


def _plan(log: PartitionLog, segment: LogSegment) -> ScrubPlan | None:
    """Return what there is to be looked at now; None: nothing, or the segment is gone."""
    if log.is_closed or not _is_part_of(log, segment) or not segment.size_bytes:
        return None
    if segment.base_offset >= log.durable_offset:
        return None
    following = log.segments.higher(segment.base_offset)
    return ScrubPlan(
        log.directory,
        segment.base_offset,
        segment.size_bytes,
        log.durable_offset,
        None if following is None else following.base_offset,
        log.damage.of_segment(segment.base_offset),
    )


def _is_part_of(log: PartitionLog, segment: LogSegment) -> bool:
    return not log.is_closed and segment in log.segments


def _holds(log: PartitionLog, segment: LogSegment, finding: Damage) -> bool:
    """Whether a segment is still there, with all that was found in it."""
    is_inside = finding.end_position <= segment.size_bytes
    return _is_part_of(log, segment) and is_inside and finding.first_offset < log.durable_offset
