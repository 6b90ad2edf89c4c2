"""Boundaries: where in a segment a batch begins, as its offset index says and the log confirms."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from protocol.errors import CorruptMessageError
from protocol.record_batch_header import HEADER_BYTES, MAGIC, MAGIC_POSITION, parse_header
from tidelog.segments.file_window import FileWindow
from tidelog.segments.index_files import OffsetHints
from tidelog.segments.log_files import SegmentFile
from tidelog.segments.resync import sound_at

__all__ = ["Boundary", "boundary_at", "boundary_before"]

WINDOW_BYTES: Final = 64 * 1024
TRIES: Final = 8
"""Entries of the index that are looked at before it is given up."""


class Boundary(NamedTuple):
    """A batch begins there, and with it this offset: all that is before it has smaller ones."""

    position: int
    offset: int


def boundary_at(
    file: Any, segment: SegmentFile, hints: OffsetHints, number: int, size_bytes: int, upper: int
) -> Boundary:
    """Return where an entry of the offset index says; the segment's begin if it does not hold.

    Messages of old formats are no boundary: what a wrapper begins with stands inside of it.

    Args:
        number: Of the entry; -1 is the begin, too.
        upper: No offset of the segment reaches it.
    """
    if number >= 0:
        lower = int(hints.offsets[number - 1]) + 1 if number else segment.base_offset
        entry_offset = int(hints.offsets[number])
        window = FileWindow(file, int(hints.positions[number]), size_bytes, WINDOW_BYTES)
        window.fill()
        if len(window.data) > MAGIC_POSITION and window.data[MAGIC_POSITION] == MAGIC:
            found = sound_at(window, 0, lower, min(upper, entry_offset + 1))
            if found is not None and found[1] in (entry_offset, _behind_first(window) - 1):
                return Boundary(window.position, found[0])
    return Boundary(0, segment.base_offset)


def boundary_before(
    file: Any, segment: SegmentFile, hints: OffsetHints, offset: int, size_bytes: int, upper: int
) -> Boundary:
    """Return the last boundary at or below an offset, or one a little before it."""
    number = int(np.searchsorted(hints.offsets, offset, side="right")) - 1
    for earlier in range(number, max(number - TRIES, -1), -1):
        found = boundary_at(file, segment, hints, earlier, size_bytes, upper)
        if found.position:
            return found
    return Boundary(0, segment.base_offset)


def _behind_first(window: FileWindow) -> int:
    """Return the offset of the batch behind the window's first; -1 if there is none.

    An offset stands outside of the CRC: that of a batch is confirmed by the entry, which has its
    last one, or by what comes right behind it.
    """
    position = parse_header(window.data).size_bytes
    window.fill(position + HEADER_BYTES)
    try:
        return parse_header(window.data, position).base_offset
    except CorruptMessageError:
        return -1
