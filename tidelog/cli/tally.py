"""Tally: what became of the lines that were produced."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tidelog.client import Delivery

FAILURES_SHOWN: Final = 10


class Tally:
    """Counts deliveries and tells of failures as they happen; futures call it from any thread.

    Args:
        tell: Told the sentence of each of the first failures.
        explain: From an error to what it means.
    """

    def __init__(
        self, tell: Callable[[str], None], explain: Callable[[BaseException], str]
    ) -> None:
        self._tell, self._explain = tell, explain
        self._lock = threading.Lock()
        self.delivered = self.failed = self.pending = self.size_bytes = 0
        self.offsets: dict[int, tuple[int, int]] = {}
        """First and last offset by partition; none with acks=0."""

    def watch(self, line_number: int, size_bytes: int, future: Future[Delivery]) -> None:
        """Count a message once it is known what became of it."""

        def done(future: Future[Delivery]) -> None:
            error = future.exception()
            with self._lock:
                self.pending -= 1
            if error is None:
                self._deliver(future.result(), size_bytes)
            else:
                self.fail(line_number, error)

        with self._lock:
            self.pending += 1
        future.add_done_callback(done)

    def fail(self, line_number: int, error: BaseException) -> None:
        """Count a message that could not be produced, and say so."""
        with self._lock:
            self.failed += 1
            is_told = self.failed <= FAILURES_SHOWN
            is_last_told = self.failed == FAILURES_SHOWN
        if is_told:
            self._tell(f"line {line_number}: {self._explain(error)}")
        if is_last_told:
            self._tell("further failures are only counted")

    def _deliver(self, delivery: Delivery, size_bytes: int) -> None:
        with self._lock:
            self.delivered += 1
            self.size_bytes += size_bytes
            if delivery.offset >= 0:
                first, last = self.offsets.get(delivery.partition, (delivery.offset,) * 2)
                self.offsets[delivery.partition] = (
                    min(first, delivery.offset),
                    max(last, delivery.offset),
                )

    def summary(self, topic: str, seconds: float) -> dict[str, Any]:
        """Return everything as a value for JSON."""
        return {
            "topic": topic,
            "delivered": self.delivered,
            "failed": self.failed,
            "bytes": self.size_bytes,
            "seconds": round(seconds, 3),
            "partitions": [
                {"partition": number, "first_offset": first, "last_offset": last}
                for number, (first, last) in sorted(self.offsets.items())
            ],
        }
