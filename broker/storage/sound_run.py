"""A run of sound batches: what nearly all of a log is, checked in one loop.

The short way of `SegmentWalk.checked_batches` for who only wants to know how far a file is sound:
no header is made of what nobody looks at, which is half of the cost of small batches.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from protocol.checksum import crc32c
from protocol.limits import RECORDS_PER_BATCH_MAX
from protocol.record_batch_header import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_MIN,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    RECORD_BYTES_MIN,
)

BATCH_CRC_START: Final = 21
CHECKED_FIELDS: Final = struct.Struct(">qi4xbIhi30xi")
"""base offset, length, magic, crc, attributes, last offset delta, record count."""
assert CHECKED_FIELDS.size == HEADER_BYTES, "the record count ends a header"

_unpack = CHECKED_FIELDS.unpack_from


class SoundRun(NamedTuple):
    """Where a run has ended."""

    position: int
    next_offset: int
    batches: int
    """How many are in it."""
    is_cut: bool
    """Whether it ended because the next batch is not all in the window."""


def sound_run(
    window: memoryview, position: int, end: int, expected_offset: int, limit_offset: int, count: int
) -> SoundRun:
    """Pass over the sound record batches that follow each other, each wholly in the window.

    What ends a run before `count` may be sound all the same: a gap, a legacy entry, a batch that is
    not all here. Nothing is said about it.

    Args:
        position: In the window, where the first batch begins.
        end: No batch that begins there or behind is looked at.
        expected_offset: What the first one has to begin with, and each next one at its end.
        limit_offset: No batch reaches it.
        count: How many will do.
    """
    size, left, is_cut = len(window), count, True
    last = min(size - HEADER_BYTES, end - 1)
    while position <= last and left:
        offset, length, magic, crc, attributes, delta, records = _unpack(window, position)
        next_position = position + LOG_OVERHEAD_BYTES + length
        body_bytes = length - LENGTH_MIN
        if (
            magic != MAGIC
            or offset != expected_offset
            or body_bytes < 0
            or next_position > size
            or crc != crc32c(window[position + BATCH_CRC_START : next_position])
            or not 0 <= records <= delta + 1
            or delta < 0
            or records > RECORDS_PER_BATCH_MAX
            or (not attributes & CODEC_MASK and records * RECORD_BYTES_MIN > body_bytes)
            or offset + delta >= limit_offset
        ):
            is_cut = magic == MAGIC and body_bytes >= 0 and next_position > size
            break
        expected_offset, position = offset + delta + 1, next_position
        left -= 1
    return SoundRun(position, expected_offset, count - left, is_cut)
