"""Starts: from the times people give to offsets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)


def start_time_ms(start: datetime) -> int:
    """Return milliseconds since the epoch; 0 for what lies before it, negative ones mean others.

    Raises:
        ValueError: the datetime has no time zone: it could mean any of two dozen moments.
    """
    if start.tzinfo is None:
        raise ValueError("start needs a datetime with a time zone, e.g. datetime.now(UTC)")
    return max(0, (start - EPOCH) // MILLISECOND)


def time_or_log_end(found: Sequence[int], end: int) -> int:
    """Return the offset found for a time, or the log's end where no message is that young."""
    return found[0] if found else end
