"""Damage: a stretch of a log whose acknowledged bytes are wrong; left as it is, and said aloud."""

from __future__ import annotations

from typing import NamedTuple


class Damage(NamedTuple):
    """What recovery found below the durable offset. Never cut: an operator decides about it."""

    segment_base_offset: int
    position: int
    """Of the first bad byte in the segment's log file."""
    first_offset: int
    """The first offset that cannot be read."""
    next_offset: int
    """The first offset after it that can."""
    fault: str
    """What is wrong there."""

    def __str__(self) -> str:
        return (
            f"offsets {self.first_offset} to {self.next_offset - 1} are damaged ({self.fault}); "
            f"the next good offset is {self.next_offset}"
        )
