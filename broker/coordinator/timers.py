"""Timers: what is to happen later, without anybody's event loop.

Whoever has one asks `next_s` when to come back, and then calls `fire`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Final

__all__ = ["Timer", "Timers"]

FIRED_PER_TURN: Final = 50
"""A session that ends costs about 100 us, with what has to be written down."""
CANCELLED_MIN: Final = 100
"""So many are never worth the work."""


class Timer:
    """One call to be made; `cancel` it, and it is not."""

    __slots__ = ("_call", "_on_cancelled", "when_s")

    def __init__(
        self,
        when_s: float,
        call: Callable[[], object],
        on_cancelled: Callable[[], object] = lambda: None,
    ) -> None:
        self.when_s = when_s
        """On the monotonic clock."""
        self._call: Callable[[], object] | None = call
        self._on_cancelled = on_cancelled

    @property
    def is_pending(self) -> bool:
        """Whether it is still going to be called."""
        return self._call is not None

    def cancel(self) -> None:
        """Do not call; that it was called or cancelled before is no error."""
        if self._call is not None:
            self._call = None
            self._on_cancelled()

    def fire(self) -> None:
        """Call, once."""
        call, self._call = self._call, None
        if call is not None:
            call()


class Timers:
    """Every timer of a coordinator.

    A cancelled one is left where it is: it is cheaper to pass over it when its time comes. But a
    client may have as many as it likes set and cancelled that are due in weeks; so they are taken
    out when they are more than the others.

    Args:
        monotonic: The clock, in seconds.
        on_earlier: Called when the next timer is due earlier than the one that was next before.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        on_earlier: Callable[[], object] = lambda: None,
    ) -> None:
        self.monotonic, self._on_earlier = monotonic, on_earlier
        self._heap: list[tuple[float, int, Timer]] = []
        self._cancelled = 0
        """How many in the heap are."""
        self._numbers = count()  # timers of one moment fire in the order in which they were set

    def after(self, delay_ms: float, call: Callable[[], object]) -> Timer:
        """Have `call` called in `delay_ms`."""
        if self._cancelled > max(CANCELLED_MIN, len(self._heap) // 2):
            self._heap = [entry for entry in self._heap if entry[2].is_pending]
            heapq.heapify(self._heap)
            self._cancelled = 0
        timer = Timer(self.monotonic() + delay_ms / 1000, call, self._note_cancelled)
        is_earlier = not self._heap or timer.when_s < self._heap[0][0]
        heapq.heappush(self._heap, (timer.when_s, next(self._numbers), timer))
        if is_earlier:
            self._on_earlier()
        return timer

    def _note_cancelled(self) -> None:
        self._cancelled += 1

    def __len__(self) -> int:
        """How many there are, cancelled ones that are still passed over among them."""
        return len(self._heap)

    @property
    def next_s(self) -> float | None:
        """When `fire` is to be called, on the monotonic clock; None: there are no timers."""
        heap = self._heap
        while heap and not heap[0][2].is_pending:
            heapq.heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else None

    def fire(self) -> None:
        """Make the calls that are due; if they are many, the first ones: `next_s` says so.

        After a restart the sessions of all members that are gone end at the same moment.
        """
        now_s = self.monotonic()
        for _ in range(FIRED_PER_TURN):
            next_s = self.next_s
            if next_s is None or next_s > now_s:
                return
            heapq.heappop(self._heap)[2].fire()
