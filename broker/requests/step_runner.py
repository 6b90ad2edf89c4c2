"""StepRunner: work that takes more than one turn of the event loop, for requests that need it.

What fits one step (nearly every request) is done at once, without a task. The rest becomes a task
whose answer is a `PendingResponse` that pauses the reading of its connection, so that the next
request of the client cannot overtake it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from broker.network.answers import PendingResponse
from broker.steps import Job, Steps

if TYPE_CHECKING:
    from broker.metrics import RequestMetrics
    from broker.network.connection import Connection

_log = structlog.get_logger("tidelog.native")

T = TypeVar("T")


class StepRunner:
    """Runs steps and tasks on one loop; jobs that would hold it up go to the executor."""

    __slots__ = ("_executor", "_loop", "_monotonic", "_tasks")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop, self._executor, self._monotonic = loop, executor, monotonic
        self._tasks: set[asyncio.Task[None]] = set()

    def answer(
        self, steps: Steps[bytes], metrics: RequestMetrics, connection: Connection
    ) -> bytes | PendingResponse:
        """Return what `steps` return: at once if the first ends them, else pending.

        When the connection is lost, they are not gone on with: this is for reading only.
        """
        try:
            job = next(steps)
        except StopIteration as stop:
            answer: bytes = stop.value
            return answer
        pending = PendingResponse(pauses_reading=True)
        task = self.spawn(self._answer_later(steps, job, metrics, pending), connection)

        def abandon() -> None:
            task.cancel()

        pending.on_abandoned = abandon
        return pending

    async def _answer_later(
        self,
        steps: Steps[bytes],
        job: Job | None,
        metrics: RequestMetrics,
        pending: PendingResponse,
    ) -> None:
        started_s = self._monotonic()
        answer = await self.finish(steps, job)
        metrics.latency.observe(self._monotonic() - started_s)
        pending.complete(answer)

    async def finish(self, steps: Steps[T], job: Job | None) -> T:
        """Run `steps` to their end, one a loop turn; `job` is what the last step yielded."""
        while True:
            failure: Exception | None = None
            if job is None:
                await asyncio.sleep(0)
            else:
                try:
                    await self._loop.run_in_executor(self._executor, job)
                except Exception as error:
                    failure = error
            try:
                job = next(steps) if failure is None else steps.throw(failure)
            except StopIteration as stop:
                result: T = stop.value
                return result

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Return what `call` returns, run in a thread; it must only wait in system calls."""
        return await self._loop.run_in_executor(self._executor, call)

    def spawn(self, work: Coroutine[Any, Any, None], connection: Connection) -> asyncio.Task[None]:
        """Run `work` as a task. An error that it lets out is a bug: it closes the connection."""
        task = self._loop.create_task(self._guarded(work, connection))
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            work.close()  # if it was cancelled before its first step

        task.add_done_callback(ended)
        return task

    async def _guarded(self, work: Coroutine[Any, Any, None], connection: Connection) -> None:
        try:
            await work
        except Exception:
            _log.exception("request failed", peer=connection.peer)
            connection.close("internal_error")
