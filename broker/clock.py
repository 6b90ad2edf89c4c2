"""Clock: the time as an argument, so that tests and the engine decide what time it is."""

from __future__ import annotations

import time
from typing import Protocol

from protocol.identifiers import TimestampMs


class Clock(Protocol):
    """What the engine may know of time."""

    def now_ms(self) -> TimestampMs:
        """Return the wall clock, in milliseconds since the epoch: for records and retention."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back: for intervals and deadlines."""
        ...


class SystemClock:
    """The machine's clock; asked several times for each request, so nothing is in between."""

    monotonic = staticmethod(time.monotonic)

    def now_ms(self) -> TimestampMs:
        return time.time_ns() // 1_000_000  # type: ignore[return-value]  # it is one from here on


class ManualClock:
    """A clock that moves when told to: for tests, and for programs that replay time."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> TimestampMs:
        return TimestampMs(self._now_ms)

    def monotonic(self) -> float:
        return self._now_ms / 1000

    def advance(self, *, ms: int) -> None:
        """Let `ms` milliseconds pass (negative: the wall clock was set back)."""
        self._now_ms += ms
