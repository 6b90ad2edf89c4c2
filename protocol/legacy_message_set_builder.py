"""Building legacy message sets, v0 and v1: for conversion, and for tests of what old brokers left.

The layouts are in `legacy_message_set`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from protocol.checksum import crc32
from protocol.compression import Codec, compress
from protocol.errors import UnsupportedCompressionError, UnsupportedForMessageFormatError
from protocol.identifiers import NO_TIMESTAMP, Buffer
from protocol.legacy_lz4 import with_legacy_checksum
from protocol.legacy_message_set import (
    CRC,
    CRC_POSITION,
    ENTRY_V0,
    ENTRY_V1,
    LENGTH,
    MAGIC_POSITION,
    PREFIX_BYTES,
    TIMESTAMP_TYPE_MASK,
)
from protocol.record import Record
from protocol.record_batch_header import TimestampType

__all__ = ["build_entry", "build_set"]

NULL_LENGTH: Final = LENGTH.pack(-1)


def build_entry(
    offset: int,
    key: Buffer | None,
    value: Buffer | None,
    *,
    magic: int,
    timestamp: int = NO_TIMESTAMP,
    codec: Codec = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytes:
    """Build one entry. With a codec, `value` is the set inside, compressed already.

    With magic 0 the timestamp and its type have no place and are left out.

    Raises:
        UnsupportedForMessageFormatError: magic is neither 0 nor 1.
        UnsupportedCompressionError: zstd, which these formats do not have.
    """
    if magic not in (0, 1):
        raise UnsupportedForMessageFormatError(f"magic {magic} is not a legacy one")
    if codec == Codec.ZSTD:
        raise UnsupportedCompressionError(f"magic {magic} has no zstd")
    body = b"".join(
        (
            NULL_LENGTH if key is None else LENGTH.pack(len(key)),
            key or b"",
            NULL_LENGTH if value is None else LENGTH.pack(len(value)),
            value or b"",
        )
    )
    if magic == 0:
        size = ENTRY_V0.size - PREFIX_BYTES + len(body)
        header = ENTRY_V0.pack(offset, size, 0, magic, codec)
    else:
        size = ENTRY_V1.size - PREFIX_BYTES + len(body)
        attributes = codec | TIMESTAMP_TYPE_MASK if timestamp_type else int(codec)
        header = ENTRY_V1.pack(offset, size, 0, magic, attributes, timestamp)
    entry = bytearray(header + body)
    CRC.pack_into(entry, CRC_POSITION, crc32(memoryview(entry)[MAGIC_POSITION:]))
    return bytes(entry)


def build_set(
    records: Iterable[Record],
    *,
    magic: int,
    codec: Codec = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytes:
    """Build a set of plain entries, or with a codec one wrapper; no records make no bytes.

    Headers are left out, with magic 0 timestamps too. A wrapper's offset is the last record's,
    its timestamp the largest. With magic 1 the inner offsets count from the first record's.

    Args:
        records: With absolute offsets that grow; gaps are kept.

    Raises:
        UnsupportedForMessageFormatError, UnsupportedCompressionError: see `build_entry`.
    """
    listed = list(records)
    if codec == Codec.NONE or not listed:
        return _plain_entries(listed, magic, 0, timestamp_type)
    base_offset = listed[0].offset if magic == 1 else 0
    # As Kafka writes it: inside, the time type's bit is unset, whatever the wrapper says.
    inner_set = _plain_entries(listed, magic, base_offset, TimestampType.CREATE_TIME)
    payload = compress(codec, inner_set)
    if magic == 0 and codec == Codec.LZ4:
        payload = with_legacy_checksum(payload)
    return build_entry(
        listed[-1].offset,
        None,
        payload,
        magic=magic,
        timestamp=max(record.timestamp for record in listed),
        codec=codec,
        timestamp_type=timestamp_type,
    )


def _plain_entries(
    records: Sequence[Record], magic: int, base_offset: int, timestamp_type: TimestampType
) -> bytes:
    return b"".join(
        build_entry(
            record.offset - base_offset,
            record.key,
            record.value,
            magic=magic,
            timestamp=record.timestamp,
            timestamp_type=timestamp_type,
        )
        for record in records
    )
