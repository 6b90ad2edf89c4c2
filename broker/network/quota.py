"""RequestQuota: a token bucket that says how long to wait, and never drops anything."""

from __future__ import annotations


class RequestQuota:
    """Requests per second, with a second's worth of burst."""

    __slots__ = ("_filled_at", "_tokens", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._tokens = rate
        self._filled_at: float | None = None

    def take(self, requests: int, now_s: float) -> float:
        """Account for `requests` at monotonic time `now_s`; return seconds to wait, 0.0 if none."""
        if self._filled_at is not None:
            self._tokens = min(self.rate, self._tokens + (now_s - self._filled_at) * self.rate)
        self._filled_at = now_s
        self._tokens -= requests
        return 0.0 if self._tokens >= 0 else -self._tokens / self.rate

    def is_whole(self, now_s: float) -> bool:
        """Whether all of the burst may be used again: then a new quota would be the same."""
        if self._filled_at is None:
            return True
        return self._tokens + (now_s - self._filled_at) * self.rate >= self.rate
