"""Legacy message set: message formats v0 and v1, as old Kafka segments hold them, big-endian.

    0           8         12       16       17            18             (v1: 26)
    +-----------+---------+--------+--------+-------------+---------------+-- ... --+-- ... --+
    |offset i64 |size i32 |crc u32 |magic u8|attributes u8|[timestamp i64]|   key   |  value  |
    +-----------+---------+--------+--------+-------------+---------------+-- ... --+-- ... --+

The timestamp is there with magic 1. Key and value are `length:i32 bytes`, length -1 being null.
`size` counts what follows it; crc is CRC-32 from the magic byte to the entry's end (engine rule
R2; Kafka's "Message sets", KIP-31, KIP-32). Attributes: bits 0 to 2 codec, bit 3 LogAppendTime
(magic 1 only), the others unused and ignored, as Kafka does.

A compressed entry ("wrapper") has no key, and as value a compressed set of plain entries, one
level deep (R3). With magic 1 their offsets are relative: absolute = wrapper - last inner + inner,
so that gaps which compaction left stay. A wrapper with LogAppendTime lends its timestamp to all
inside. With magic 0 inner offsets are absolute. zstd came after these formats.

These are not the native protocol's formats 0 and 1 (`simple_message_set`). Record batches (v2)
have their first 12 bytes and the magic's place in common with these entries, so a file that holds
all three can be walked by prefix: `entry_magic` tells whose turn it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from protocol import limits
from protocol.checksum import crc32
from protocol.compression import Codec, decompress
from protocol.errors import (
    BatchCorruptError,
    BatchTruncatedError,
    CorruptMessageError,
    UnsupportedCompressionError,
)
from protocol.identifiers import NO_TIMESTAMP, Buffer
from protocol.legacy_lz4 import with_right_checksum
from protocol.record import Record
from protocol.record_batch_header import TimestampType

__all__ = [
    "ENTRY_V0",
    "ENTRY_V1",
    "MAGIC_POSITION",
    "PREFIX",
    "PREFIX_BYTES",
    "LegacyEntry",
    "check_entry",
    "entry_key_value",
    "entry_magic",
    "has_magic",
    "iterate_entries",
    "iterate_entry_records",
    "iterate_records",
    "iterate_timestamps",
    "parse_entry",
]

PREFIX: Final = struct.Struct(">qi")
PREFIX_BYTES: Final = 12
CRC: Final = struct.Struct(">I")
CRC_POSITION: Final = 12
MAGIC_POSITION: Final = 16
ENTRY_V0: Final = struct.Struct(">qiIBB")
ENTRY_V1: Final = struct.Struct(">qiIBBq")
LENGTH: Final = struct.Struct(">i")
assert PREFIX.size == PREFIX_BYTES, "the picture above and the struct disagree"
assert ENTRY_V0.size == MAGIC_POSITION + 2, "the picture above and the struct disagree"
assert ENTRY_V1.size == ENTRY_V0.size + 8, "the picture above and the struct disagree"

HEADER_BYTES: Final = (ENTRY_V0.size, ENTRY_V1.size)
"""Bytes before the key's length, by magic."""

ENTRY_BYTES_MIN: Final = (HEADER_BYTES[0] + 8, HEADER_BYTES[1] + 8)
"""The smallest entry, prefix included: two lengths and neither key nor value, by magic."""

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_MASK: Final = 0x08


