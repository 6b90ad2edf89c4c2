"""The header of a record batch (message format v2): 61 bytes, big-endian.

    0             8                12                   16        17     21             23
    +-------------+----------------+--------------------+---------+------+--------------+
    |base_offset 8|batch_length 4  |leader_epoch 4      |magic 1=2|crc 4 |attributes 2  |
    +-------------+----------------+--------------------+---------+------+--------------+
    23                  27               35              43            51
    +-------------------+----------------+---------------+-------------+----------------+
    |last_offset_delta 4|base_timestamp 8|max_timestamp 8|producer_id 8|producer_epoch 2|
    +-------------------+----------------+---------------+-------------+----------------+
    53              57             61
    +---------------+--------------+--- ... ---+
    |base_sequence 4|record_count 4|  records  |
    +---------------+--------------+--- ... ---+

batch_length counts what follows it. crc is CRC-32C from attributes (byte 21) to the end: base
offset and leader epoch can be stamped without touching it. Attributes: bits 0-2 codec, 3
LogAppendTime, 4 transactional, 5 control, 6 base_timestamp is the delete horizon; others unused.
The records, when compressed, are compressed as a whole. Source: KIP-98, KIP-534 (delete horizon).
"""

from __future__ import annotations

import enum
import struct
from typing import Any, Final, NamedTuple

from protocol.compression import Codec
from protocol.errors import (
    BatchCorruptError,
    BatchTruncatedError,
    UnsupportedCompressionError,
)
from protocol.identifiers import Buffer
from protocol.limits import INT64_MAX, RECORDS_PER_BATCH_MAX

__all__ = [
    "ATTRIBUTES_POSITION",
    "CODEC_MASK",
    "CONTROL_FLAG",
    "CRC",
    "CRC_POSITION",
    "DELETE_HORIZON_FLAG",
    "HEADER",
    "HEADER_BYTES",
    "LEADER_EPOCH_POSITION",
    "LENGTH_MIN",
    "LENGTH_POSITION",
    "LOG_APPEND_TIME_FLAG",
    "LOG_OVERHEAD_BYTES",
    "MAGIC",
    "MAGIC_POSITION",
    "MAX_TIMESTAMP_POSITION",
    "RECORD_BYTES_MIN",
    "TRANSACTIONAL_FLAG",
    "BatchHeader",
    "TimestampType",
    "header_fault",
    "parse_header",
]

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = 61
assert HEADER.size == HEADER_BYTES, "the picture above and the struct disagree"

MAGIC: Final = 2
LOG_OVERHEAD_BYTES: Final = 12
"""base_offset and batch_length: what batch_length does not count. The same in all formats."""
LENGTH_MIN: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES
RECORD_BYTES_MIN: Final = 7
"""A record with null key, null value and no headers: each of its seven fields takes a byte."""

LENGTH_POSITION: Final = 8
LEADER_EPOCH_POSITION: Final = 12
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
CRC: Final = struct.Struct(">I")
ATTRIBUTES_POSITION: Final = 21
"""Also where the CRC's range begins."""
MAX_TIMESTAMP_POSITION: Final = 35

CODEC_MASK: Final = 0b111
LOG_APPEND_TIME_FLAG: Final = 1 << 3
TRANSACTIONAL_FLAG: Final = 1 << 4
CONTROL_FLAG: Final = 1 << 5
DELETE_HORIZON_FLAG: Final = 1 << 6


class TimestampType(enum.IntEnum):
    """Whose clock the timestamps are of."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """A batch's header, field by field as stored. Times are milliseconds."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """The last offset it takes up; a cleaned batch may hold no record there any more."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec_bits(self) -> int:
        """The codec as a number, also one that is not defined."""
        return self.attributes & CODEC_MASK

    @property
    def codec(self) -> Codec:
        """The codec. UnsupportedCompressionError if its number is not defined."""
        try:
            return Codec(self.attributes & CODEC_MASK)
        except ValueError:
            text = f"codec {self.attributes & CODEC_MASK} is not defined"
            raise UnsupportedCompressionError(text) from None

    @property
    def timestamp_type(self) -> TimestampType:
        """With LogAppendTime every record's timestamp is `max_timestamp`."""
        if self.attributes & LOG_APPEND_TIME_FLAG:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        """Whether its records are markers of the broker's (keys: version:i16 type:i16)."""
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` tells when its tombstones or markers may go."""
        return bool(self.attributes & DELETE_HORIZON_FLAG)


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header at `position`. Neither the CRC nor the presence of the body is checked.

    Raises:
        BatchTruncatedError: fewer than 61 bytes are left.
        BatchCorruptError: another magic, or numbers that no batch as stored can have.
    """
    try:
        fields: Any = HEADER.unpack_from(buffer, position)
    except struct.error:
        raise BatchTruncatedError(position, "header") from None
    header: BatchHeader = tuple.__new__(BatchHeader, fields)
    fault = header_fault(header)
    if fault:
        raise BatchCorruptError(position, fault)
    return header


def header_fault(header: BatchHeader) -> str:
    """Say in words what no batch can have, stored or produced; "" if there is nothing.

    A cleaned batch holds fewer records than it spans offsets, down to none.
    """
    (base_offset, length, _, magic, _, attributes, last_delta, _, _, _, _, _, count) = header
    if magic != MAGIC:
        return f"magic is {magic}, not {MAGIC}"
    if length < LENGTH_MIN:
        return f"batch_length {length} is under {LENGTH_MIN}"
    if not 0 <= base_offset <= INT64_MAX - max(last_delta, 0) - 1:
        return f"base_offset {base_offset} with last_offset_delta {last_delta}"
    if not 0 <= count <= last_delta + 1 or last_delta < 0:
        return f"record_count {count} with last_offset_delta {last_delta}"
    if attributes & CODEC_MASK == 0 and count * RECORD_BYTES_MIN > length - LENGTH_MIN:
        return f"record_count {count} in {length - LENGTH_MIN} bytes"
    if count > RECORDS_PER_BATCH_MAX:
        return f"record_count {count} is over {RECORDS_PER_BATCH_MAX}"
    return ""
