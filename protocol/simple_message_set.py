"""Simple message set: formats 0 and 1 of the native protocol, big-endian (engine rule R1).

    entry     offset:i64  size:i32  message            size counts the message alone
    format 0  magic:u8 = 0  crc:u32  payload           size = 5 + n
    format 1  magic:u8 = 1  attributes:u8  crc:u32  payload           size = 6 + n

crc is CRC-32 of the payload alone: neither offset, size, magic nor attributes are covered. The low
three bits of attributes are the codec, the others are 0. The payload of a compressed message is
the compressed form of a set of plain format 1 messages, one level deep.

This is the layout of Kafka 0.7's messages behind the entry prefix of Kafka 0.8. It is not the
layout in old Kafka segments (`legacy_message_set`): the caller says which, nobody guesses (R2).

A set may end in a cut entry (R28): fewer than 12 bytes, or a size within its limits that reaches
past the end. The cut entry is left out, which is no error. All else that is wrong refuses the set.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import count
from typing import Any, Final, NamedTuple

from protocol import limits
from protocol.checksum import crc32
from protocol.compression import Codec, compress, decompress
from protocol.errors import (
    CorruptMessageError,
    MessageTooLargeError,
    UnsupportedCompressionError,
    UnsupportedForMessageFormatError,
)
from protocol.identifiers import Buffer

__all__ = [
    "FORMAT_0",
    "FORMAT_1",
    "EncodedEntries",
    "SimpleEntry",
    "build_set",
    "encode_entries",
    "iterate",
    "iterate_shallow",
]

FORMAT_0: Final = 0
FORMAT_1: Final = 1

PREFIX_BYTES: Final = 12


class Layout(NamedTuple):
    """What differs between the formats. The tag is the magic byte, with attributes in format 1."""

    header: struct.Struct  # offset, size, tag, crc
    unpack_header: Callable[..., tuple[Any, ...]]  # size, tag, crc: the broker ignores offsets
    header_bytes: int
    plain_tag: int
    size_bytes_min: int


_LAYOUTS: Final = (
    Layout(struct.Struct(">qiBI"), struct.Struct(">8xiBI").unpack_from, 17, 0x00, 5),
    Layout(struct.Struct(">qiHI"), struct.Struct(">8xiHI").unpack_from, 18, 0x0100, 6),
)
for _layout in _LAYOUTS:
    assert _layout.header.size == _layout.header_bytes, "picture above and structs disagree"
    assert _layout.header_bytes == PREFIX_BYTES + _layout.size_bytes_min, "as do the sizes"


class SimpleEntry(NamedTuple):
    """One entry as it stands in the set: a plain message, or a compressed one (`codec`)."""

    offset: int
    position: int
    end_position: int
    codec: Codec
    payload: bytes


class EncodedEntries(NamedTuple):
    """Entries one after another, and how many messages they hold."""

    data: bytes
    message_count: int


def layout_of(message_format: int) -> Layout:
    """Return the layout, or raise UnsupportedForMessageFormatError for all but 0 and 1."""
    if message_format not in (FORMAT_0, FORMAT_1):
        raise UnsupportedForMessageFormatError(f"{message_format} is not a simple message format")
    return _LAYOUTS[message_format]


# --- in ---------------------------------------------------------------------------------------


def take_plain(
    data: bytes,
    position: int,
    stop: int,
    layout: Layout,
    message_bytes_max: int,
    payloads: list[bytes],
) -> int:
    """Append the payloads of the plain, valid entries that start before `stop`.

    The hot path: whatever is not a plain valid entry ends it, and `read_entry` says why.

    Returns:
        The position after the last one; below `stop` if something else comes there.
    """
    _, unpack_header, header_bytes, plain_tag, size_bytes_min = layout
    append, checksum = payloads.append, crc32
    set_bytes = len(data)
    last = min(stop, set_bytes - header_bytes + 1)
    while position < last:
        size, tag, crc = unpack_header(data, position)
        end = position + PREFIX_BYTES + size
        if tag != plain_tag or not size_bytes_min <= size <= message_bytes_max or end > set_bytes:
            break
        payload = data[position + header_bytes : end]
        if checksum(payload) != crc:
            break
        append(payload)
        position = end
    return position


def read_entry(
    data: bytes, position: int, layout: Layout, message_bytes_max: int
) -> SimpleEntry | None:
    """Read and check one entry, plain or compressed; None if the set ends before the entry does.

    Raises:
        CorruptMessageError, MessageTooLargeError, UnsupportedCompressionError: see `next_slice`.
    """
    if len(data) - position < PREFIX_BYTES:
        return None
    size = int.from_bytes(data[position + 8 : position + PREFIX_BYTES], "big", signed=True)
    end = position + PREFIX_BYTES + size
    if size < layout.size_bytes_min:
        raise CorruptMessageError(position, f"size {size} is under {layout.size_bytes_min}")
    if size > message_bytes_max:  # else most damaged sizes would pass for a cut entry
        raise MessageTooLargeError(size, message_bytes_max)
    if end > len(data):
        return None
    offset, _, tag, crc = layout.header.unpack_from(data, position)
    magic, attributes = (tag, 0) if layout.plain_tag == 0 else (tag >> 8, tag & 0xFF)
    if magic != layout.plain_tag >> 8:
        raise CorruptMessageError(position, f"magic is {magic}")
    if attributes > Codec.ZSTD:
        raise UnsupportedCompressionError(f"attributes {attributes:#04x} at byte {position}")
    payload = data[position + layout.header_bytes : end]
    if crc32(payload) != crc:
        raise CorruptMessageError(position, f"crc {crc:#010x} does not match the payload")
    return SimpleEntry(offset, position, end, Codec(attributes), payload)


def decompress_entry(entry: SimpleEntry, *, size_bytes_max: int) -> bytes:
    """Return the set inside a compressed message; it is not checked yet.

    Raises:
        CorruptMessageError: not of the codec that it says, naming the entry's position.
        MessageTooLargeError: it would be larger than `size_bytes_max`.
    """
    try:
        inner = decompress(entry.codec, entry.payload, size_bytes_max=size_bytes_max)
    except CorruptMessageError as error:
        raise CorruptMessageError(entry.position, error.reason) from error
    return inner


def inner_error(
    inner: bytes, position: int, layout: Layout, message_bytes_max: int, wrapper_position: int
) -> CorruptMessageError:
    """Return why the inner entry at `position` is refused, or raise what else it is."""
    try:
        entry = read_entry(inner, position, layout, message_bytes_max)
    except CorruptMessageError as error:
        reason = error.reason
    else:
        # A set that was cut before it was compressed was never right: only the outer tail is cut.
        reason = (
            "the set ends inside an entry" if entry is None else "a second level of compression"
        )
    return CorruptMessageError(wrapper_position, f"inner byte {position}: {reason}")


def iterate_shallow(message_set: Buffer, message_format: int) -> Iterator[SimpleEntry]:
    """Yield each entry as it stands, compressed messages whole; a cut last one ends the set.

    Raises:
        CorruptMessageError, UnsupportedCompressionError: see `SimpleSetReader.next_slice`.
    """
    layout = layout_of(message_format)
    data, position = bytes(message_set), 0
    while (entry := read_entry(data, position, layout, limits.INT32_MAX)) is not None:
        yield entry
        position = entry.end_position


def iterate(
    message_set: Buffer,
    message_format: int,
    *,
    decompressed_bytes_max: int = limits.DECOMPRESSED_BYTES_MAX,
) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, payload) of every plain message, those inside compressed ones too.

    Offsets are as the prefixes say. A cut last entry ends the set. Errors as `SimpleSetReader`'s.
    """
    layout = layout_of(message_format)
    data, position = bytes(message_set), 0
    bytes_left = decompressed_bytes_max
    while True:
        position = yield from _iterate_plain(data, position, layout)
        entry = read_entry(data, position, layout, limits.INT32_MAX)
        if entry is None:
            return
        inner = decompress_entry(entry, size_bytes_max=bytes_left)
        bytes_left -= len(inner)
        inner_position = yield from _iterate_plain(inner, 0, layout)
        if inner_position != len(inner):
            raise inner_error(inner, inner_position, layout, limits.INT32_MAX, position)
        position = entry.end_position


