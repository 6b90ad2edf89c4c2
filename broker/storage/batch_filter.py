"""BatchFilter: what stays of one batch when its log is cleaned (as Kafka's RecordFilter).

A record stays if no later one of its key is in the offset map; a tombstone (a record without value)
only until its delete horizon, `delete_retention_ms` after a cleaning first met it. The horizon
stands in the batch: attribute bit 6, and the base timestamp (KIP-534). Records without a key go.

A batch of which all stays is copied as it is. One that loses records keeps its base and last
offset, base timestamp, producer id, epoch and sequence, leader epoch and codec; its largest
timestamp becomes that of what is left. The last batch of an active producer stays even without
records, for its sequence number, and so does the last one before what may not be cleaned.

Legacy entries stay legacy entries (v0, v1) of the same codec. They have no horizon: their
tombstones go `delete_retention_ms` after the last cleaned segment was written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

import msgspec

from broker.storage.entry_walk import EntryHeader, LegacyHeader
from broker.storage.offset_map import OffsetMap
from protocol.checksum import crc32c
from protocol.compression import compress, decompress
from protocol.errors import BatchCorruptError, CorruptMessageError
from protocol.identifiers import Buffer
from protocol.legacy_message_set import iterate_entry_records, parse_entry
from protocol.legacy_message_set_builder import build_set
from protocol.limits import INT64_MAX
from protocol.record import Record
from protocol.record_batch_header import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_FLAG,
    CRC,
    CRC_POSITION,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from protocol.record_slices import (
    RecordSlice,
    largest_timestamp,
    moved_record,
    slice_records,
)
from protocol.stored.cleaned_transactions import CleanedTransactions

NO_MARKER: Final = -1

Kept: TypeAlias = tuple[Buffer, int, int]
"""The bytes that stay, the last offset they take up, their largest timestamp."""


class LastRecord(NamedTuple):
    """What a log must keep of one of its active producers."""

    last_data_offset: int
    """Of its last batch of records; -1 if that is gone, and only its epoch is known."""
    producer_epoch: int


class FilterRules(msgspec.Struct, frozen=True):
    """What is the same for every batch of a cleaning."""

    now_ms: int
    delete_retention_ms: int
    first_uncleanable_offset: int
    last_records: dict[int, LastRecord]
    """By producer id."""


class FilterCounts(msgspec.Struct):
    """What a filter has seen."""

    records_read: int = 0
    records_kept: int = 0
    keyless: int = 0
    """Records that went because they have no key."""


class BatchFilter:
    """Filters the batches of a log one after the other, from the first segment on."""

    __slots__ = ("_map", "_rules", "_transactions", "counts", "latest_offset")

    def __init__(
        self,
        offsets: OffsetMap,
        latest_offset: int,
        transactions: CleanedTransactions,
        rules: FilterRules,
    ) -> None:
        """Args:
        latest_offset: Up to which the map knows every key; later records stay.
        """
        self._map, self.latest_offset = offsets, latest_offset
        self._transactions, self._rules = transactions, rules
        self.counts = FilterCounts()

    def kept(
        self, data: bytes, index: int, header: EntryHeader, *, keeps_legacy_tombstones: bool
    ) -> Kept | None:
        """Return what stays of the checked batch at `data[index]`; None: nothing.

        Raises:
            BatchCorruptError: its records are not what the header says.
            MessageTooLargeError: it decompresses to more than any batch may.
        """
        if isinstance(header, LegacyHeader):
            return self._kept_legacy(data, index, header, keeps_legacy_tombstones)
        attributes, last_offset, count = header[5], header[0] + header[6], header[12]
        records_data, start, stop = (
            data,
            index + HEADER_BYTES,
            index + header[1] + LOG_OVERHEAD_BYTES,
        )
        if attributes & CODEC_MASK:
            records_data, start, stop = _decompressed(data, index, header)
        scanned = slice_records(records_data, start, stop, header, index)
        if attributes & CONTROL_FLAG:
            kept, needs_horizon = self._marker(header, list(scanned))
        elif attributes & TRANSACTIONAL_FLAG and self._transactions.may_drop_batch(
            header.producer_id, last_offset
        ):
            kept, needs_horizon = [], False
        else:
            kept, needs_horizon = self._latest(header, scanned)
        self.counts.records_read += count
        self.counts.records_kept += len(kept)
        if not kept:
            return self._kept_empty(data, index, header)
        needs_horizon = needs_horizon and not attributes & DELETE_HORIZON_FLAG
        if len(kept) == count and not needs_horizon:
            end = index + header[1] + LOG_OVERHEAD_BYTES
            return memoryview(data)[index:end], last_offset, header[8]
        batch, timestamp = self._rebuilt(header, records_data, kept, needs_horizon=needs_horizon)
        return batch, last_offset, timestamp

    # --- what goes ----------------------------------------------------------------------------

    def _latest(
        self, header: BatchHeader, records: Iterable[RecordSlice]
    ) -> tuple[list[RecordSlice], bool]:
        """Return the records that stay, and whether there is a tombstone among them."""
        base_offset, latest = header[0], self.latest_offset
        keeps_tombstones = not header.has_delete_horizon or self._rules.now_ms < header[7]
        find = self._map.get
        kept: list[RecordSlice] = []
        has_tombstone = False
        for record in records:
            _, _, _, delta, key, has_value = record
            offset = base_offset + delta
            if offset <= latest:
                if key is None:
                    self.counts.keyless += 1
                    continue
                if find(key) > offset or not (has_value or keeps_tombstones):
                    continue
            if not has_value:
                has_tombstone = True
            kept.append(record)
        return kept, has_tombstone

    def _marker(
        self, header: BatchHeader, records: list[RecordSlice]
    ) -> tuple[list[RecordSlice], bool]:
        """Return what stays of a transaction's marker, and whether it is on its way out."""
        key = records[0][4] if records else None
        marker = int.from_bytes(key[2:4]) if key is not None and len(key) >= 4 else NO_MARKER
        may_drop = self._transactions.may_drop_marker(
            header.producer_id, header.last_offset, marker
        )
        is_over = header.has_delete_horizon and header.base_timestamp <= self._rules.now_ms
        return ([] if may_drop and is_over else records), may_drop

    def _must_stay(self, header: BatchHeader) -> bool:
        """Whether a batch stays even without records."""
        if header.next_offset == self._rules.first_uncleanable_offset:
            return True
        if header.producer_id < 0:
            return False
        last = self._rules.last_records.get(header.producer_id)
        if last is None:
            return False
        if last.last_data_offset >= 0:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.producer_epoch

    # --- what stays ---------------------------------------------------------------------------

    def _kept_empty(self, data: bytes, index: int, header: BatchHeader) -> Kept | None:
        if not self._must_stay(header):
            return None
        last_offset, timestamp = header.last_offset, header.max_timestamp
        if not header.record_count:
            return memoryview(data)[index : index + header.size_bytes], last_offset, timestamp
        flags = header.attributes & (LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG)
        emptied = header._replace(
            attributes=flags, base_timestamp=timestamp, max_timestamp=timestamp, record_count=0
        )
        return _sealed(emptied, b""), last_offset, timestamp

    def _rebuilt(
        self, header: BatchHeader, data: bytes, kept: list[RecordSlice], *, needs_horizon: bool
    ) -> tuple[bytes, int]:
        """Return a batch of the kept records, and its largest timestamp."""
        attributes, base_timestamp = header.attributes, header.base_timestamp
        payload = b""
        if needs_horizon:
            horizon = min(self._rules.now_ms + self._rules.delete_retention_ms, INT64_MAX)
            try:
                payload = b"".join(
                    [moved_record(data, each[0], each[1], each[2] - horizon) for each in kept]
                )
                attributes, base_timestamp = attributes | DELETE_HORIZON_FLAG, horizon
            except ValueError:
                pass  # a time before all times: no horizon can be said beside it
        if base_timestamp is header.base_timestamp:
            payload = b"".join([data[each[0] : each[1]] for each in kept])
        timestamp = header.max_timestamp
        if not attributes & LOG_APPEND_TIME_FLAG and len(kept) < header.record_count:
            timestamp = largest_timestamp(kept)
        rebuilt = header._replace(
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=timestamp,
            record_count=len(kept),
        )
        return _sealed(rebuilt, compress(attributes & CODEC_MASK, payload)), timestamp

    # --- legacy entries -----------------------------------------------------------------------

    def _kept_legacy(
        self, data: bytes, index: int, header: LegacyHeader, keeps_tombstones: bool
    ) -> Kept | None:
        entry = parse_entry(data, index)
        records = list(iterate_entry_records(data, entry))
        kept = [each for each in records if self._stays(each, keeps_tombstones)]
        self.counts.records_read += len(records)
        self.counts.records_kept += len(kept)
        if not kept:
            return None
        timestamp = max(each.timestamp for each in kept)
        if len(kept) == len(records):
            return memoryview(data)[index : entry.end_position], header.last_offset, timestamp
        rebuilt = build_set(
            kept, magic=entry.magic, codec=entry.codec, timestamp_type=entry.timestamp_type
        )
        return rebuilt, kept[-1].offset, timestamp

    def _stays(self, record: Record, keeps_tombstones: bool) -> bool:
        if record.offset > self.latest_offset:
            return True
        if record.key is None:
            self.counts.keyless += 1
            return False
        is_wanted = record.value is not None or keeps_tombstones
        return is_wanted and self._map.get(record.key) <= record.offset


