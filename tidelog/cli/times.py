"""Times: as people write them on a command line, and as they read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time(text: str) -> datetime:
    """Read an ISO 8601 time; without a zone it is local time.

    Raises:
        ValueError: it is none.
    """
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.astimezone()


def time_ms(moment: datetime) -> int:
    """Return milliseconds since the epoch; 0 for what lies before it, negative ones mean others."""
    return max(0, (moment - EPOCH) // timedelta(milliseconds=1))


def time_text(timestamp_ms: int) -> str | None:
    """Return a timestamp as ISO 8601 in UTC, to the millisecond; None if it is none.

    -1 stands for no timestamp; others may be outside the years that a calendar has.
    """
    try:
        moment = EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return None
    if timestamp_ms < 0:
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
