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
)
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

__all__ = ["first_offset", "next_sound", "sound_at"]

PREFIX_BYTES: Final = MAGIC_POSITION + 1
"""So many bytes tell whether there may be a header."""


def sound_at(window: Window, position: int, lower: int, upper: int) -> tuple[int, int] | None:
    """Return the first and last offset of the sound batch or entry at a position of the window.

    None if there is none, or its offsets are not at or above `lower` and below `upper`. May read
    more into the window.
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
            first, last = first_offset(data, entry), entry.offset
    except TidelogError:
        return None
    return (first, last) if lower <= first and last < upper else None


def first_offset(data: Buffer, entry: LegacyEntry) -> int:
    """Return the offset that an entry of an old format begins with: a wrapper's stands inside.

    Raises:
        TidelogError: the wrapper cannot be decoded.
    """
    return next(iterate_entry_records(data, entry)).offset


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
    """Try what the damaged batch's own header says, if what follows confirms it.

    A search inside of it would take a batch that is the value of a record for one of the log.
    """
    try:
        header = parse_header(window.data)
    except CorruptMessageError:
        return None
    position = header.size_bytes
    is_inside = position + HEADER_BYTES <= len(window.data)
    if not is_inside or window.position + position >= end_position:
        return None
    if header.base_offset < lower:
        return None
    found = sound_at(window, position, lower, upper)
    if found is None or found[0] != header.next_offset:
        return None
    window.advance(position)
    return found[0]


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
