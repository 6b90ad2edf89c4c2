"""Entries of the offset index (`.index`) and of the time index (`.timeindex`) of a segment.

Engine rule R12; as Apache Kafka 3.x and 4.x write them (OffsetIndex, TimeIndex). Big-endian, all
fields signed. Offsets are relative to the segment's base offset, positions are bytes of its `.log`.

    offset index, entry n at byte 8n          time index, entry n at byte 12n
    0                     4              8    0                8                     12
    +---------------------+--------------+    +----------------+---------------------+
    | relative offset i32 | position i32 |    | timestamp i64  | relative offset i32 |
    +---------------------+--------------+    +----------------+---------------------+

An offset index entry says: `offset` is the last one of an append, and the append's first batch is
at `position`, so a scan from there finds it and all above it. A time index entry says: no record up
to and including `offset` is later than `timestamp`.

A file of the active segment is preallocated, so zeros follow the entries. Both kinds grow strictly
(offsets of a time index may repeat), so an entry not above the one before it ends the index (R17).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from protocol.errors import StoredFormatError
from protocol.identifiers import Buffer

OFFSET_INDEX_ENTRY: Final = struct.Struct(">ii")
OFFSET_INDEX_ENTRY_BYTES: Final = 8
assert OFFSET_INDEX_ENTRY.size == OFFSET_INDEX_ENTRY_BYTES, "the picture and the struct disagree"

TIME_INDEX_ENTRY: Final = struct.Struct(">qi")
TIME_INDEX_ENTRY_BYTES: Final = 12
assert TIME_INDEX_ENTRY.size == TIME_INDEX_ENTRY_BYTES, "the picture and the struct disagree"


class OffsetIndexEntry(NamedTuple):
    """An absolute offset and the position of the batch that holds it."""

    offset: int
    position: int


class TimeIndexEntry(NamedTuple):
    """The largest timestamp (ms) of all records up to an absolute offset."""

    timestamp: int
    offset: int


def encode_offset_index(entries: Iterable[OffsetIndexEntry], base_offset: int) -> bytes:
    """Return the bytes of the entries; offsets are absolute, at most 2^31-1 above the base."""
    pack = OFFSET_INDEX_ENTRY.pack
    return b"".join(pack(offset - base_offset, position) for offset, position in entries)


def decode_offset_index(data: Buffer, base_offset: int) -> list[OffsetIndexEntry]:
    """Return the entries before the zero tail, with absolute offsets.

    Raises:
        StoredFormatError: the size is not a multiple of 8, or an entry is negative.
    """
    _check_size(len(data), OFFSET_INDEX_ENTRY_BYTES)
    entries: list[OffsetIndexEntry] = []
    last_relative, last_position = -1, -1
    for relative, position in OFFSET_INDEX_ENTRY.iter_unpack(data):
        if relative < 0 or position < 0:
            raise StoredFormatError(f"offset index entry {len(entries)} is negative")
        if relative <= last_relative or position <= last_position or not (relative or position):
            break
        entries.append(OffsetIndexEntry(base_offset + relative, position))
        last_relative, last_position = relative, position
    return entries


def encode_time_index(entries: Iterable[TimeIndexEntry], base_offset: int) -> bytes:
    """Return the bytes of the entries; offsets are absolute, at most 2^31-1 above the base."""
    pack = TIME_INDEX_ENTRY.pack
    return b"".join(pack(timestamp, offset - base_offset) for timestamp, offset in entries)


def decode_time_index(data: Buffer, base_offset: int) -> list[TimeIndexEntry]:
    """Return the entries before the zero tail, with absolute offsets.

    Raises:
        StoredFormatError: the size is not a multiple of 12, or an entry is negative.
    """
    _check_size(len(data), TIME_INDEX_ENTRY_BYTES)
    entries: list[TimeIndexEntry] = []
    last_timestamp, last_relative = -1, 0
    for timestamp, relative in TIME_INDEX_ENTRY.iter_unpack(data):
        if relative < 0 or timestamp < 0:
            raise StoredFormatError(f"time index entry {len(entries)} is negative")
        if timestamp <= last_timestamp or relative < last_relative or not (timestamp or relative):
            break
        entries.append(TimeIndexEntry(timestamp, base_offset + relative))
        last_timestamp, last_relative = timestamp, relative
    return entries


def _check_size(size_bytes: int, entry_bytes: int) -> None:
    if size_bytes % entry_bytes:
        raise StoredFormatError(
            f"an index of {size_bytes} bytes is not a whole number of {entry_bytes}-byte entries"
        )
