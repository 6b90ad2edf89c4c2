"""LateWork: the cleaner and the scrubber, begun when clients are served, for what they import."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final

import structlog

from broker.http.background_import import import_in_background

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.config import Config
    from broker.metrics import Metrics
    from broker.storage.log_directory import LogDirectory

_log = structlog.get_logger("tidelog.daemon")

CLEANER_DELAY_S: Final = 1.0
SCRUBBER_DELAY_S: Final = 60.0
"""A broker that ends before needs no process for it."""

End = Callable[[], Awaitable[None]]


class LateWork:
    """What runs beside the requests, in worker processes, from some time after the start on."""

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        config: Config,
        *,
        clock: Clock,
        metrics: Metrics,
        make_threads: Callable[[int, str], Executor],
    ) -> None:
        self._directories, self._config = directories, config
        self._clock, self._metrics, self._make_threads = clock, metrics, make_threads
        self._beginnings: list[asyncio.Task[None]] = []
        self._ends: list[End] = []

    def begin(self) -> None:
        """Return at once; what is to begin does so later."""
        loop = asyncio.get_running_loop()
        if self._config.cleaner.enabled:
            self._beginnings.append(loop.create_task(self._begin_cleaning()))
        if self._config.storage.scrub_bytes_per_second:
            self._beginnings.append(loop.create_task(self._begin_scrubbing()))
        for each in self._beginnings:
            each.add_done_callback(_report)

    async def _begin_cleaning(self) -> None:
        await asyncio.sleep(CLEANER_DELAY_S)
        cleaner = await import_in_background("broker.cleaner")  # 9 ms, too long for the event loop
        self._ends.append(
            cleaner.start_cleaner(
                self._directories,
                self._config,
                clock=self._clock,
                executor=self._make_threads(1, "cleaner"),
                metrics=self._metrics.cleaner,
            )
        )

    async def _begin_scrubbing(self) -> None:
        await asyncio.sleep(SCRUBBER_DELAY_S)
        scrubber = await import_in_background("broker.scrubber")
        self._ends.append(
            scrubber.start_scrubber(
                self._directories,
                self._config.storage.scrub_bytes_per_second,
                clock=self._clock,
                metrics=self._metrics.scrub,
            )
        )

    async def end(self) -> None:
        """Stop all of it; on return nothing of it touches a log any more."""
        for each in self._beginnings:
            each.cancel()
        await asyncio.gather(*self._beginnings, return_exceptions=True)
        ends, self._ends = self._ends, []
        await asyncio.gather(*(end() for end in ends))


def _report(beginning: asyncio.Task[None]) -> None:
    if not beginning.cancelled() and beginning.exception() is not None:
        _log.error("work beside requests cannot begin", exc_info=beginning.exception())