class LegacyEntry(NamedTuple):
    """The header of an entry: a plain message, or a wrapper of several."""

    offset: int
    """Of the message; of the last message in a wrapper."""
    position: int
    """Where the entry starts in the buffer that it was parsed from."""
    size_bytes: int
    """The whole entry, with its 12-byte prefix."""
    crc: int
    magic: int
    attributes: int
    timestamp: int
    """Milliseconds; -1 with magic 0. In a wrapper, the largest one inside."""

    @property
    def end_position(self) -> int:
        """Where the next entry starts."""
        return self.position + self.size_bytes

    @property
    def codec_bits(self) -> int:
        """The codec's number, which need not be a defined one."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        """CREATE_TIME for magic 0 too, which knows neither."""
        if self.magic == 1 and self.attributes & TIMESTAMP_TYPE_MASK:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def codec(self) -> Codec:
        """The codec.

        Raises:
            UnsupportedCompressionError: a number that these formats do not define.
        """
        if self.codec_bits > Codec.LZ4:
            raise UnsupportedCompressionError(f"codec {self.codec_bits} with magic {self.magic}")
        return Codec(self.codec_bits)


# --- one entry --------------------------------------------------------------------------------


def entry_magic(buffer: Buffer, position: int = 0) -> int:
    """Return the magic of the entry or record batch at `position`: 0, 1 or 2 if it is sound.

    Raises:
        BatchTruncatedError: the buffer ends before the magic byte.
    """
    if len(buffer) - position <= MAGIC_POSITION:
        raise BatchTruncatedError(position, "the entry's header")
    return buffer[position + MAGIC_POSITION]


def parse_entry(buffer: Buffer, position: int = 0) -> LegacyEntry:
    """Parse the header of the entry at `position`; the rest of it need not be there.

    Raises:
        BatchTruncatedError: the buffer ends inside the header.
        BatchCorruptError: magic is neither 0 nor 1, or the size is too small for it.
    """
    magic = entry_magic(buffer, position)
    if magic > 1:
        raise BatchCorruptError(position, f"magic {magic} is not a legacy one")
    if len(buffer) - position < HEADER_BYTES[magic]:
        raise BatchTruncatedError(position, "the entry's header")
    timestamp: int = NO_TIMESTAMP
    if magic == 0:
        offset, size, crc, _, attributes = ENTRY_V0.unpack_from(buffer, position)
    else:
        offset, size, crc, _, attributes, timestamp = ENTRY_V1.unpack_from(buffer, position)
    if PREFIX_BYTES + size < ENTRY_BYTES_MIN[magic]:
        raise BatchCorruptError(position, f"size {size} is too small for magic {magic}")
    return LegacyEntry(offset, position, PREFIX_BYTES + size, crc, magic, attributes, timestamp)


def check_entry(buffer: Buffer, position: int = 0) -> LegacyEntry:
    """Parse the entry at `position`; check its CRC and that key and value fill it exactly.

    Raises:
        BatchTruncatedError: the buffer ends inside the entry.
        BatchCorruptError: the bytes are all there and are wrong.
    """
    entry = parse_entry(buffer, position)
    if len(buffer) < entry.end_position:
        raise BatchTruncatedError(position, "the entry's body")
    covered = memoryview(buffer)[position + MAGIC_POSITION : entry.end_position]
    if crc32(covered) != entry.crc:
        raise BatchCorruptError(position, f"crc {entry.crc:#010x} does not match the entry")
    entry_key_value(buffer, entry)
    return entry


def entry_key_value(
    buffer: Buffer, entry: LegacyEntry
) -> tuple[memoryview | None, memoryview | None]:
    """Return views of the key and the value of an entry that lies whole in `buffer`.

    Raises:
        BatchCorruptError: their lengths do not fill the entry.
    """
    view = memoryview(buffer)[: entry.end_position]
    key, position = _sized(view, entry.position + HEADER_BYTES[entry.magic], entry)
    value, position = _sized(view, position, entry)
    if position != entry.end_position:
        raise BatchCorruptError(entry.position, "bytes are left over behind the value")
    return key, value


def _sized(view: memoryview, position: int, entry: LegacyEntry) -> tuple[memoryview | None, int]:
    start = position + LENGTH.size
    if start > len(view):
        raise BatchCorruptError(entry.position, "the key leaves no room for the value")
    (length,) = LENGTH.unpack_from(view, position)
    if length == -1:
        return None, start
    end = start + length
    if length < 0 or end > len(view):
        raise BatchCorruptError(entry.position, f"a key or value of {length} bytes")
    return view[start:end], end


# --- sets -------------------------------------------------------------------------------------


def iterate_entries(
    buffer: Buffer, position: int = 0, end: int | None = None
) -> Iterator[LegacyEntry]:
    """Yield the checked entries from `position` to `end`, wrappers as they are (shallow, R4).

    A cut last entry ends the set without an error: compare the last `end_position` with `end`.

    Raises:
        BatchCorruptError: an entry is damaged, or is a record batch (v2).
    """
    view = memoryview(buffer)[:end]
    while position < len(view):
        try:
            entry = check_entry(view, position)
        except BatchTruncatedError:
            return
        yield entry
        position = entry.end_position


def iterate_records(
    buffer: Buffer,
    position: int = 0,
    end: int | None = None,
    *,
    size_bytes_max: int = limits.DECOMPRESSED_BYTES_MAX,
) -> Iterator[Record]:
    """Yield every message from `position` to `end`, those in wrappers too (deep, R4).

    Errors and the cut last entry as `iterate_entries` and `iterate_entry_records`.
    """
    for entry in iterate_entries(buffer, position, end):
        yield from iterate_entry_records(buffer, entry, size_bytes_max=size_bytes_max)


def iterate_entry_records(
    buffer: Buffer,
    entry: LegacyEntry,
    *,
    size_bytes_max: int = limits.DECOMPRESSED_BYTES_MAX,
) -> Iterator[Record]:
    """Yield the message of a plain entry, or those of a wrapper, with absolute offsets.

    Raises:
        BatchCorruptError: a wrapper's inside is not a whole set of plain, sound entries, is
            empty, or gives offsets that no partition has; always naming the wrapper's position.
        MessageTooLargeError: it would decompress to more than `size_bytes_max`.
        UnsupportedCompressionError: a codec that these formats do not define.
    """
    if entry.codec == Codec.NONE:
        if entry.offset < 0:
            raise BatchCorruptError(entry.position, f"offset {entry.offset}")
        yield _record(buffer, entry, 0, entry.timestamp)
        return
    inner_set = _decompressed(buffer, entry, size_bytes_max)
    inner_entries = _inner_entries(inner_set, entry)
    base_offset = _base_offset(entry, inner_entries[-1].offset)
    if base_offset + inner_entries[0].offset < 0:
        raise BatchCorruptError(entry.position, "an inner offset is below 0")
    overriding = entry.timestamp_type == TimestampType.LOG_APPEND_TIME
    for inner in inner_entries:
        timestamp = entry.timestamp if overriding else inner.timestamp
        yield _record(inner_set, inner, base_offset, timestamp)


def _record(buffer: Buffer, entry: LegacyEntry, base_offset: int, timestamp: int) -> Record:
    key, value = entry_key_value(buffer, entry)
    return Record(
        base_offset + entry.offset,
        timestamp,
        None if key is None else bytes(key),
        None if value is None else bytes(value),
    )


def _decompressed(buffer: Buffer, entry: LegacyEntry, size_bytes_max: int) -> bytes:
    _, value = entry_key_value(buffer, entry)
    if value is None:
        raise BatchCorruptError(entry.position, "a compressed message without a value")
    compressed: Buffer = value
    if entry.magic == 0 and entry.codec == Codec.LZ4:
        compressed = with_right_checksum(value)
    try:
        return decompress(entry.codec, compressed, size_bytes_max=size_bytes_max)
    except CorruptMessageError as error:
        raise BatchCorruptError(entry.position, error.reason) from error


def _inner_entries(inner_set: bytes, wrapper: LegacyEntry) -> list[LegacyEntry]:
    """Check all entries before the first is yielded: the offsets depend on the last one.

    An inner magic that is not the wrapper's is let pass, as in Kafka.
    """
    entries: list[LegacyEntry] = []
    position = 0
    while position < len(inner_set):
        try:
            inner = check_entry(inner_set, position)
        except CorruptMessageError as error:  # cut, too: the wrapper's CRC says it was built so
            reason = f"inner byte {position}: {error.reason}"
            raise BatchCorruptError(wrapper.position, reason) from error
        if inner.codec_bits != Codec.NONE:
            raise BatchCorruptError(wrapper.position, "compression inside compression")
        if entries and inner.offset <= entries[-1].offset:
            raise BatchCorruptError(wrapper.position, "inner offsets do not grow")
        entries.append(inner)
        position = inner.end_position
    if not entries:
        raise BatchCorruptError(wrapper.position, "a compressed message with nothing inside")
    return entries


def _base_offset(wrapper: LegacyEntry, last_inner_offset: int) -> int:
    """Return what to add to the inner offsets to make them absolute."""
    if wrapper.magic == 0:
        return 0
    if wrapper.offset == 0:
        return 0  # early librdkafka left it so in what it produced; Kafka reads it so too
    if wrapper.offset < last_inner_offset:
        raise BatchCorruptError(
            wrapper.position, f"offset {wrapper.offset} is below the inner {last_inner_offset}"
        )
    return wrapper.offset - last_inner_offset


def iterate_timestamps(
    buffer: Buffer, position: int = 0, *, size_bytes_max: int = limits.DECOMPRESSED_BYTES_MAX
) -> Iterator[tuple[int, int]]:
    """Return (timestamp, offset) of each message in the one entry at `position` (R33).

    The entry is checked, and a wrapper decompressed, before this returns.

    Raises:
        BatchTruncatedError: the buffer ends inside the entry.
        BatchCorruptError: its CRC or anything else is wrong.
        MessageTooLargeError, UnsupportedCompressionError: see `iterate_entry_records`.
    """
    entry = check_entry(buffer, position)
    records = iterate_entry_records(buffer, entry, size_bytes_max=size_bytes_max)
    first = next(records)  # there is one, and with it all the checking is done
    return ((record.timestamp, record.offset) for record in chain((first,), records))


def has_magic(buffer: Buffer, magic: int, position: int = 0, end: int | None = None) -> bool:
    """Whether every entry of a set is of that format (R6): 0, 1 or 2. An empty set is.

    Goes by the prefixes alone and checks nothing else. A cut last entry is left out; a size that
    no entry can have makes it False, for what comes after it cannot be told.
    """
    view = memoryview(buffer)[:end]
    while len(view) - position > MAGIC_POSITION:
        _, size = PREFIX.unpack_from(view, position)
        entry_end = position + PREFIX_BYTES + size
        if PREFIX_BYTES + size < ENTRY_BYTES_MIN[0]:
            return False
        if entry_end > len(view):
            return True
        if view[position + MAGIC_POSITION] != magic:
            return False
        position = entry_end
    return True
