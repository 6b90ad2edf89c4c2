"""LoopWatch: measures how late the event loop's timers fire, and shows systemd that it turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from broker.metrics import LatencyHistogram

INTERVAL_S: Final = 0.1


class LoopWatch:
    """A timer that is its own measurement. It costs ten wake-ups a second."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        lag: LatencyHistogram,
        *,
        sign_of_life: Callable[[], None] | None = None,
        sign_interval_s: float = 0.0,
    ) -> None:
        self._loop, self._lag = loop, lag
        self._sign_of_life, self._sign_interval_s = sign_of_life, sign_interval_s
        self._next_sign_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._expect(self._loop.time() + INTERVAL_S)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expect(self, due_s: float) -> None:
        self._timer = self._loop.call_at(due_s, self._fired, due_s)

    def _fired(self, due_s: float) -> None:
        now_s = self._loop.time()
        self._lag.observe(max(0.0, now_s - due_s))
        if self._sign_of_life is not None and now_s >= self._next_sign_s:
            self._next_sign_s = now_s + self._sign_interval_s
            self._sign_of_life()
        self._expect(now_s + INTERVAL_S)
