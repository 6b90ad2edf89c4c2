"""Config units: how a field of a config struct says what its number counts and may be.

They are msgspec constraints; the unit travels in `extra`, for parsing, printing and documents.
"""

from __future__ import annotations

import enum

from msgspec import Meta

from protocol.limits import INT64_MAX


class Unit(enum.StrEnum):
    """What a value is a number of."""

    NONE = ""
    BYTES = "bytes"
    MS = "ms"


def size(*, ge: int = 0, le: int = INT64_MAX) -> Meta:
    """A number of bytes from `ge` to `le`; as text "64KiB"."""
    return Meta(ge=ge, le=le, extra={"unit": Unit.BYTES})


def duration(*, ge: int = 0, le: int = INT64_MAX) -> Meta:
    """A number of milliseconds from `ge` to `le`; as text "30s"."""
    return Meta(ge=ge, le=le, extra={"unit": Unit.MS})


def count(*, ge: int = 0, le: int = INT64_MAX) -> Meta:
    """A plain number from `ge` to `le`."""
    return Meta(ge=ge, le=le)


def text(*choices: str) -> Meta:
    """One of `choices`."""
    return Meta(extra={"choices": choices})
