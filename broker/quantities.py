"""Quantities: sizes such as "1GiB" and durations such as "7d", to whole numbers and back.

A size is a number of bytes, a duration a number of milliseconds. A bare number is in that unit.
Decimal and binary prefixes are both known and never mixed up: 1 GB is 10^9, 1 GiB is 2^30 bytes;
"1G", which may mean either, is refused.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

SIZE_UNITS: Final = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
DURATION_UNITS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_SIZE_UNITS_BY_LOWER: Final = {name.lower(): factor for name, factor in SIZE_UNITS.items()}
_NUMBER: Final = r"[0-9][0-9_]*(?:\.[0-9]+)?"
_PLAIN: Final = re.compile(r"[+-]?[0-9][0-9_]*")
_SIZE: Final = re.compile(rf"({_NUMBER})\s*([A-Za-z]+)")
_DURATION: Final = re.compile(rf"(?:{_NUMBER}\s*[a-z]+\s*)+")
_DURATION_PART: Final = re.compile(rf"({_NUMBER})\s*([a-z]+)")


def parse_size(text: str) -> int:
    """Return the bytes that `text` names: "1GiB", "512 KiB", "100MB", "4096", "-1".

    Raises:
        ValueError: not a size; the text says what one looks like.
    """
    text = text.strip()
    if _PLAIN.fullmatch(text):
        return int(text)
    match = _SIZE.fullmatch(text)
    factor = _SIZE_UNITS_BY_LOWER.get(match[2].lower()) if match else None
    if match is None or factor is None:
        listed = _listed(SIZE_UNITS)
        raise ValueError(
            f"{text!r} is no size; write bytes, or a number with {listed}{_meant(match)}"
        )
    return _whole(Decimal(match[1].replace("_", "")) * factor, text, "bytes")


def _meant(match: re.Match[str] | None) -> str:
    """Return what "1G" may mean."""
    prefix = match[2].upper() if match else ""
    if match is None or f"{prefix}iB" not in SIZE_UNITS:
        return ""
    return f"; did you mean {match[1]}{prefix}iB?"


def parse_duration(text: str) -> int:
    """Return the milliseconds that `text` names: "7d", "1h30m", "0.5s", "250", "-1".

    Raises:
        ValueError: not a duration; the text says what one looks like.
    """
    text = text.strip()
    if _PLAIN.fullmatch(text):
        return int(text)
    parts = _DURATION_PART.findall(text) if _DURATION.fullmatch(text) else []
    if not parts or any(unit not in DURATION_UNITS for _, unit in parts):
        raise ValueError(
            f"{text!r} is no duration; write milliseconds, or a number with "
            f"{_listed(DURATION_UNITS)}"
        )
    total = sum(
        (Decimal(number.replace("_", "")) * DURATION_UNITS[unit] for number, unit in parts),
        Decimal(0),
    )
    return _whole(total, text, "milliseconds")


def format_size(size_bytes: int) -> str:
    """Return the shortest text that `parse_size` reads as exactly `size_bytes`."""
    for name in ("TiB", "GiB", "MiB", "KiB"):
        factor = SIZE_UNITS[name]
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor}{name}"
    return str(size_bytes)


def format_duration(duration_ms: int) -> str:
    """Return the shortest text that `parse_duration` reads as exactly `duration_ms`."""
    for name in ("d", "h", "m", "s"):
        factor = DURATION_UNITS[name]
        if duration_ms >= factor and duration_ms % factor == 0:
            return f"{duration_ms // factor}{name}"
    return f"{duration_ms}ms" if duration_ms > 0 else str(duration_ms)


def _whole(value: Decimal, text: str, unit: str) -> int:
    if value != value.to_integral_value():
        raise ValueError(f"{text!r} is not a whole number of {unit}")
    return int(value)


def _listed(units: dict[str, int]) -> str:
    return ", ".join(units)
