"""Cleaner: compacts the logs of topics whose `cleanup_policy` says so, one after the other.

Each time the dirtiest log is taken, as long as one is due, then it waits for `cleaner.backoff_ms`.
Reading and writing happens in a worker process (`compactor`); here its groups of segments are put
in place as they come (`log_cleaning`), and what is clean is checkpointed.

A log that cannot be cleaned is reported and tried again, each time after twice the time, and keeps
no other log from being cleaned. Nothing ends the cleaner but the end of the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from broker.cleaner_job import run_cleaning_job
from broker.storage.cleanable_log import cleaning_job, plan_log
from broker.storage.cleaner_checkpoint import CleanerCheckpoint
from broker.storage.compaction import CleaningPlan
from broker.storage.compactor import (
    CleanedGroup,
    CleaningJob,
    CleaningResult,
    LogUncleanableError,
)
from broker.worker import WorkerDiedError, WorkerPool
from protocol.errors import StorageError, TidelogError
from protocol.stored.file_names import RECOVERY_POINT_CHECKPOINT

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.config import CleanerConfig, Config
    from broker.metrics import CleanerMetrics
    from broker.steps import Steps
    from broker.storage.log_directory import LogDirectory
    from broker.storage.partition_log import PartitionLog
    from broker.worker import Jobs

_log = structlog.get_logger("tidelog.cleaner")

LOGS_PER_TURN: Final = 50
RETRY_DELAY_S_MAX: Final = 3600.0
FAILURES: Final = (OSError, TidelogError, WorkerDiedError)


def start_cleaner(
    directories: Sequence[LogDirectory],
    config: Config,
    *,
    clock: Clock,
    executor: Executor,
    metrics: CleanerMetrics,
) -> Callable[[], Awaitable[None]]:
    """Start a cleaner with a worker process of its own; return what ends both."""
    workers = WorkerPool()
    cleaner = Cleaner(
        directories,
        config.cleaner,
        jobs=workers,
        executor=executor,
        clock=clock,
        metrics=metrics,
        free_bytes_min=max((each.guard.reserve_bytes for each in directories), default=0),
    )
    cleaner.start()

    async def end() -> None:
        await cleaner.close()
        await workers.close()

    return end


class _Choice(NamedTuple):
    """A log that is due."""

    directory: LogDirectory
    log: PartitionLog
    plan: CleaningPlan


class _Trouble:
    """What is known of a log that could not be cleaned."""

    __slots__ = ("failures", "retry_at_s")

    def __init__(self) -> None:
        self.failures = 0
        self.retry_at_s = 0.0


class Cleaner:
    """Of one broker. On the event loop, but for what its threads and its worker do."""

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        config: CleanerConfig,
        *,
        jobs: Jobs,
        executor: Executor,
        clock: Clock,
        metrics: CleanerMetrics,
        free_bytes_min: int = 0,
        job: Callable[..., CleaningResult] = run_cleaning_job,
    ) -> None:
        """Args:
        jobs: Where passes run; closed by whoever made it, after this.
        executor: Threads for directory syncs and the checkpoint.
        free_bytes_min: What a pass leaves free on a disk.
        job: What runs in the worker.
        """
        self._checkpoints = {
            each: CleanerCheckpoint(each.context.disk, each.path) for each in directories
        }
        self._config, self._free_bytes_min = config, free_bytes_min
        self._jobs, self._executor, self._clock, self._job = jobs, executor, clock, job
        self.metrics = metrics
        self._trouble: dict[PartitionLog, _Trouble] = {}
        self._task: asyncio.Task[None] | None = None
        self._running: asyncio.Task[CleaningResult] | None = None
        self._ending = asyncio.Event()

    def start(self) -> None:
        """Begin; `close` ends it."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop the pass that is under way; return when no log is being changed any more."""
        self._ending.set()
        if self._running is not None:
            self._running.cancel()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while not self._ending.is_set():
            try:
                if await self.clean_one():
                    continue
            except Exception:  # a bug: it must not be the end of all cleaning (KIP-346)
                _log.exception("the cleaner met an error of its own")
                self.metrics.failures += 1
            try:
                await asyncio.wait_for(self._ending.wait(), self._config.backoff_ms / 1000)
            except TimeoutError:
                pass

    async def clean_one(self) -> bool:
        """Clean the dirtiest log that is due, in as many passes as it takes; False: none is due."""
        choice = await self._choose()
        if choice is None or self._ending.is_set():
            return False
        log = choice.log
        self.metrics.is_running = True
        started_s = self._clock.monotonic()
        try:
            await self._clean(choice)
            self._trouble.pop(log, None)
            self.metrics.uncleanable_logs = len(self._trouble)
        except FAILURES as error:
            self._failed(log, error)
        finally:
            log.cleaning.begin(())
            self.metrics.is_running = False
            self.metrics.last_seconds = self._clock.monotonic() - started_s
            self.metrics.last_run_ms = self._clock.now_ms()
        return True

    # --- which --------------------------------------------------------------------------------

    async def _choose(self) -> _Choice | None:
        """Look at every log; return the dirtiest one that is due."""
        best: _Choice | None = None
        backlog: dict[tuple[str, int], int] = {}
        ratio_max, seen, now_s = 0.0, 0, self._clock.monotonic()
        for directory in self._checkpoints:
            for log in list(directory.logs.values()):
                seen += 1
                if not seen % LOGS_PER_TURN:
                    await asyncio.sleep(0)
                if log.refusal or not log.config.cleanup_policy.compacts:
                    continue
                plan = self._plan(directory, log)
                if plan is None:
                    continue
                backlog[log.topic_partition] = plan.cleanable_bytes
                ratio_max = max(ratio_max, plan.dirty_ratio)
                trouble = self._trouble.get(log)
                if trouble is not None and trouble.retry_at_s > now_s:
                    continue
                is_due = plan.is_due(log.config.min_cleanable_dirty_ratio)
                if is_due and (best is None or plan.dirty_ratio > best.plan.dirty_ratio):
                    best = _Choice(directory, log, plan)
        self._trouble = {each: it for each, it in self._trouble.items() if not each.is_closed}
        self.metrics.backlog_bytes, self.metrics.dirty_ratio_max = backlog, ratio_max
        self.metrics.uncleanable_logs = len(self._trouble)
        return best

    def _plan(self, directory: LogDirectory, log: PartitionLog) -> CleaningPlan | None:
        checkpointed = directory.checkpoints.written.get(RECOVERY_POINT_CHECKPOINT, {})
        self._checkpoints[directory].tell(log)
        try:
            return plan_log(
                log,
                recovery_point=checkpointed.get(log.topic_partition, 0),
                now_ms=self._clock.now_ms(),
            )
        except StorageError as error:
            _log.warning("not looked at", partition=str(log.topic_partition), error=str(error))
            return None

    def _failed(self, log: PartitionLog, error: BaseException) -> None:
        if log.is_closed or self._ending.is_set():
            return  # deleted, or the broker ends: nothing is wrong with it
        trouble = self._trouble.setdefault(log, _Trouble())
        trouble.failures += 1
        delay_s = min(self._config.backoff_ms / 1000 * 2**trouble.failures, RETRY_DELAY_S_MAX)
        trouble.retry_at_s = self._clock.monotonic() + delay_s
        self.metrics.failures += 1
        self.metrics.uncleanable_logs = len(self._trouble)
        _log.error(
            "log not cleaned",
            partition=str(log.topic_partition),
            error=str(error) or type(error).__name__,
            failures=trouble.failures,
            retry_seconds=round(delay_s),
        )

    # --- one log ------------------------------------------------------------------------------

    async def _clean(self, choice: _Choice) -> None:
        """Pass after pass, up to where the log could be cleaned when it was chosen."""
        directory, log, plan = choice
        end_offset = plan.first_uncleanable_offset
        if log.cleaning.is_replacing:  # what the disk refused to end the last time
            await self._run_steps(log, log.cleaning.finish_steps())
        while not self._ending.is_set():
            if log.damage:
                raise LogUncleanableError(str(log.directory), 0, "it has damaged bytes")
            result = await self._pass(log, plan)
            if result is None or log.cleaning.is_incomplete or not log.cleaning.segments:
                return  # cut or trimmed meanwhile: what is not clean is for another look
            if log.is_closed:
                return
            log.cleaning.cleaned_offset = result.cleaned_offset
            offsets = self._checkpoints[directory].offsets(directory.logs.values())
            await self._in_thread(self._checkpoints[directory].write, offsets)
            again = self._plan(directory, log)
            if result.cleaned_offset >= end_offset or again is None or not again.cleanable_bytes:
                return
            plan = again

    async def _pass(self, log: PartitionLog, plan: CleaningPlan) -> CleaningResult | None:
        """Run one pass; None: the log was changed meanwhile, and the pass given up."""
        for segment in log.segments:
            if segment.transaction_index.size_bytes:
                log.upkeep.trusted_index(segment)
                await asyncio.sleep(0)
        started_s = self._clock.monotonic()
        job = cleaning_job(
            log,
            plan,
            now_ms=self._clock.now_ms(),
            dedupe_buffer_bytes=self._config.dedupe_buffer_bytes,
            io_bytes_per_second=self._config.io_bytes_per_second,
            free_bytes_min=self._free_bytes_min,
        )
        result = None
        try:
            result = await self._put_in_place(log, job)
        except FileNotFoundError:
            if log.is_closed or log.segments.base_offsets[0] <= job.segments[0].base_offset:
                raise
        finally:
            if result is None:
                await self._tidy(log)
        if result is None:
            _log.info("cleaning given up", partition=str(log.topic_partition))
            return None
        self._report(log, plan, result, self._clock.monotonic() - started_s)
        return result

    async def _put_in_place(self, log: PartitionLog, job: CleaningJob) -> CleaningResult | None:
        """Have a worker do the job, and put in place what it reports; None: given up."""
        groups: asyncio.Queue[CleanedGroup | None] = asyncio.Queue()
        running = self._running = asyncio.get_running_loop().create_task(
            self._jobs.run(self._job, job, on_progress=groups.put_nowait)
        )
        running.add_done_callback(lambda _: groups.put_nowait(None))
        is_given_up = False
        try:
            while (group := await groups.get()) is not None:
                if not await self._run_steps(log, log.cleaning.replace(group)):
                    is_given_up = True
                    running.cancel()
        except BaseException:
            running.cancel()
            await asyncio.wait({running})
            raise
        finally:
            self._running = None
        return None if running.cancelled() or is_given_up else running.result()

    async def _tidy(self, log: PartitionLog) -> None:
        """Remove what a pass without a result has left, once its worker has ended for certain.

        Else it would write on into the files of the next pass, or of a new log of that name. Where
        the broker ends, the next start removes it.
        """
        if not self._ending.is_set():
            await self._jobs.settle()
            await self._in_thread(log.cleaning.remove_cleaned)

    async def _run_steps(self, log: PartitionLog, steps: Steps[bool]) -> bool:
        """Put a new segment in place. Once begun it is brought to its end."""
        while True:
            try:
                job = next(steps)
            except StopIteration as stop:
                return bool(stop.value)
            if job is None:
                await asyncio.sleep(0)
                continue
            try:
                await self._in_thread(job)
            except OSError as error:
                if log.is_closed:  # deleted: its directory has another name now
                    return False
                log.fail(error)  # a sync failed: nobody knows what a crash would leave
                raise

    async def _in_thread(self, call: Callable[..., Any], *arguments: object) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, call, *arguments)

    def _report(
        self, log: PartitionLog, plan: CleaningPlan, result: CleaningResult, seconds: float
    ) -> None:
        stats, metrics = result.stats, self.metrics
        metrics.passes += 1
        metrics.bytes_read += stats.bytes_read
        metrics.bytes_written += stats.bytes_written
        metrics.records_read += stats.counts.records_read
        metrics.records_kept += stats.counts.records_kept
        old_bytes = sum(group.old_bytes for group in result.groups)
        _log.info(
            "log cleaned",
            partition=str(log.topic_partition),
            dirty_offsets=[plan.first_dirty_offset, result.cleaned_offset],
            segments=[sum(len(each.old_base_offsets) for each in result.groups),
                      len(result.groups)],
            size_bytes=[old_bytes, sum(group.new_bytes for group in result.groups)],
            records=[stats.counts.records_read, stats.counts.records_kept],
            keyless=stats.counts.keyless,
            keys=stats.map_keys,
            seconds=round(seconds, 3),
        )  # fmt: skip
