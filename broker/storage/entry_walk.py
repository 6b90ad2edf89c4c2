"""Walking a log file by headers: record batches and legacy entries, whatever comes.

They share their first 12 bytes (offset i64, size i32, size counting what follows it) and the place
of the magic, byte 16. Headers are read through small windows: with 8 KiB a look-up in a file of
100-byte batches takes 9 us (24 us header by header), in one of 16 KB batches 2.8 us (2.0), and
64 KiB windows lose to it for all but the smallest batches.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from broker.storage.offset_metadata import OffsetPosition
from protocol.errors import BatchCorruptError, BatchTruncatedError
from protocol.identifiers import NO_LEADER_EPOCH, NO_TIMESTAMP
from protocol.limits import BATCH_BYTES_MAX, INT64_MAX, RECORDS_PER_BATCH_MAX
from protocol.record_batch_header import (
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    LENGTH_MIN,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    RECORD_BYTES_MIN,
    BatchHeader,
    TimestampType,
    parse_header,
)

Read: TypeAlias = Callable[[int, int], bytes]
"""Returns `size` bytes from `position`, fewer only at the file's end."""

WINDOW_BYTES: Final = 8 * 1024
LARGE_WINDOW_BYTES: Final = 64 * 1024
"""For who goes on and on through small batches."""

PREFIX: Final = struct.Struct(">qiiBIhi")
"""offset, size, (leader epoch or crc), magic, (crc), attributes, last offset delta; the three in
the middle and the last only with magic 2."""
PREFIX_BYTES: Final = 27
SIZE: Final = struct.Struct(">i")
SIZE_AND_MAGIC: Final = struct.Struct(">8xi4xB")
assert PREFIX.size == PREFIX_BYTES, "last offset delta ends at byte 27 of a batch"

_unpack_header = HEADER.unpack_from
_new_tuple = tuple.__new__

LEGACY_V0: Final = struct.Struct(">qiIBB")
LEGACY_V1: Final = struct.Struct(">qiIBBq")

SIZE_MIN: Final = (14, 22, HEADER_BYTES - LOG_OVERHEAD_BYTES)
"""The least that a size field can say, by magic."""


class LegacyHeader(NamedTuple):
    """What a legacy entry's header tells, under the names that `BatchHeader` has for it."""

    base_offset: int
    """The entry's offset; of a wrapper this is its *last* message's (R3)."""
    size_bytes: int
    """Whole, with its 12 bytes of offset and size."""
    magic: int
    crc: int
    attributes: int
    max_timestamp: int
    """-1 with magic 0; a wrapper's is the largest inside."""

    @property
    def leader_epoch(self) -> int:
        return NO_LEADER_EPOCH

    @property
    def is_transactional(self) -> bool:
        return False

    @property
    def is_control(self) -> bool:
        return False

    @property
    def last_offset(self) -> int:
        return self.base_offset

    @property
    def next_offset(self) -> int:
        return self.base_offset + 1

    @property
    def codec_bits(self) -> int:
        return self.attributes & 0x07

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType(self.attributes >> 3 & 1)


EntryHeader: TypeAlias = BatchHeader | LegacyHeader


def search(
    read: Read, position: int, end: int, target_offset: int, *, is_whole: bool
) -> OffsetPosition | None:
    """Return the first entry whose last offset is at or above `target_offset` (R9).

    Args:
        position, end: The bytes to look at; an entry starts at `position`.
        is_whole: `end` is the file's end, so that no entry may reach beyond it; else an entry
            that does is cut off by the slice's end, and is not looked at.

    Raises:
        BatchCorruptError: a size or magic that no entry has.
        BatchTruncatedError: the last entry reaches beyond the end of a whole file.
    """
    window, window_position, last_readable = b"", 0, -1
    unpack = PREFIX.unpack_from
    while end - position >= LOG_OVERHEAD_BYTES:
        if position > last_readable:
            window, window_position = read(min(WINDOW_BYTES, end - position), position), position
            if len(window) < LOG_OVERHEAD_BYTES:
                return None  # the file has become shorter
            if len(window) < PREFIX_BYTES:  # the smallest entry has one byte less
                window = window.ljust(PREFIX_BYTES, b"\0")
            last_readable = position + len(window) - PREFIX_BYTES
        offset, size, _, magic, _, _, delta = unpack(window, position - window_position)
        next_position = position + LOG_OVERHEAD_BYTES + size
        if magic > MAGIC or size < SIZE_MIN[magic]:
            raise BatchCorruptError(position, f"no entry has magic {magic} and size {size}")
        if next_position > end:
            if is_whole:
                raise BatchTruncatedError(position, f"{next_position - end} bytes are missing")
            return None
        if magic == MAGIC:
            if delta < 0:
                raise BatchCorruptError(position, f"last_offset_delta is {delta}")
            if offset + delta >= target_offset:
                return OffsetPosition(offset, position, next_position - position)
        elif offset >= target_offset:
            return OffsetPosition(offset, position, next_position - position)
        position = next_position
    return None


