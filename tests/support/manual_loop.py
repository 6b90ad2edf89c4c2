"""A real event loop whose time moves when told to, and executors without threads."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from broker.clock import ManualClock

T = TypeVar("T")


class ManualLoop(asyncio.SelectorEventLoop):
    """Timers fire by `advance`, callbacks by `turn`; its clock is a broker's clock too."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()

    def time(self) -> float:
        return self.clock.monotonic()

    def turn(self) -> None:
        """Run what is ready now, and nothing that it makes ready."""
        self.call_soon(self.stop)
        self.run_forever()

    def settle(self) -> None:
        """Run until nothing is ready any more; time stands still."""
        for _ in range(100_000):
            if not self._ready:  # type: ignore[attr-defined]
                return
            self.turn()
        raise AssertionError("the loop never comes to rest")

    def advance(self, ms: int) -> None:
        """Let time pass, stopping at every timer that is due on the way."""
        self.settle()
        target_s = self.time() + ms / 1000
        while (left_ms := round((target_s - self.time()) * 1000)) > 0:
            timers = [timer.when() for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
            next_ms = math.ceil((min(timers, default=target_s) - self.time()) * 1000)
            self.clock.advance(ms=min(left_ms, max(1, next_ms)))
            self.turn()
            self.settle()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end; it must not need time to pass."""
        task = self.create_task(coroutine)
        self.settle()
        assert task.done(), "the coroutine waits for something that does not come"
        return task.result()


class InlineExecutor(Executor):
    """Runs each job at once, on the caller's thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


class HeldExecutor(Executor):
    """Keeps jobs until `release` runs them, oldest first: a disk as slow as the test wants."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Future[Any], Callable[[], Any]]] = []
        self.submitted = 0
        self.is_following = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.jobs.append((future, lambda: fn(*args, **kwargs)))
        self.submitted += 1
        if self.is_following:
            self.release()
        return future

    def follow(self) -> None:
        """Hold nothing any more: run what there is, and from now on each job at once."""
        self.is_following = True
        self.release()

    def release(self, count: int = 1 << 30) -> int:
        """Run up to `count` jobs; return how many there were."""
        jobs, self.jobs = self.jobs[:count], self.jobs[count:]
        for future, job in jobs:
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)
        return len(jobs)
