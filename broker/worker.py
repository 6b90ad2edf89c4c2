"""WorkerPool: runs what would hold up the event loop for long in other processes.

One busy Python thread takes the loop from 113,000 requests a second to 1,500, so the cleaner, the
scrubber and recovery run there: job by job, each a function of an importable module with picklable
arguments and result.

    pool = WorkerPool()
    facts = await pool.run(recover_partition, plan, on_progress=note)
    await pool.close()

No process is there before the first job, and none stays for long after the last. A worker inherits
no socket, file or lock of the broker, runs nothing of the program that the broker is part of (not
even its main module, which multiprocessing would import again), and ends with the broker however
that ends. Jobs use `worker_job.progress` and `worker_job.should_stop`.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

import structlog

from broker import worker_job
from broker.worker_job import progress, should_stop

__all__ = [
    "InlineWorker",
    "Jobs",
    "NoWorkerError",
    "WorkerDiedError",
    "WorkerPool",
    "progress",
    "should_stop",
]

_log = structlog.get_logger("tidelog.worker")

T = TypeVar("T")
Progress = Callable[[Any], object]

START_TIMEOUT_S: Final = 30.0
"""A worker is there after 0.1 s; on a machine that is very busy, later."""
STOP_TIMEOUT_S: Final = 5.0
"""So long has a job that was told to stop, before its process is killed."""
IDLE_S: Final = 60.0
"""A worker without a job ends after this: it holds 20 MB."""
NICENESS: Final = 10
LENGTH_BYTES: Final = 4
REAP_TRIES: Final = 50
REAP_WAIT_S: Final = 0.02


class WorkerDiedError(Exception):
    """The process of a job died, or could not be started: out of memory, killed. Try it again, or
    do it in this process."""


class NoWorkerError(WorkerDiedError):
    """No process can be started: do it in this one."""


class Jobs(Protocol):
    """What runs jobs: a `WorkerPool`; in tests an `InlineWorker`."""

    async def run(
        self, function: Callable[..., T], *args: object, on_progress: Progress | None = None
    ) -> T:
        """Return what the job does; see `WorkerPool.run`."""
        ...

    async def settle(self) -> None:
        """Return when no job is at work any more whose caller was cancelled."""
        ...

    async def close(self) -> None: ...


class WorkerPool:
    """At most `processes` jobs at once; the others wait. Used on one event loop."""

    def __init__(
        self,
        processes: int = 1,
        *,
        niceness: int = NICENESS,
        idle_s: float = IDLE_S,
        stop_timeout_s: float = STOP_TIMEOUT_S,
    ) -> None:
        """Args:
        niceness: Added to the broker's: above 0, workers take what others leave.
        """
        self.processes = processes
        self._niceness, self._idle_s, self._stop_timeout_s = niceness, idle_s, stop_timeout_s
        self._slots = asyncio.Semaphore(processes)
        self._idle: dict[_WorkerProcess, asyncio.TimerHandle] = {}
        self._busy: set[_WorkerProcess] = set()
        self._ends: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def process_ids(self) -> list[int]:
        """Of the workers there are now."""
        return [worker.process_id for worker in (*self._busy, *self._idle)]

    async def run(
        self, function: Callable[..., T], *args: object, on_progress: Progress | None = None
    ) -> T:
        """Run a job in a worker; return its result, or raise its exception.

        If the caller is cancelled, the job is told to stop, and killed if it does not.

        Args:
            function: Of a module's top level; the worker imports that module.
            on_progress: Is called, on the event loop, with each value of `progress`.

        Raises:
            WorkerDiedError: its process died or cannot be started; the next `run` starts another.
        """
        async with self._slots:
            if self._is_closed:
                raise WorkerDiedError("the workers are closed")
            worker = await self._take()
            try:
                result: T = await worker.run(function, args, on_progress)
            finally:
                self._busy.discard(worker)
                self._give_back(worker)
            return result

    async def _take(self) -> _WorkerProcess:
        while self._idle:
            worker, timer = self._idle.popitem()
            timer.cancel()
            if not worker.is_dead:
                self._busy.add(worker)
                return worker
            self._end(worker)
        worker = _WorkerProcess(self._niceness)
        self._busy.add(worker)
        try:
            await worker.said_hello()
        except BaseException:
            self._busy.discard(worker)
            self._end(worker)
            raise
        return worker

    def _give_back(self, worker: _WorkerProcess) -> None:
        if worker.is_dead or worker.is_at_work or self._is_closed:
            self._end(worker)
            return
        loop = asyncio.get_running_loop()
        self._idle[worker] = loop.call_later(self._idle_s, self._end_idle, worker)

    def _end_idle(self, worker: _WorkerProcess) -> None:
        self._idle.pop(worker, None)
        self._end(worker)

    def _end(self, worker: _WorkerProcess) -> None:
        task = asyncio.get_running_loop().create_task(worker.end(self._stop_timeout_s))
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    async def settle(self) -> None:
        """See `Jobs`: they have stopped, or were killed."""
        while self._ends:
            await asyncio.wait(self._ends)

    async def close(self) -> None:
        """Tell all jobs to stop, kill what does not; on return no process is left.

        Callers of `run` get their jobs' last results, or WorkerDiedError. A second call is nothing.
        """
        self._is_closed = True
        for worker, timer in self._idle.items():
            timer.cancel()
            self._end(worker)
        self._idle.clear()
        for worker in list(self._busy):
            self._end(worker)
        await self.settle()


class _WorkerProcess:
    """One process, and the socket to it."""

    def __init__(self, niceness: int) -> None:
        """Start the process; `said_hello` tells when it is there.

        Raises:
            WorkerDiedError: it cannot be started.
        """
        self._number = 0
        self._job: asyncio.Future[Any] | None = None
        self._on_progress: Progress | None = None
        self._hello: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_dead = False
        ours, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                _command(theirs.fileno(), niceness),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(_import_path())},
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # what a terminal tells the broker is not for it
            )
        except (OSError, ValueError) as error:
            ours.close()
            raise NoWorkerError(f"no worker can be started: {error}") from error
        finally:
            theirs.close()
        self._link = ours
        self._writer: asyncio.StreamWriter | None = None
        self._receiving = asyncio.get_running_loop().create_task(self._receive())

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def is_at_work(self) -> bool:
        return self._job is not None

    async def said_hello(self) -> None:
        try:
            await asyncio.wait_for(asyncio.shield(self._hello), START_TIMEOUT_S)
        except TimeoutError:
            raise NoWorkerError(f"a worker did not start in {START_TIMEOUT_S:.0f} s") from None

    async def run(
        self,
        function: Callable[..., Any],
        args: tuple[object, ...],
        on_progress: Progress | None,
    ) -> Any:
        self._number += 1
        data = _frame(("job", self._number, function, args))  # what cannot be pickled raises here
        job = self._job = asyncio.get_running_loop().create_future()
        self._on_progress = on_progress
        if self.is_dead or self._writer is None:
            self._fail_job()
        else:
            self._writer.write(data)
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            job.add_done_callback(_retrieve)  # nobody waits for it any more
            self._tell_to_stop()
            raise

    def _tell_to_stop(self) -> None:
        if self._writer is not None and not self.is_dead:
            self._writer.write(_frame(("stop", self._number)))

    async def end(self, timeout_s: float) -> None:
        """Let the job end, or kill it after `timeout_s`; return when the process is gone."""
        if self._job is not None:
            self._tell_to_stop()
            await asyncio.wait({self._job}, timeout=timeout_s)
        self.is_dead = True
        if self._process.poll() is None:
            self._process.kill()  # an idle worker has nothing to lose
        for _ in range(REAP_TRIES):
            if self._process.poll() is not None:
                break
            await asyncio.sleep(REAP_WAIT_S)
        else:
            _log.warning("a worker does not end", process=self.process_id)
        await asyncio.wait({self._receiving}, timeout=timeout_s)
        if self._writer is not None:
            self._writer.close()

    async def _receive(self) -> None:
        """Take what the worker says until it says no more."""
        try:
            reader, self._writer = await asyncio.open_connection(sock=self._link)
            while True:
                size = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
                data = await reader.readexactly(size)
                self._take_message(*pickle.loads(data))  # noqa: S301 - from our own child
        except (asyncio.IncompleteReadError, OSError):
            pass
        except Exception:
            _log.exception("a worker says what cannot be understood", process=self.process_id)
            self._process.kill()
        finally:
            self.is_dead = True
            self._fail_job()
            if not self._hello.done():
                self._hello.set_exception(NoWorkerError("a worker died while it started"))
                self._hello.add_done_callback(_retrieve)

    def _fail_job(self) -> None:
        job, self._job = self._job, None
        if job is not None and not job.done():
            code = self._process.poll()
            job.set_exception(WorkerDiedError(f"a worker died (exit code {code})"))

    def _take_message(self, kind: str, *values: Any) -> None:
        if kind == "hello":
            if not self._hello.done():
                self._hello.set_result(None)
        elif kind == "log":
            level, name, event, fields = values
            structlog.get_logger(name).log(level, event, **fields)
        elif values[0] != self._number or self._job is None:
            return
        elif kind == "progress":
            _call(self._on_progress, values[1])
        else:
            job, self._job = self._job, None
            if job.done():
                return
            if kind == "result":
                job.set_result(values[1])
            else:
                error: Exception = values[1]
                error.add_note(f"In a worker process:\n{values[2]}")
                job.set_exception(error)


def _command(descriptor: int, niceness: int) -> list[str]:
    """-P: the directory that the broker was started in is none to import from."""
    command = [sys.executable, "-P", "-m", "broker.worker_process"]
    return [*command, str(descriptor), str(os.getpid()), str(niceness)]


def _import_path() -> list[str]:
    return [path or os.getcwd() for path in sys.path]


def _frame(message: tuple[Any, ...]) -> bytes:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def _call(on_progress: Progress | None, value: object) -> None:
    if on_progress is None:
        return
    try:
        on_progress(value)
    except Exception:
        _log.exception("progress of a job was not noted")


def _retrieve(future: asyncio.Future[Any]) -> None:
    """Look at the exception, so that nobody complains that none has."""
    if not future.cancelled():
        future.exception()


class InlineWorker:
    """Runs jobs in this process, at once: for tests, and where no process can be had.

    Arguments and results are pickled all the same, as a worker would.
    """

    def __init__(self) -> None:
        self.should_stop = False
        """What jobs are answered that ask."""
        self.jobs: list[tuple[str, tuple[object, ...]]] = []
        """Names and arguments of what was run."""
        self.deaths = 0
        """So many of the next jobs die before they begin."""

    async def run(
        self, function: Callable[..., T], *args: object, on_progress: Progress | None = None
    ) -> T:
        self.jobs.append((function.__name__, args))
        if self.deaths:
            self.deaths -= 1
            raise WorkerDiedError("a worker died (as the test wants it)")
        function, copies = pickle.loads(pickle.dumps((function, args)))  # noqa: S301
        before = worker_job.connect(
            lambda value: _call(on_progress, pickle.loads(pickle.dumps(value))),  # noqa: S301
            lambda: self.should_stop,
        )
        try:
            result: T = pickle.loads(pickle.dumps(function(*copies)))  # noqa: S301
        finally:
            worker_job.connect(*before)
        return result

    async def settle(self) -> None:
        pass

    async def close(self) -> None:
        self.should_stop = True
