"""Times: as people write them on a command line, and as they read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

INTERVAL_UNITS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time(text: str) -> datetime:
    """Read an ISO 8601 time; without a zone it is local time.

    Raises:
        ValueError: it is none.
    """
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.astimezone()


def interval_ms(text: str) -> int:
    """Read a length of time, such as `30s`, `10m`, `1h` or `7d`; return milliseconds.

    Raises:
        ValueError: it is none, or nothing.
    """
    number, unit = text[:-1], text[-1:]
    if not (number.isdecimal() and unit in INTERVAL_UNITS and int(number)):
        raise ValueError(text)
    return int(number) * INTERVAL_UNITS[unit]


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
