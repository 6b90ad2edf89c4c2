"""Flusher bench: a flusher between logs that are not real and a loop by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker.flusher import Flusher
from broker.metrics import FlushMetrics
from broker.storage.flush import DUE_NOW
from tests.support.manual_loop import HeldExecutor, ManualLoop


class FakeTask:
    def __init__(self, log: FakeLog, end: int) -> None:
        self.log, self.end = log, end
        self.sync_descriptor = log.descriptor
        self.seconds: float | None = None

    def run(self) -> None:
        self.log.syncs += 1
        if self.log.sync_error is not None:
            raise self.log.sync_error

    def begin(self) -> None:
        self.log.kernel_syncs += 1

    def synced(self, seconds: float) -> None:
        self.seconds = seconds


class FakeKernel:
    """A kernel that ends its syncs when the test says so, and takes only so many at a time."""

    def __init__(self, syncs_max: int = 1000) -> None:
        self.syncs_max = syncs_max
        self.rounds: list[list[int]] = []
        self._on_ended: Callable[[OSError | None], object] | None = None

    def begin(
        self, descriptors: Sequence[int], on_ended: Callable[[OSError | None], object]
    ) -> int:
        assert self._on_ended is None, "a round is under way"
        begun = list(descriptors[: self.syncs_max])
        if begun:
            self.rounds.append(begun)
            self._on_ended = on_ended
        return len(begun)

    def end(self, error: OSError | None = None) -> None:
        assert self._on_ended is not None, "no round is under way"
        on_ended, self._on_ended = self._on_ended, None
        on_ended(error)


class FakeLog:
    """A log of which only the flushing matters: `written` and `durable` are offsets."""

    def __init__(self, flusher: Flusher) -> None:
        self.flusher = flusher
        self.written = self.durable = self.syncs = 0
        self.flush_due_at: float | None = None
        self.sync_error: OSError | None = None
        self.failure: OSError | None = None
        self.is_out = False
        self.descriptor: int | None = None
        self.kernel_syncs = 0
        self.writeback: tuple[Any, int, int] | None = None

    def append(self, due_at: float | None = DUE_NOW) -> None:
        self.written += 1
        if not self.is_out:
            self.flush_due_at = due_at
            self.flusher.wake(self)  # type: ignore[arg-type]

    def flush_task(self) -> FakeTask | None:
        if self.is_out or self.durable == self.written:
            return None
        self.is_out, self.flush_due_at = True, None
        return FakeTask(self, self.written)

    def flush_completed(self, task: FakeTask) -> None:
        self.is_out, self.durable = False, task.end
        if self.written > self.durable:
            self.flush_due_at = DUE_NOW
            self.flusher.wake(self)  # type: ignore[arg-type]

    def flush_failed(self, task: FakeTask, error: OSError) -> None:
        self.is_out, self.failure = False, error
        self.flusher.fail(error)

    def writeback_due(self) -> tuple[Any, int, int] | None:
        writeback, self.writeback = self.writeback, None
        return writeback


class Bench:
    """A flusher on a manual loop, with a disk that syncs when the test says so."""

    def __init__(self, threads_max: int = 8, kernel: FakeKernel | None = None) -> None:
        self.loop = ManualLoop()
        self.disk = HeldExecutor()
        self.metrics = FlushMetrics()
        self.fatal: list[OSError] = []
        self.groups: list[list[FakeLog]] = []
        self.flusher = Flusher(
            self.loop,
            self.loop.clock,
            self.disk,
            metrics=self.metrics,
            on_fatal=self.fatal.append,
            on_flushed=lambda logs: self.groups.append(list(logs)),  # type: ignore[arg-type]
            threads_max=threads_max,
            kernel=kernel,  # type: ignore[arg-type]
        )

    def log(self, descriptor: int | None = None) -> FakeLog:
        """Make a log; one with a descriptor has nothing to flush but that file."""
        log = FakeLog(self.flusher)
        log.descriptor = descriptor
        return log
