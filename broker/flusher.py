"""Flusher: group commit. Drives the engine's flush tasks from the event loop.

A group is the logs that have something to flush, up to a number. Its tasks run side by side: most
are one fdatasync, which the kernel does by itself (`KernelSyncs`); the others, and all where it
does not, run in a small pool of threads that only sit in system calls. When the last one has ended,
the loop publishes what became durable, which answers the produces that wait. The next group starts
one loop turn after that: whoever was just answered gets to join it. (Starting at once halves the
throughput, measured.)

Under flush policy `commit` any unflushed byte wakes the flusher. Under the others a log is flushed
when it says so: after `flush_messages` or `flush_ms`, or with too many bytes unflushed.

A failed fsync is final: what it would have covered may be lost while reading back fine, so nothing
is acknowledged any more, by anybody, and the process ends (`on_fatal`).
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, Final

import structlog

from broker.storage.flush import DUE_NOW

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.kernel_syncs import KernelSyncs
    from broker.metrics import FlushMetrics
    from broker.storage.disk import DiskFile
    from broker.storage.flush import FlushTask
    from broker.storage.partition_log import PartitionLog

_log = structlog.get_logger("tidelog.flusher")

THREADS_MAX: Final = 8

GROUP_LOGS_MAX: Final = 256
"""The others are of the next group: each log takes some descriptors, and time on the loop."""
GROUP_START_S: Final = 0.002
"""Likewise, after so long: logs whose files have to be opened first take much more of it."""
GROUP_CLOCK_LOGS: Final = 8
"""Between two looks at the clock."""


class _Group:
    """Flush tasks under way together, and what is left of them to be started and to end."""

    __slots__ = (
        "_jobs_left", "_lock", "_todo", "error", "in_kernel", "parts", "started_s", "tasks",
    )  # fmt: skip

    def __init__(self, tasks: list[tuple[PartitionLog, FlushTask]], started_s: float) -> None:
        self.tasks = tasks
        self.error: BaseException | None = None
        self.started_s = started_s
        self.in_kernel: list[FlushTask] = []
        """Those that the kernel does by itself."""
        self.parts = 0
        """How many of the two, the kernel and the threads, have not ended."""

    def give_to_threads(self, tasks: Iterable[FlushTask], jobs: int) -> None:
        """Have these done by `run_job`, which is to be called so many times."""
        self._todo = deque(tasks)
        self._jobs_left = jobs
        self._lock = threading.Lock()

    def run_job(self, finished: Callable[[], object]) -> None:
        """Run tasks until none is left; in a thread. The last job to end calls `finished`."""
        try:
            while self.error is None and (task := self._next()) is not None:
                task.run()
        except BaseException as error:
            self.error = error
        with self._lock:
            self._jobs_left -= 1
            is_last = self._jobs_left == 0
        if is_last:
            finished()

    def _next(self) -> FlushTask | None:
        try:
            return self._todo.popleft()
        except IndexError:
            return None


class Flusher:
    """The driver. Everything but `_Group.run_job` happens on the event loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        executor: Executor,
        *,
        metrics: FlushMetrics,
        on_fatal: Callable[[OSError], object],
        on_flushed: Callable[[Sequence[PartitionLog]], object] = lambda logs: None,
        threads_max: int = THREADS_MAX,
        kernel: KernelSyncs | None = None,
    ) -> None:
        """Args:
        executor: Threads for fdatasync; not used for anything that runs Python for long.
        kernel: Syncs files without them; None: there is no such thing.
        on_fatal: Called once, on the loop, after a failed fsync; must stop the broker.
        on_flushed: Called after each group with its logs, in the same turn; the answers that the
            group has brought about leave in the next one.
        """
        self._loop, self._clock, self._executor = loop, clock, executor
        self._metrics, self._threads_max, self._kernel = metrics, threads_max, kernel
        self._on_fatal, self._on_flushed = on_fatal, on_flushed
        self._due: dict[PartitionLog, None] = {}
        self._timed: dict[PartitionLog, float] = {}  # when each is looked at
        self._times: list[tuple[float, int, PartitionLog]] = []  # a heap, with old entries
        self._timed_count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_s = 0.0
        self._group: _Group | None = None
        self._start_is_scheduled = False
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._group_waiters: list[asyncio.Future[None]] = []
        self.failure: OSError | None = None
        """The error of the fsync that failed; from then on nothing is flushed."""

    def wake(self, log: PartitionLog) -> None:
        """Flush `log` when it says it is due; under policy `commit` that is the next group."""
        due_at = log.flush_due_at
        if due_at == DUE_NOW:
            self._due[log] = None
            if self._group is None and not self._start_is_scheduled:
                self._schedule_start()
        elif due_at is not None:
            self._look_at(log, due_at)
        writeback = log.writeback_due()
        if writeback is not None:
            self._executor.submit(_start_writeback, *writeback)

    async def forget(self, logs: Iterable[PartitionLog]) -> None:
        """Flush `logs`, which get no more appends, never again; return when no task of them runs.

        Only then may their directories be renamed: a sync of a name that is gone would look like a
        failed disk, and end the broker.
        """
        for log in logs:
            self._due.pop(log, None)
            self._timed.pop(log, None)
        if self._group is not None:
            ended: asyncio.Future[None] = self._loop.create_future()
            self._group_waiters.append(ended)
            await ended

    async def flush_all(self, logs: Iterable[PartitionLog]) -> None:
        """Flush everything that is unflushed, under every policy; return when it is durable.

        Raises:
            OSError: an fsync failed, now or before.
        """
        self._due.update(dict.fromkeys(logs))
        if self.failure is None and (self._due or self._group is not None):
            if self._group is None and not self._start_is_scheduled:
                self._schedule_start()
            idle: asyncio.Future[None] = self._loop.create_future()
            self._idle_waiters.append(idle)
            await idle
        if self.failure is not None:
            raise self.failure

    @property
    def logs_left(self) -> int:
        """How many logs are still to be flushed, those under way among them."""
        return len(self._due) + (len(self._group.tasks) if self._group is not None else 0)

    def fail(self, error: OSError) -> None:
        """Take note of a failed fsync, wherever it happened: nothing is flushed any more."""
        if self.failure is not None:
            return
        self.failure = error
        self._metrics.failures += 1
        _log.critical("fsync failed; nothing is acknowledged any more", error=str(error))
        self.stop()
        self._tell_idle()
        self._on_fatal(error)

    def stop(self) -> None:
        """Start nothing any more."""
        self._due.clear()
        self._timed.clear()
        self._times.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- one group after the other --------------------------------------------------------------

    def _schedule_start(self) -> None:
        self._start_is_scheduled = True
        self._loop.call_soon(self._start_group)

    def _start_group(self) -> None:
        self._start_is_scheduled = False
        due = list(islice(self._due, GROUP_LOGS_MAX))
        if self.failure is not None:
            for log in due:
                del self._due[log]
            self._tell_idle()
            return
        monotonic = self._clock.monotonic
        deadline_s = monotonic() + GROUP_START_S
        tasks: list[tuple[PartitionLog, FlushTask]] = []
        for number, log in enumerate(due, 1):
            if not number % GROUP_CLOCK_LOGS and monotonic() > deadline_s:
                break
            self._due.pop(log, None)
            task = log.flush_task()
            if task is not None:
                tasks.append((log, task))
        if not tasks:
            if self._due and self.failure is None:
                self._schedule_start()
            self._tell_idle()
            return
        self._run_group(_Group(tasks, monotonic()))

    def _run_group(self, group: _Group) -> None:
        self._group = group
        rest = [task for _, task in group.tasks]
        if self._kernel is not None:
            rest = self._give_to_kernel(group, self._kernel, rest)
        if rest:
            group.parts += 1
            jobs = min(len(rest), self._threads_max)
            group.give_to_threads(rest, jobs)
            for _ in range(jobs):
                self._executor.submit(group.run_job, self._threads_ended)

    def _give_to_kernel(
        self, group: _Group, kernel: KernelSyncs, tasks: list[FlushTask]
    ) -> list[FlushTask]:
        """Have the kernel do what it can; return the other tasks."""
        simple: list[FlushTask] = []
        descriptors: list[int] = []
        rest: list[FlushTask] = []
        for task in tasks:
            descriptor = task.sync_descriptor
            if descriptor is None:
                rest.append(task)
            else:
                simple.append(task)
                descriptors.append(descriptor)
        begun = kernel.begin(descriptors, self._kernel_ended) if descriptors else 0
        for task in simple[:begun]:
            task.begin()
        group.in_kernel = simple[:begun]
        group.parts += begun > 0
        return rest + simple[begun:]

    def _kernel_ended(self, error: OSError | None) -> None:
        group = self._group
        assert group is not None, "syncs ended that were not begun"
        if error is None:
            seconds = self._clock.monotonic() - group.started_s
            for task in group.in_kernel:
                task.synced(seconds)
        elif group.error is None:
            group.error = error
        self._part_ended()

    def _threads_ended(self) -> None:
        """In a thread."""
        self._loop.call_soon_threadsafe(self._part_ended)

    def _part_ended(self) -> None:
        assert self._group is not None, "a group ended that was not begun"
        self._group.parts -= 1
        if not self._group.parts:
            self._finish_group(self._group)

    def _finish_group(self, group: _Group) -> None:
        self._group = None
        waiters, self._group_waiters = self._group_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        if group.error is not None:
            self._fail_group(group, group.error)
            return
        metrics = self._metrics
        metrics.groups += 1
        metrics.files += len(group.tasks)
        metrics.latency.observe(self._clock.monotonic() - group.started_s)
        logs: list[PartitionLog] = []
        for log, task in group.tasks:
            log.flush_completed(task)  # wakes this again for what was written meanwhile
            logs.append(log)
        self._on_flushed(logs)
        if self._due and not self._start_is_scheduled:
            self._schedule_start()
        self._tell_idle()

    def _fail_group(self, group: _Group, error: BaseException) -> None:
        """None of the group is acknowledged, though some of its files may have been synced."""
        if not isinstance(error, OSError):  # a bug, but what it means is the same
            error = OSError(f"{type(error).__name__}: {error}")
        self.fail(error)
        for log, task in group.tasks:
            log.flush_failed(task, error)

    def _tell_idle(self) -> None:
        if self._group is None and not self._due and not self._start_is_scheduled:
            waiters, self._idle_waiters = self._idle_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    # --- policies `interval` and `os` -----------------------------------------------------------

    def _look_at(self, log: PartitionLog, at_s: float) -> None:
        """Ask a log at that time whether it is due, unless it is asked before."""
        if at_s >= self._timed.get(log, math.inf):
            return
        self._timed[log] = at_s
        self._timed_count += 1  # logs have no order
        heappush(self._times, (at_s, self._timed_count, log))
        self._set_timer()

    def _set_timer(self) -> None:
        """Have the timer fire for the log that is to be looked at first."""
        at_s = self._times[0][0] if self._times else math.inf
        if self._timer is not None:
            if at_s == self._timer_at_s:
                return
            self._timer.cancel()
            self._timer = None
        if self._times:
            self._timer_at_s = at_s
            self._timer = self._loop.call_later(at_s - self._clock.monotonic(), self._check_timed)

    def _check_timed(self) -> None:
        """Take what is due by now into the next group, and set the timer for what is due next."""
        self._timer = None
        now_s = self._clock.monotonic()
        while self._times and self._times[0][0] <= now_s:
            at_s, _, log = heappop(self._times)
            if self._timed.get(log) != at_s:
                continue  # forgotten, or it was looked at earlier
            del self._timed[log]
            due_s = log.flush_due_at
            if due_s is None:
                continue
            if due_s > now_s:
                self._look_at(log, due_s)
            else:
                self._due[log] = None
        self._set_timer()
        if self._due and self._group is None and not self._start_is_scheduled:
            self._schedule_start()


def _start_writeback(file: DiskFile, position: int, size: int) -> None:
    """In a thread: it may block for many milliseconds. A hint, so errors do not matter."""
    try:
        file.start_writeback(position, size)
    except OSError as error:
        _log.debug("write-back not started", path=str(file.path), error=str(error))