def pass_over(read: Read, position: int, stop: int, end: int) -> int:
    """Return where the first entry at or behind `stop` begins, from one at `position` on.

    Sizes alone lead the way: half a second for a million entries.

    Returns:
        -1 where what is there is no entry, or reaches beyond `end`.
    """
    window, window_position, last_readable = b"", 0, -1
    unpack = SIZE_AND_MAGIC.unpack_from
    while position < stop:
        if position > last_readable:
            window, window_position = read(LARGE_WINDOW_BYTES, position), position
            last_readable = position + len(window) - SIZE_AND_MAGIC.size
            if position > last_readable:
                return -1
        size, magic = unpack(window, position - window_position)
        position += LOG_OVERHEAD_BYTES + size
        if magic > MAGIC or size < SIZE_MIN[magic] or position > end:
            return -1
    return position


def walk(
    read: Read, position: int, end: int, *, size_bytes_max: int = BATCH_BYTES_MAX
) -> Iterator[tuple[int, EntryHeader]]:
    """Yield position and header of each entry up to `end`, or to the file's; bodies are not read.

    Ends without an error in four cases (R4): no room for a prefix; a prefix that is cut; size under
    the minimum, or entry past `end`; a body cut by the file's end.

    Raises:
        BatchCorruptError: a size over `size_bytes_max`, a wrong magic, an impossible header.
    """
    window, window_position, window_bytes, ready = b"", position, WINDOW_BYTES, -1
    while end - position >= LOG_OVERHEAD_BYTES:
        if position <= ready:  # in one expression what nearly all batches have in common
            fields = _unpack_header(window, position - window_position)
            offset, size, _, magic, _, attributes, delta, _, _, _, _, _, count = fields
            next_position = position + LOG_OVERHEAD_BYTES + size
            if (
                magic == MAGIC
                and LENGTH_MIN <= size <= size_bytes_max
                and next_position <= end
                and 0 <= count <= delta + 1 <= INT64_MAX - offset <= INT64_MAX
                and delta >= 0
                and count <= RECORDS_PER_BATCH_MAX
                and (attributes & CODEC_MASK or count * RECORD_BYTES_MIN <= size - LENGTH_MIN)
            ):
                yield position, _new_tuple(BatchHeader, fields)
                position = next_position
                continue
        needed_bytes = min(HEADER_BYTES, end - position)
        if position + needed_bytes > window_position + len(window):
            if window and position <= window_position + len(window):  # many small ones
                window_bytes = min(2 * window_bytes, LARGE_WINDOW_BYTES)
            window, window_position = read(window_bytes, position), position
            ready = position + len(window) - HEADER_BYTES
            if len(window) < needed_bytes:  # the file ends before `end`
                end = position + len(window)
                continue
        index = position - window_position
        (size,) = SIZE.unpack_from(window, index + 8)
        magic = window[index + 16] if needed_bytes > 16 else 0
        next_position = position + LOG_OVERHEAD_BYTES + size
        if size < SIZE_MIN[magic if magic <= MAGIC else 0] or next_position > end:
            return
        if size > size_bytes_max:
            raise BatchCorruptError(position, f"size {size} is over the limit of {size_bytes_max}")
        yield position, _parse(window, index, magic, position)
        position = next_position


def _parse(window: bytes, index: int, magic: int, position: int) -> EntryHeader:
    """Return the header at `index` of the window; all of it is there."""
    if magic == 0:
        offset, size, crc, _, attributes = LEGACY_V0.unpack_from(window, index)
        return LegacyHeader(offset, LOG_OVERHEAD_BYTES + size, 0, crc, attributes, NO_TIMESTAMP)
    if magic == 1:
        offset, size, crc, _, attributes, timestamp = LEGACY_V1.unpack_from(window, index)
        return LegacyHeader(offset, LOG_OVERHEAD_BYTES + size, 1, crc, attributes, timestamp)
    try:
        if magic == MAGIC:
            return parse_header(window, index)
    except BatchCorruptError as error:
        raise BatchCorruptError(position, error.reason) from None
    raise BatchCorruptError(position, f"magic is {magic}: neither a batch nor a legacy entry")
