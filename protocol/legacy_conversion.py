"""Conversion of legacy message sets (v0, v1) to record batches (v2) and back (R5).

What is kept: offsets with their gaps, keys, values, null or not; timestamps and their type unless
the target is v0, which has none (-1 on the way up); the codec where the target has it. Headers,
producer ids and the transactional flag exist in v2 only and are lost on the way down.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from protocol import limits
from protocol.compression import Codec
from protocol.errors import BatchCorruptError, BatchTruncatedError
from protocol.identifiers import NO_LEADER_EPOCH, Buffer
from protocol.legacy_message_set import (
    LegacyEntry,
    check_entry,
    entry_magic,
    iterate_entry_records,
)
from protocol.legacy_message_set_builder import build_set
from protocol.record import Record
from protocol.record_batch import check_batch, iterate_records
from protocol.record_batch_builder import build_batch
from protocol.record_batch_header import MAGIC, TimestampType, parse_header

__all__ = ["from_v2", "iterate_as_v2", "to_v2"]

PLAIN_BATCH_BYTES_MAX: Final = 16 * 1024
"""Plain entries are gathered into batches of about this size: one each would double the bytes,
and larger ones would make a reader that asks for one offset take much that lies before it."""


def to_v2(
    buffer: Buffer,
    position: int = 0,
    end: int | None = None,
    *,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Return the entries from `position` to `end` as record batches; see `iterate_as_v2`."""
    batches = iterate_as_v2(buffer, position, end, leader_epoch=leader_epoch)
    return b"".join(batch for batch, _ in batches)


def iterate_as_v2(
    buffer: Buffer,
    position: int = 0,
    end: int | None = None,
    *,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> Iterator[tuple[Buffer, int]]:
    """Yield record batches, and the position after what each was made of.

    A wrapper becomes a batch of its codec; plain entries are gathered as far as one batch can say
    the same of them all. Record batches among them, as in an upgraded log, are passed on as views,
    untouched and unchecked but for their header. A cut last entry ends the set.

    Raises:
        BatchCorruptError: an entry is damaged, offsets do not grow, or offsets or timestamps are
            such as no batch can hold.
        MessageTooLargeError, UnsupportedCompressionError: see `iterate_entry_records`.
    """
    view = memoryview(buffer)[:end]
    plain: _PlainRecords | None = None
    while position < len(view):
        try:
            entry, batch, next_position = _next_entry(view, position)
        except BatchTruncatedError:
            break
        if plain is not None and (entry is None or not plain.takes(entry)):
            yield _batch_of(plain.records, plain.entry, leader_epoch), position
            plain = None
        if entry is None:
            assert batch is not None
            yield batch, next_position
        elif entry.codec != Codec.NONE:
            records = list(iterate_entry_records(view, entry))
            yield _batch_of(records, entry, leader_epoch), next_position
        elif plain is None:
            plain = _PlainRecords(view, entry)
        else:
            plain.add(view, entry)
        position = next_position
    if plain is not None:
        yield _batch_of(plain.records, plain.entry, leader_epoch), position


def _next_entry(
    view: memoryview, position: int
) -> tuple[LegacyEntry | None, memoryview | None, int]:
    """Return a checked legacy entry, or a record batch as a view, and where the next one is."""
    if entry_magic(view, position) != MAGIC:
        entry = check_entry(view, position)
        return entry, None, entry.end_position
    end = position + parse_header(view, position).size_bytes
    if end > len(view):
        raise BatchTruncatedError(position, "body")
    return None, view[position:end], end


class _PlainRecords:
    """Consecutive plain entries that go into one batch."""

    __slots__ = ("entry", "records", "size_bytes")

    def __init__(self, view: memoryview, entry: LegacyEntry) -> None:
        self.entry = entry
        self.records: list[Record] = []
        self.size_bytes = 0
        self.add(view, entry)

    def takes(self, entry: LegacyEntry) -> bool:
        """Whether the entry can go into the same batch."""
        first = self.entry
        if entry.codec_bits != Codec.NONE or entry.timestamp_type != first.timestamp_type:
            return False
        if self.size_bytes + entry.size_bytes > PLAIN_BATCH_BYTES_MAX:
            return False
        if entry.offset - first.offset > limits.INT32_MAX:
            return False
        # With LogAppendTime a batch has one timestamp for all that is in it.
        return (
            entry.timestamp == first.timestamp or entry.timestamp_type == TimestampType.CREATE_TIME
        )

    def add(self, view: memoryview, entry: LegacyEntry) -> None:
        """Add one that it takes."""
        self.records += iterate_entry_records(view, entry)
        self.size_bytes += entry.size_bytes


def _batch_of(records: list[Record], entry: LegacyEntry, leader_epoch: int) -> bytes:
    """Build the batch of a wrapper's or of gathered records; `entry` is the wrapper or the first.

    Offsets and timestamps are held against v2's limits here: an entry's offset is outside its
    CRC, and a right CRC does not make a number sensible.
    """
    first, last = records[0].offset, records[-1].offset
    if any(one.offset >= next_.offset for one, next_ in pairwise(records)):
        raise BatchCorruptError(entry.position, f"offsets do not grow from {first} to {last}")
    if last - first > limits.INT32_MAX or last == limits.INT64_MAX:
        raise BatchCorruptError(entry.position, f"no batch spans offsets {first} to {last}")
    timestamps = [record.timestamp for record in records]
    if max(timestamps) - min(timestamps) > limits.INT64_MAX:
        raise BatchCorruptError(entry.position, "timestamps are further apart than 2^63 - 1 ms")
    return build_batch(
        records,
        base_offset=first,
        codec=entry.codec,
        timestamp_type=entry.timestamp_type,
        leader_epoch=leader_epoch,
    )


def from_v2(buffer: Buffer, magic: int, position: int = 0, end: int | None = None) -> bytes:
    """Return the record batches from `position` to `end` as a legacy set.

    Each batch becomes plain entries or, if it is compressed, one wrapper of its codec; what was
    zstd, which these formats lack, becomes plain. Control batches and batches without records are
    left out. A cut last batch ends the set.

    Raises:
        BatchCorruptError: a batch or a record in it is damaged, or is not of format v2.
        MessageTooLargeError, UnsupportedCompressionError: see `record_batch.iterate_records`.
        UnsupportedForMessageFormatError: `magic` is neither 0 nor 1.
    """
    view = memoryview(buffer)[:end]
    parts: list[bytes] = []
    while position < len(view):
        try:
            header = check_batch(view, position)
        except BatchTruncatedError:
            break
        if not header.is_control:
            parts.append(
                build_set(
                    iterate_records(view, position),
                    magic=magic,
                    codec=Codec.NONE if header.codec == Codec.ZSTD else header.codec,
                    timestamp_type=header.timestamp_type,
                )
            )
        position += header.size_bytes
    return b"".join(parts)
