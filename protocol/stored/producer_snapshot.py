"""Producer snapshot (`.snapshot`): what a partition knew of its producers before an offset.

The offset is in the file's name. As Apache Kafka 2.8 to 4.x write it (ProducerStateManager,
version 1), big-endian:

    0            2          6            10
    +------------+----------+------------+-----------------------+
    | version i16| crc u32  | count i32  | entry 1 ... entry n   |
    +------------+----------+------------+-----------------------+

    an entry, 46 bytes
    0               8           10                14              22
    +---------------+-----------+-----------------+---------------+
    |producer_id i64| epoch i16 |last_sequence i32|last_offset i64|
    +---------------+--+--------+---------+-------+-+-------------+------------+
    |offset_delta i32  |last_timestamp i64|coordinator_epoch i32|current_txn_  |
    |                  |                  |                     |first_offset  |
    |                  |                  |                     |i64           |
    +------------------+------------------+---------------------+--------------+
    22                 26                 34                    38             46

The checksum is CRC-32C of all bytes after it. The last batch of a producer covers the offsets
last_offset - offset_delta to last_offset.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from protocol.checksum import crc32c
from protocol.errors import StoredFormatError
from protocol.identifiers import NO_LEADER_EPOCH, NO_SEQUENCE, UNKNOWN_OFFSET, Buffer

VERSION: Final = 1

HEADER: Final = struct.Struct(">hIi")
HEADER_BYTES: Final = 10
assert HEADER.size == HEADER_BYTES, "the picture above and the struct disagree"

ENTRY: Final = struct.Struct(">qhiqiqiq")
ENTRY_BYTES: Final = 46
assert ENTRY.size == ENTRY_BYTES, "the picture above and the struct disagree"

_COUNT: Final = struct.Struct(">i")
_CHECKED_FROM: Final = 6


class ProducerEntry(NamedTuple):
    """What is known of one producer; its fields stand in the file in this order."""

    producer_id: int
    producer_epoch: int
    last_sequence: int = NO_SEQUENCE
    last_offset: int = UNKNOWN_OFFSET
    """-1 if its batches are gone and only its epoch is remembered."""
    offset_delta: int = 0
    last_timestamp: int = -1
    """Milliseconds; of its last batch or marker."""
    coordinator_epoch: int = NO_LEADER_EPOCH
    """Of its last transaction marker; -1 if there was none."""
    current_txn_first_offset: int = UNKNOWN_OFFSET
    """Where its open transaction began; -1 if none is open."""


def encode(entries: Sequence[ProducerEntry]) -> bytes:
    """Return the file's bytes."""
    checked = _COUNT.pack(len(entries)) + b"".join(ENTRY.pack(*entry) for entry in entries)
    return HEADER.pack(VERSION, crc32c(checked), 0)[:_CHECKED_FROM] + checked


def decode(data: Buffer) -> list[ProducerEntry]:
    """Return the entries, in the file's order.

    Raises:
        StoredFormatError: another version, a checksum that does not match, a count that is not the
            number of entries there, or one producer twice.
    """
    view = memoryview(data)
    if len(view) < HEADER_BYTES:
        raise StoredFormatError(f"producer snapshot: {len(view)} bytes are no header")
    version, crc, count = HEADER.unpack_from(view)
    if version != VERSION:
        raise StoredFormatError(f"producer snapshot: version {version} is not known")
    if crc != crc32c(view[_CHECKED_FROM:]):
        raise StoredFormatError(f"producer snapshot: crc {crc:#010x} does not match")
    if len(view) != HEADER_BYTES + count * ENTRY_BYTES:
        raise StoredFormatError(f"producer snapshot: {count} entries are not {len(view)} bytes")
    entries = [ProducerEntry(*fields) for fields in ENTRY.iter_unpack(view[HEADER_BYTES:])]
    if len({entry.producer_id for entry in entries}) != count:
        raise StoredFormatError("producer snapshot: one producer stands there twice")
    return entries
