"""ProducerExpiry: has logs forget the producers that were silent for too long, some logs a turn."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.storage.log_directory import LogDirectory
    from broker.storage.partition_log import PartitionLog

CHECK_INTERVAL_S: Final = 600.0
"""Kafka's `producer.id.expiration.check.interval.ms`."""

PRODUCERS_PER_TURN: Final = 5_000
"""About half a millisecond; a log's producers are looked at together."""


class ProducerExpiry:
    """For one data directory. On the event loop's thread."""

    __slots__ = ("_check_at", "_directory", "_to_check")

    def __init__(self, directory: LogDirectory) -> None:
        """The first check is one interval away."""
        self._directory = directory
        self._to_check: deque[PartitionLog] = deque()
        self._check_at = directory.context.clock.monotonic() + CHECK_INTERVAL_S

    def turn(self, now: float) -> bool:
        """Do what is due, but no more than fits a turn; return whether there is more.

        Args:
            now: Of the monotonic clock.
        """
        if not self._to_check:
            if now < self._check_at:
                return False
            self._check_at = now + CHECK_INTERVAL_S
            logs = self._directory.logs.values()
            self._to_check.extend(log for log in logs if log.producers.producers)
        context = self._directory.context
        now_ms, expiration_ms = context.clock.now_ms(), context.options.producer_id_expiration_ms
        left = PRODUCERS_PER_TURN
        while self._to_check and left > 0:
            producers = self._to_check.popleft().producers
            left -= len(producers.producers)
            producers.expire(now_ms, expiration_ms)
        return bool(self._to_check)
