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

Tidelog may write more behind the entries, inside the checksum, where Kafka's readers look no more;
it always does where an entry tells of a transaction, so that one without it is Kafka's.
First, size and CRC-32C of the transaction index of the segment that ends at this offset, for that
file has no checksum of its own. Then the batches of these producers that were before their last
ones, up to four each: a producer has up to five requests under way; after a stop Kafka knows the
last one only, and takes a repetition of those before it for a gap. If there is neither, nothing.

    0          4               8             12          16
    +----------+---------------+-------------+-----------+----------------------+
    |magic TLpb|index_bytes i32|index_crc u32| count i32 | batch 1 ... batch n  |
    +----------+---------------+-------------+-----------+----------------------+

    a batch, 32 bytes, oldest first for each producer
    0               8                 12              20               24             32
    +---------------+-----------------+---------------+----------------+--------------+
    |producer_id i64|last_sequence i32|last_offset i64|offset_delta i32|timestamp i64 |
    +---------------+-----------------+---------------+----------------+--------------+
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

MORE_MAGIC: Final = b"TLpb"
MORE_HEADER: Final = struct.Struct(">4siIi")
MORE_HEADER_BYTES: Final = 16
assert MORE_HEADER.size == MORE_HEADER_BYTES, "the picture above and the struct disagree"

EARLIER_BATCH: Final = struct.Struct(">qiqiq")
EARLIER_BATCH_BYTES: Final = 32
assert EARLIER_BATCH.size == EARLIER_BATCH_BYTES, "the picture above and the struct disagree"

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

    @property
    def has_transactions(self) -> bool:
        """Whether it tells of a transaction, over or open."""
        return (
            self.coordinator_epoch != NO_LEADER_EPOCH
            or self.current_txn_first_offset != UNKNOWN_OFFSET
        )


class IndexChecksum(NamedTuple):
    """What a transaction index had in it."""

    size_bytes: int
    crc: int
    """CRC-32C."""


class EarlierBatch(NamedTuple):
    """A batch of a producer before its last one; its fields stand in the file in this order."""

    producer_id: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    """Milliseconds, the largest in the batch."""


class ProducerSnapshot(NamedTuple):
    """All that a file says."""

    entries: list[ProducerEntry]
    earlier: list[EarlierBatch]
    index_checksum: IndexChecksum | None
    """None: it does not say."""

    @property
    def has_transactions(self) -> bool:
        """Whether it tells of a transaction, aborted ones in the segment before it among them."""
        has_index = self.index_checksum is not None and self.index_checksum.size_bytes > 0
        return has_index or any(each.has_transactions for each in self.entries)


NO_INDEX: Final = IndexChecksum(0, 0)


def encode(
    entries: Sequence[ProducerEntry],
    earlier: Sequence[EarlierBatch] = (),
    index: IndexChecksum | None = None,
) -> bytes:
    """Return the file's bytes; without earlier batches and an index they are Kafka's."""
    parts = [_COUNT.pack(len(entries)), *(ENTRY.pack(*entry) for entry in entries)]
    has_index = index is not None and (
        index.size_bytes > 0 or any(entry.has_transactions for entry in entries)
    )
    if earlier or has_index:
        parts.append(MORE_HEADER.pack(MORE_MAGIC, *(index or NO_INDEX), len(earlier)))
        parts += [EARLIER_BATCH.pack(*batch) for batch in earlier]
    checked = b"".join(parts)
    return HEADER.pack(VERSION, crc32c(checked), 0)[:_CHECKED_FROM] + checked


def decode(data: Buffer) -> list[ProducerEntry]:
    """Return the entries, in the file's order; errors as `decode_all`."""
    return decode_all(data).entries


def decode_all(data: Buffer) -> ProducerSnapshot:
    """Return all there is, in the file's order.

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
    end = HEADER_BYTES + count * ENTRY_BYTES
    if count < 0 or len(view) < end:
        raise StoredFormatError(f"producer snapshot: {count} entries are not {len(view)} bytes")
    entries = [ProducerEntry(*fields) for fields in ENTRY.iter_unpack(view[HEADER_BYTES:end])]
    if len({entry.producer_id for entry in entries}) != count:
        raise StoredFormatError("producer snapshot: one producer stands there twice")
    more = view[end:]
    if not more:
        return ProducerSnapshot(entries, [], None)
    if len(more) < MORE_HEADER_BYTES:
        raise StoredFormatError(f"producer snapshot: {len(more)} bytes behind the entries")
    magic, index_bytes, index_crc, count = MORE_HEADER.unpack_from(more)
    if magic != MORE_MAGIC or len(more) != MORE_HEADER_BYTES + count * EARLIER_BATCH_BYTES:
        raise StoredFormatError(f"producer snapshot: {len(more)} bytes behind the entries")
    batches = EARLIER_BATCH.iter_unpack(more[MORE_HEADER_BYTES:])
    earlier = [EarlierBatch(*fields) for fields in batches]
    return ProducerSnapshot(entries, earlier, IndexChecksum(index_bytes, index_crc))