def key_slices(data: bytes, index: int, header: EntryHeader) -> tuple[int, Iterable[RecordSlice]]:
    """Return a base offset, and the records of a checked batch; errors as those of `kept`."""
    if isinstance(header, LegacyHeader):
        records = iterate_entry_records(data, parse_entry(data, index))
        return 0, ((0, 0, 0, each.offset, each.key, True) for each in records)
    start, stop = index + HEADER_BYTES, index + header[1] + LOG_OVERHEAD_BYTES
    if header[5] & CODEC_MASK:
        data, start, stop = _decompressed(data, index, header)
    return header[0], slice_records(data, start, stop, header, index)


def _decompressed(data: bytes, index: int, header: BatchHeader) -> tuple[bytes, int, int]:
    """Return the bytes that hold the records of a compressed batch, from where to where."""
    if not header.record_count:
        return b"", 0, 0
    codec = header.codec
    try:
        with memoryview(data) as view:
            plain = decompress(codec, view[index + HEADER_BYTES : index + header.size_bytes])
    except CorruptMessageError as error:
        raise BatchCorruptError(index, f"codec {codec}: {error.reason}") from None
    return plain, 0, len(plain)


def _sealed(header: BatchHeader, records: bytes) -> bytes:
    """Return a batch of this header and these records, its length and CRC set right."""
    length = HEADER_BYTES - LOG_OVERHEAD_BYTES + len(records)
    batch = bytearray(HEADER.pack(*header._replace(batch_length=length, crc=0)) + records)
    CRC.pack_into(batch, CRC_POSITION, crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]))
    return bytes(batch)
