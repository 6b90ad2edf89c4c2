"""DiskWatch: looks at the disk of each data directory, each second, in threads that may hang.

What follows from a look is `storage.disk_guard`'s business. A disk that gives no answer for
`ANSWER_S` counts as one that cannot be reached, until it answers.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final

import structlog

from broker.storage.disk_guard import DirectorySample, DiskLook

if TYPE_CHECKING:
    from broker.metrics import StorageMetrics
    from broker.storage.disk_guard import DiskGuard
    from broker.storage.log_directory import LogDirectory

_log = structlog.get_logger("tidelog.disk")

LOOK_EACH_S: Final = 1.0
LOOK_EACH_NEAR_S: Final = 0.1
"""Where little is left."""
ANSWER_S: Final = 10.0
QUIET_S: Final = 10.0
"""After so long without a refused append the disk counts as well again."""


class DiskWatch:
    """Over the data directories of one broker; on the event loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        metrics: StorageMetrics,
        *,
        on_resumed: Callable[[LogDirectory], object],
    ) -> None:
        """Args:
        executor: Threads for calls that may hang: as many as there are directories.
        on_resumed: Is told of a directory that takes appends again.
        """
        self._loop, self._executor, self._metrics = loop, executor, metrics
        self._on_resumed = on_resumed
        self._watched: list[_Watched] = []
        self._failures_seen = 0
        self._failing_until_s: float | None = None

    def start(self, directories: Iterable[LogDirectory]) -> None:
        """Look at once, in place: what was just loaded does answer; then from time to time."""
        for directory in directories:
            directory.guard.note(directory.guard.look())
            watched = _Watched(directory)
            self._watched.append(watched)
            self._look_later(watched)
        self._metrics.directories = self.samples

    def stop(self) -> None:
        """Look no more."""
        for watched in self._watched:
            watched.cancel()
        self._watched = []

    def problems(self) -> list[str]:
        """Return why appends are refused, a sentence for each directory that does."""
        guards = [watched.directory.guard for watched in self._watched]
        return [guard.problem for guard in guards if guard.problem]

    def samples(self) -> list[DirectorySample]:
        """Return the numbers of every directory."""
        return [watched.directory.guard.sample() for watched in self._watched]

    def _look_later(self, watched: _Watched) -> None:
        pause_s = LOOK_EACH_NEAR_S if watched.directory.guard.is_near else LOOK_EACH_S
        watched.timer = self._loop.call_later(pause_s, self._look, watched)

    def _look(self, watched: _Watched) -> None:
        self._tell_of_refused_appends()
        watched.timer = self._loop.call_later(ANSWER_S, self._no_answer, watched)
        self._executor.submit(self._look_in_thread, watched, watched.directory.guard)

    def _look_in_thread(self, watched: _Watched, guard: DiskGuard) -> None:
        look = guard.look()
        self._loop.call_soon_threadsafe(self._looked, watched, look)

    def _no_answer(self, watched: _Watched) -> None:
        error = OSError(errno.ETIMEDOUT, f"it does not answer for {ANSWER_S:.0f} s")
        watched.directory.guard.note(DiskLook(0, 0, error))

    def _looked(self, watched: _Watched, look: DiskLook) -> None:
        if watched not in self._watched:
            return  # stopped meanwhile
        watched.cancel()
        watched.directory.context.handles.relax()
        if watched.directory.guard.note(look):
            self._on_resumed(watched.directory)
        self._look_later(watched)

    def _tell_of_refused_appends(self) -> None:
        """Say that the disk itself refuses appends, and that it does not any more: once each."""
        now_s, failures = self._loop.time(), self._metrics.write_failures
        if failures > self._failures_seen:
            if self._failing_until_s is None:
                _log.error("the disk refuses appends", refused=failures - self._failures_seen)
            self._failing_until_s = now_s + QUIET_S
        elif self._failing_until_s is not None and now_s >= self._failing_until_s:
            _log.info("the disk has refused no append for a while", seconds=QUIET_S)
            self._failing_until_s = None
        self._failures_seen = failures


class _Watched:
    """A directory, and what is to happen next to it."""

    __slots__ = ("directory", "timer")

    def __init__(self, directory: LogDirectory) -> None:
        self.directory = directory
        self.timer: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
