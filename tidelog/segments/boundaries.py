"""Boundaries: where in a segment a batch begins, as its offset index says and the log confirms."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from protocol.record_batch_header import MAGIC, MAGIC_POSITION
from tidelog.segments.file_window import FileWindow
from tidelog.segments.index_files import OffsetHints
from tidelog.segments.log_files import SegmentFile
from tidelog.segments.resync import sound_at

__all__ = ["Boundary", "boundary_at"]

WINDOW_BYTES: Final = 64 * 1024


class Boundary(NamedTuple):
    """A batch begins there, and with it this offset: all that is before it has smaller ones."""

    position: int
    offset: int


def boundary_at(
    file: Any, segment: SegmentFile, hints: OffsetHints, number: int, size_bytes: int, upper: int
) -> Boundary:
    """Return where an entry of the offset index says; the segment's begin if it does not hold.

    It holds if a batch with a right CRC is there, whose offsets fit the entry and the one before.
    Messages of old formats are no boundary: what a wrapper begins with stands inside of it.

    Args:
        number: Of the entry; -1 is the begin, too.
        upper: No offset of the segment reaches it.
    """
    begin = Boundary(0, segment.base_offset)
    if number < 0:
        return begin
    position = int(hints.positions[number])
    window = FileWindow(file, position, size_bytes, WINDOW_BYTES)
    window.fill()
    if len(window.data) <= MAGIC_POSITION or window.data[MAGIC_POSITION] != MAGIC:
        return begin
    lower = int(hints.offsets[number - 1]) + 1 if number else segment.base_offset
    found = sound_at(window, 0, lower, min(upper, int(hints.offsets[number]) + 1))
    return begin if found is None else Boundary(position, found[0])