def _iterate_plain(
    data: bytes, position: int, layout: Layout
) -> Generator[tuple[int, bytes], None, int]:
    """Like `take_plain`, with offsets, up to the first entry that is not plain and valid."""
    header, _, header_bytes, plain_tag, size_bytes_min = layout
    unpack_header, checksum = header.unpack_from, crc32
    set_bytes = len(data)
    while position <= set_bytes - header_bytes:
        offset, size, tag, crc = unpack_header(data, position)
        end = position + PREFIX_BYTES + size
        if tag != plain_tag or size < size_bytes_min or end > set_bytes:
            break
        payload = data[position + header_bytes : end]
        if checksum(payload) != crc:
            break
        yield offset, payload
        position = end
    return position


# --- out --------------------------------------------------------------------------------------


def encode_entries(
    offsets: Iterable[int], values: Iterable[Buffer | None], message_format: int
) -> EncodedEntries:
    """Encode plain messages; a null value becomes empty.

    Args:
        offsets: One for each value, in order: a range, unless there are gaps.

    Raises:
        UnsupportedForMessageFormatError: not format 0 or 1.
    """
    layout = layout_of(message_format)
    pack_header, size_bytes_min, tag = layout.header.pack, layout.size_bytes_min, layout.plain_tag
    parts: list[Buffer] = []
    for offset, value in zip(offsets, values, strict=False):
        payload = b"" if value is None else value
        parts += (pack_header(offset, size_bytes_min + len(payload), tag, crc32(payload)), payload)
    return EncodedEntries(b"".join(parts), len(parts) // 2)


def build_set(
    values: Iterable[Buffer | None],
    *,
    format: int,
    codec: Codec = Codec.NONE,
    first_offset: int = 0,
) -> bytes:
    """Build a set with offsets from `first_offset` on; with a codec, one compressed message.

    The compressed message's offset is its last inner one's, as Kafka's. No values: no bytes.

    Raises:
        UnsupportedCompressionError: a codec with format 0, which has none.
    """
    entries, message_count = encode_entries(count(first_offset), values, format)
    if codec == Codec.NONE or message_count == 0:
        return entries
    if format == FORMAT_0:
        raise UnsupportedCompressionError("format 0 has no codecs")
    payload = compress(codec, entries)
    header, _, _, tag, size_bytes_min = layout_of(format)
    last_offset = first_offset + message_count - 1
    size = size_bytes_min + len(payload)
    return header.pack(last_offset, size, tag | codec, crc32(payload)) + payload
