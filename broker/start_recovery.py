"""StartRecovery: recovers many logs at once in worker processes, and says how far it is.

A log each is a job. A worker that dies (of memory, say) takes nothing along: its log is tried once
more, in a new one, and then has to do without: it answers error 56 and the others are served.
Where no process can be had, nothing is recovered here: the broker does it itself, one by one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from broker.storage.log_plan import LogPlan, RecoveredFacts
from protocol.errors import StorageError

if TYPE_CHECKING:
    from broker.metrics import StorageMetrics
    from broker.storage.storage_options import StorageOptions
    from broker.worker import Jobs

_log = structlog.get_logger("tidelog.recovery")

MIB: Final = 1024 * 1024
GIB: Final = 1024 * MIB
IN_PROCESS_BYTES_MAX: Final = 64 * MIB
"""Up to this the broker recovers by itself: workers take 0.1 s to start, and each some memory."""
PROCESSES_MAX: Final = 8
TRIES: Final = 2
TELL_INTERVAL_S: Final = 1.0
TELLS_PER_LOG_LINE: Final = 5


class RecoveryProgress:
    """How far the recovery of a start has come."""

    def __init__(self, plans: Iterable[LogPlan], metrics: StorageMetrics, started_s: float) -> None:
        self._planned = {plan.directory: plan.tail_bytes for plan in plans}
        self._done = dict.fromkeys(self._planned, 0)
        self._started_s = started_s
        self._metrics = metrics
        metrics.recovery_logs = len(self._planned)
        metrics.recovery_bytes = sum(self._planned.values())

    def note(self, directory: Path, read_bytes: int) -> None:
        """A log has been read so far. Damage is read twice; more than planned is not counted."""
        done = min(read_bytes, self._planned[directory])
        self._metrics.recovered_bytes += done - self._done[directory]
        self._done[directory] = done

    def note_done(self, directory: Path) -> None:
        """A log is recovered, or given up."""
        self.note(directory, self._planned[directory])
        self._metrics.recovered_logs += 1

    def seconds_left(self, now_s: float) -> int | None:
        """Return what is left at the rate so far; None: nobody can say yet."""
        done = self._metrics.recovered_bytes
        if not done:
            return None
        left = self._metrics.recovery_bytes - done
        return round((now_s - self._started_s) * left / done)

    def text(self, now_s: float) -> str:
        """Return it in a sentence, for /readyz and systemd."""
        metrics, left = self._metrics, self.seconds_left(now_s)
        return (
            f"recovering: {metrics.recovered_logs} of {metrics.recovery_logs} partitions, "
            f"{metrics.recovered_bytes / GIB:.1f} of {metrics.recovery_bytes / GIB:.1f} GiB"
            + ("" if left is None else f", about {left} s left")
        )


class StartRecovery:
    """The recovery of one start."""

    def __init__(
        self,
        *,
        monotonic: Callable[[], float],
        metrics: StorageMetrics,
        tell: Callable[[str], object],
        jobs: Jobs | None = None,
        in_process_bytes_max: int = IN_PROCESS_BYTES_MAX,
    ) -> None:
        """Args:
        tell: Is told, each second, how far it is, in a sentence.
        jobs: What runs them; without, processes for all cores, for as long as they are needed.
        """
        self._monotonic, self._metrics, self._tell = monotonic, metrics, tell
        self._jobs = jobs
        self._in_process_bytes_max = in_process_bytes_max

    async def run(
        self, plans: Iterable[LogPlan], options: StorageOptions
    ) -> dict[Path, RecoveredFacts | StorageError]:
        """Recover the logs that have something to be checked, if that is much in all.

        By the directories of the logs. Those that are not in it are still to be recovered. If it is
        cancelled, jobs end at their next read, and what they did is done again by the next start.

        Raises:
            OSError: a sync failed: final.
        """
        logs = [plan for plan in plans if plan.tail_bytes]
        total_bytes = sum(plan.tail_bytes for plan in logs)
        if total_bytes <= self._in_process_bytes_max:
            return {}
        from broker.worker import WorkerPool  # a start that is clean needs none of it

        jobs = self._jobs
        if jobs is None:
            processes = min(_processors(), PROCESSES_MAX, len(logs))
            jobs = WorkerPool(processes, niceness=0)
        _log.info("recovering in worker processes", partitions=len(logs), bytes=total_bytes)
        started_s = self._monotonic()
        progress = RecoveryProgress(logs, self._metrics, started_s)
        telling = asyncio.get_running_loop().create_task(self._keep_telling(progress))
        try:
            return await _recover_all(jobs, logs, options, progress)
        finally:
            telling.cancel()
            await jobs.close()
            self._metrics.recovery_seconds += self._monotonic() - started_s

    async def _keep_telling(self, progress: RecoveryProgress) -> None:
        count = 0
        while True:
            now_s = self._monotonic()
            self._tell(progress.text(now_s))
            if count % TELLS_PER_LOG_LINE == 0:
                metrics = self._metrics
                _log.info(
                    "recovery goes on",
                    partitions=f"{metrics.recovered_logs}/{metrics.recovery_logs}",
                    bytes=f"{metrics.recovered_bytes}/{metrics.recovery_bytes}",
                    seconds_left=progress.seconds_left(now_s),
                )
            count += 1
            await asyncio.sleep(TELL_INTERVAL_S)


def _processors() -> int:
    """Return how many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


async def _recover_all(
    jobs: Jobs, plans: list[LogPlan], options: StorageOptions, progress: RecoveryProgress
) -> dict[Path, RecoveredFacts | StorageError]:
    """The largest first, so that none is left alone at the end."""
    ordered = sorted(plans, key=lambda plan: -plan.tail_bytes)
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(_recover_one(jobs, plan, options, progress)) for plan in ordered]
    try:
        results = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    return {
        plan.directory: result
        for plan, result in zip(ordered, results, strict=True)
        if result is not None
    }


async def _recover_one(
    jobs: Jobs, plan: LogPlan, options: StorageOptions, progress: RecoveryProgress
) -> RecoveredFacts | StorageError | None:
    """Return None where no process can be had for it."""
    from broker.recovery_job import recover
    from broker.worker import NoWorkerError, WorkerDiedError
    from broker.worker_job import JobStoppedError

    def note(read_bytes: int) -> None:
        progress.note(plan.directory, read_bytes)

    partition = str(plan.topic_partition)
    for _ in range(TRIES):
        try:
            facts = await jobs.run(recover, options, plan, on_progress=note)
        except NoWorkerError as error:
            _log.warning("recovery does without a worker", partition=partition, error=str(error))
            return None
        except WorkerDiedError as error:
            _log.error("a recovery died", partition=partition, error=str(error))
            note(0)
        except StorageError as error:
            progress.note_done(plan.directory)
            return error
        except (OSError, JobStoppedError):
            raise
        except Exception as error:  # a bug that one log has met must not keep all others away
            _log.exception("a recovery failed", partition=partition)
            progress.note_done(plan.directory)
            return StorageError(f"the recovery of {partition} failed: {error!r}")
        else:
            progress.note_done(plan.directory)
            return facts
    progress.note_done(plan.directory)
    return StorageError(f"the recovery of {partition} died {TRIES} times: is there memory for it?")
