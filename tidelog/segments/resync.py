"""Resync: the next sound batch or old entry behind damaged bytes.

Sound is what has a possible header, a right CRC, and offsets that fit between what was read before
and what comes behind. Whole windows are searched for possible headers at once.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from protocol.errors import CorruptMessageError, TidelogError
from protocol.identifiers import Buffer
from protocol.legacy_message_set import (
    ENTRY_BYTES_MIN,
    LegacyEntry,
    check_entry,
    iterate_entry_records,
    parse_entry,
)
from protocol.limits import SEGMENT_OFFSET_SPAN_MAX
from protocol.record_batch import check_batch
from protocol.record_batch_header import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
    parse_header,
)
from tidelog.segments.batch_table import BATCH_BYTES_MAX
from tidelog.segments.file_window import Window

__all__ = ["next_sound", "offsets_inside", "sound_at"]

PREFIX_BYTES: Final = MAGIC_POSITION + 1
"""So many bytes tell whether there may be a header."""


def sound_at(window: Window, position: int, lower: int, upper: int) -> tuple[int, int] | None:
    """Return the first and last offset of the sound batch or entry at a position of the window.

    None if there is none, or its offsets are not at or above `lower` and below `upper`; for an old
    format that is at most as far as offsets of one segment can be apart: what stands inside of a
    wrapper is an entry, too, with any bytes for an offset. May read more into the window.
    """
    data = window.data
    length = int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
    size = LOG_OVERHEAD_BYTES + length
    magic = data[position + MAGIC_POSITION]
    if magic > MAGIC or size < (HEADER_BYTES if magic == MAGIC else ENTRY_BYTES_MIN[magic]):
        return None
    if position + size > len(data):
        if size > BATCH_BYTES_MAX:
            return None
        window.fill(position + size)
        data = window.data
        if position + size > len(data):
            return None
    try:
        if magic == MAGIC:
            header = check_batch(data, position)
            first, last = header.base_offset, header.last_offset
        else:
            entry = check_entry(data, position)
            first, last = offsets_inside(data, entry)
            upper = min(upper, lower + SEGMENT_OFFSET_SPAN_MAX + 1)
    except TidelogError:
        return None
    return (first, last) if lower <= first and last < upper else None


def offsets_inside(data: Buffer, entry: LegacyEntry) -> tuple[int, int]:
    """Return the first and last offset of an entry of an old format: a wrapper's stand inside.

    Raises:
        TidelogError: the wrapper cannot be decoded.
    """
    offsets = [record.offset for record in iterate_entry_records(data, entry)]
    return offsets[0], offsets[-1]


def next_sound(window: Window, end_position: int, lower: int, upper: int) -> int | None:
    """Move the window from a damaged batch to the next sound one; return the offset it begins with.

    None, and the window stands at the end, if there is none that begins before `end_position`.
    """
    behind = _by_length(window, end_position, lower, upper)
    if behind is not None:
        return behind
    begin = 1
    while window.position < end_position:
        searched = len(window.data)  # a look at a candidate may bring more
        for position in _candidates(window.data, begin, lower, upper).tolist():
            if window.position + position >= end_position:
                break
            found = sound_at(window, position, lower, upper)
            if found is not None:
                window.advance(position)
                return found[0]
        window.advance(max(0, searched - (PREFIX_BYTES - 1)))
        begin = 0
        if len(window.data) < PREFIX_BYTES and not window.fill():
            window.advance(len(window.data))
            break
    return None


def _by_length(window: Window, end_position: int, lower: int, upper: int) -> int | None:
    """Try what the damaged batch's own header says, if its CRC or what follows confirms it.

    A search inside of it would take a batch that is the value of a record for one of the log, or a
    message for one that stands inside of a wrapper.
    """
    data = window.data
    try:
        if len(data) > MAGIC_POSITION and data[MAGIC_POSITION] < MAGIC:
            entry = parse_entry(data)
            position, following = entry.size_bytes, entry.offset + 1
        else:
            header = parse_header(data)
            position, following = header.size_bytes, header.next_offset
    except CorruptMessageError:
        return None
    is_inside = position + PREFIX_BYTES <= len(data)
    if not is_inside or window.position + position >= end_position:
        return None
    is_whole = _has_right_crc(data[:position])
    found = sound_at(window, position, lower, upper)
    if found is None or (found[0] != following and not is_whole):
        return None
    window.advance(position)
    return found[0]


def _has_right_crc(data: memoryview) -> bool:
    try:
        check_batch(data) if data[MAGIC_POSITION] == MAGIC else check_entry(data)
    except CorruptMessageError:
        return False
    return True


def _candidates(data: memoryview, begin: int, lower: int, upper: int) -> NDArray[Any]:
    """Return the positions where a header may be, by size, magic and offset."""
    raw = np.frombuffer(data, dtype=np.uint8)
    if len(raw) < begin + PREFIX_BYTES:
        return np.empty(0, dtype=np.int64)
    at = np.flatnonzero(raw[begin + MAGIC_POSITION :] <= MAGIC) + begin
    at = at[raw[at] < 0x80]
    sizes = _big_endian(raw, at + 8, ">i4")
    at = at[sizes >= ENTRY_BYTES_MIN[0] - LOG_OVERHEAD_BYTES]
    offsets = _big_endian(raw, at, ">i8")
    return at[(offsets >= lower) & (offsets < upper)]


def _big_endian(raw: NDArray[Any], at: NDArray[Any], dtype: str) -> NDArray[Any]:
    size = np.dtype(dtype).itemsize
    return np.ascontiguousarray(raw[at[:, None] + np.arange(size)]).view(dtype).reshape(-1)
