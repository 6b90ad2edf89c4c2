"""BatchThinning: what stays of batches when a log is compacted by key, many batches at once.

The rules are those of Kafka's cleaner, as in the broker's: a record stays if it is the last one of
its key; a tombstone (a record without value) only until its delete horizon, which it gets here and
which stands in its batch (attribute bit 6 and the base timestamp, KIP-534); records without a key
go. Batches of aborted transactions go at once, markers a delete retention after the last batch of
their transaction. The last batch of each producer, and the last one of all, stay even without
records: for their sequence numbers and offsets.

A batch of which all stays is copied as it is. Another one keeps its base and last offset, base
timestamp, producer, leader epoch and codec, and its records their bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.checksum import crc32c
from protocol.compression import compress
from protocol.identifiers import Buffer
from protocol.limits import INT64_MAX
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
    MAGIC,
    TRANSACTIONAL_FLAG,
)
from protocol.stored.cleaned_transactions import CleanedTransactions
from protocol.stored.transaction_index import AbortedTransaction
from tidelog.segments.batch_table import BATCH_DTYPE, BatchTable
from tidelog.segments.compaction.latest_records import LatestRecords
from tidelog.segments.compaction.log_facts import LogFacts, marker_type
from tidelog.segments.compaction.record_bytes import moved, taken
from tidelog.segments.compaction.stored_runs import DecodedRun
from tidelog.segments.record_spans import NULL_END

__all__ = ["BatchThinning", "KeptBatch", "ThinningCounts", "ThinningRules", "dropped_batches"]

EMPTY_FLAGS: Final = LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG
TRANSACTION_FLAGS: Final = CONTROL_FLAG | TRANSACTIONAL_FLAG

Column = NDArray[Any]


class ThinningRules(msgspec.Struct, frozen=True):
    """What is the same for all batches of a partition."""

    now_ms: int
    delete_retention_ms: int
    start_offset: int
    """Records below it are deleted already."""
    end_offset: int
    """From here on all is left as it is."""


class ThinningCounts(msgspec.Struct):
    """What was seen."""

    records_read: int = 0
    """Those of control batches left out, as in all of these."""
    records_kept: int = 0
    keyless: int = 0
    """Records that went because they have no key."""
    batches_kept: int = 0


class KeptBatch(NamedTuple):
    """What is written for one batch."""

    data: Buffer
    base_offset: int
    last_offset: int
    max_timestamp: int
    aborted: list[AbortedTransaction]
    """The transactions that it ends, being an abort marker."""


class _Choice(NamedTuple):
    """What stays of the batches of a run."""

    keep: Column
    """Of each record."""
    kept_counts: Column
    """Of each batch, as what follows."""
    needs_horizon: Column
    is_as_is: Column
    """It stays to the byte."""
    aborted: dict[int, list[AbortedTransaction]]
    """By row, of the markers that stay."""


def dropped_batches(table: BatchTable, transactions: CleanedTransactions) -> Column:
    """Return which batches hold no record that counts: markers, and those of aborted transactions.

    Args:
        transactions: Is told of the batches, so ask once for each, in their order.
    """
    dropped: Column = table["attributes"] & CONTROL_FLAG != 0
    rows = np.flatnonzero(table["attributes"] & TRANSACTION_FLAGS == TRANSACTIONAL_FLAG)
    for row in rows.tolist():
        producer_id, last_offset = int(table["producer_id"][row]), int(table["last_offset"][row])
        dropped[row] = transactions.may_drop_batch(producer_id, last_offset)
    return dropped


class BatchThinning:
    """Thins out the batches of one partition, in their order."""

    def __init__(self, latest: LatestRecords, facts: LogFacts, rules: ThinningRules) -> None:
        self._latest, self._facts, self._rules = latest, facts, rules
        self._transactions = CleanedTransactions(
            each for each in facts.aborted if each.first_offset < rules.end_offset
        )
        self._aborted_at = {each.last_offset: each for each in facts.aborted}
        self._last_data_offsets = np.array([*facts.last_data_offsets.values()], dtype=np.int64)
        self._horizon = min(rules.now_ms + rules.delete_retention_ms, INT64_MAX)
        self.counts = ThinningCounts()

    def kept(self, run: DecodedRun) -> Iterator[KeptBatch]:
        """Yield what stays of each batch of a run of which anything stays."""
        choice, table = self._choose(run), run.table
        is_rebuilt = (choice.kept_counts > 0) & ~choice.is_as_is
        payloads = self._payloads(run, choice, is_rebuilt & ~choice.needs_horizon)
        payloads |= self._payloads(run, choice, is_rebuilt & choice.needs_horizon)
        timestamps = _largest_timestamps(run, choice)
        stays = choice.is_as_is | is_rebuilt | self._must_stay(table)
        for row in np.flatnonzero(stays).tolist():
            batch = _Batch(*table[row].item())
            timestamp, data = batch.max_timestamp, _stored(run, batch)
            if row in payloads:
                timestamp = int(timestamps[row])
                horizon = self._horizon if choice.needs_horizon[row] else None
                count = int(choice.kept_counts[row])
                data = _rebuilt(batch, payloads[row], count, timestamp, horizon)
            elif not choice.is_as_is[row] and batch.record_count:
                data = _emptied(batch)
            self.counts.batches_kept += 1
            aborted = choice.aborted.get(row, [])
            yield KeptBatch(data, batch.base_offset, batch.last_offset, timestamp, aborted)

    # --- what stays ---------------------------------------------------------------------------

    def _choose(self, run: DecodedRun) -> _Choice:
        """Decide on all records, and count them."""
        table, spans, rules = run.table, run.spans, self._rules
        batch, attributes = spans.batch, table["attributes"]
        is_late = table["base_offset"] >= rules.end_offset
        is_control = attributes & CONTROL_FLAG != 0
        has_horizon = attributes & DELETE_HORIZON_FLAG != 0
        is_expired = has_horizon & (table["base_timestamp"] <= rules.now_ms)
        is_data = ~is_control[batch]
        is_tombstone = (spans.value_end == NULL_END) & is_data

        keep = self._latest.mask(run.first_ordinal, len(batch))
        keep &= ~(is_tombstone & is_expired[batch])
        is_kept_whole, needs_horizon, is_dropped, aborted = self._decide_transactions(run, is_late)
        keep |= is_kept_whole[batch]
        kept_counts = np.bincount(batch[keep], minlength=len(table))
        has_tombstone = np.bincount(batch[keep & is_tombstone], minlength=len(table)) > 0
        needs_horizon |= has_tombstone
        needs_horizon &= ~has_horizon
        lowest = np.iinfo(np.int64).min + self._horizon
        has_delta = np.bincount(batch[spans.timestamp < lowest], minlength=len(table)) == 0
        needs_horizon &= has_delta  # a time before all times: no horizon can be said beside it

        is_keyless = (spans.key_end == NULL_END) & is_data & ~(is_dropped | is_late)[batch]
        self.counts.records_read += int(is_data.sum())
        self.counts.records_kept += int((keep & is_data).sum())
        self.counts.keyless += int((is_keyless & (spans.offset >= rules.start_offset)).sum())
        is_as_is = (kept_counts == table["record_count"]) & ~needs_horizon & (kept_counts > 0)
        return _Choice(keep, kept_counts, needs_horizon, is_as_is | is_late, aborted)

    def _decide_transactions(
        self, run: DecodedRun, is_late: Column
    ) -> tuple[Column, Column, Column, dict[int, list[AbortedTransaction]]]:
        """Return of each batch whether all stays whatever its keys are, whether it is a marker on
        its way out, whether it is of an aborted transaction; and what is aborted by which row."""
        table, transactions = run.table, self._transactions
        is_kept, is_leaving = is_late.copy(), np.zeros(len(table), dtype=bool)
        is_dropped, aborted = np.zeros(len(table), dtype=bool), {}
        for row in np.flatnonzero(table["attributes"] & TRANSACTION_FLAGS).tolist():
            batch = _Batch(*table[row].item())
            is_control = bool(batch.attributes & CONTROL_FLAG)
            if is_late[row]:
                if is_control and batch.last_offset in self._aborted_at:
                    aborted[row] = [self._aborted_at[batch.last_offset]]
            elif is_control:
                transactions.kept_aborted = []
                may_drop = transactions.may_drop_marker(
                    batch.producer_id, batch.last_offset, marker_type(run.data, batch.position)
                )
                aborted[row] = transactions.kept_aborted
                has_horizon = batch.attributes & DELETE_HORIZON_FLAG
                is_over = has_horizon and batch.base_timestamp <= self._rules.now_ms
                is_kept[row], is_leaving[row] = not (may_drop and is_over), may_drop
            else:
                is_dropped[row] = transactions.may_drop_batch(batch.producer_id, batch.last_offset)
        return is_kept, is_leaving, is_dropped, aborted

    def _must_stay(self, table: BatchTable) -> Column:
        """Return which batches stay even without records."""
        last_offset, facts = table["last_offset"], self._facts
        has_producer = table["producer_id"] >= 0
        stays: Column = last_offset + 1 == self._rules.end_offset
        stays |= has_producer & np.isin(last_offset, self._last_data_offsets)
        is_control = table["attributes"] & CONTROL_FLAG != 0
        for row in np.flatnonzero(is_control & has_producer & ~stays).tolist():
            producer_id = int(table["producer_id"][row])
            is_last_epoch = table["producer_epoch"][row] == facts.control_epochs[producer_id]
            stays[row] = producer_id not in facts.last_data_offsets and is_last_epoch
        return stays

    # --- their bytes --------------------------------------------------------------------------

    def _payloads(self, run: DecodedRun, choice: _Choice, rows: Column) -> dict[int, memoryview]:
        """Return the kept records of some batches, which all get a horizon, or none of them."""
        chosen = np.flatnonzero(rows)
        if not len(chosen):
            return {}
        records = choice.keep & rows[run.spans.batch]
        starts, ends = run.record_start[records], run.spans.end[records]
        if choice.needs_horizon[chosen[0]]:
            # With LogAppendTime the records' own times, which nobody is told, become the batch's.
            deltas = run.spans.timestamp[records] - self._horizon
            data, ends = moved(run.buffer, starts, ends, deltas)
        else:
            data, ends = taken(run.buffer, starts, ends)
        stops = ends[np.cumsum(choice.kept_counts[chosen]) - 1].tolist()
        return {
            row: data.data[start:stop]
            for row, start, stop in zip(chosen.tolist(), [0, *stops[:-1]], stops, strict=True)
        }


def _largest_timestamps(run: DecodedRun, choice: _Choice) -> Column:
    """Return for each batch its largest timestamp as it will be: that of what is left."""
    found: Column = run.table["max_timestamp"].copy()
    batch, timestamp = run.spans.batch[choice.keep], run.spans.timestamp[choice.keep]
    if len(batch):
        first = np.flatnonzero(np.diff(batch, prepend=-1))
        of_kept = found.copy()
        of_kept[batch[first]] = np.maximum.reduceat(timestamp, first)
        lost_some = choice.kept_counts < run.table["record_count"]
        own_time = run.table["attributes"] & LOG_APPEND_TIME_FLAG == 0
        found = np.where(lost_some & own_time, of_kept, found)
    return found


class _Batch(NamedTuple):
    """A row of a batch table."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    record_count: int
    leader_epoch: int
    attributes: int
    crc: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


assert _Batch._fields == BATCH_DTYPE.names, "the row and the table disagree"


def _stored(run: DecodedRun, batch: _Batch) -> Buffer:
    return memoryview(run.data)[batch.position : batch.position + batch.size_bytes]


def _rebuilt(
    batch: _Batch, records: Buffer, count: int, max_timestamp: int, horizon: int | None
) -> bytes:
    """Return a batch of these records, which are not compressed."""
    attributes, base_timestamp = batch.attributes, batch.base_timestamp
    if horizon is not None:
        attributes, base_timestamp = attributes | DELETE_HORIZON_FLAG, horizon
    changed = batch._replace(
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=count,
    )
    return _sealed(changed, compress(attributes & CODEC_MASK, records))


def _emptied(batch: _Batch) -> bytes:
    """Return the batch without records: what is left of its time is the largest one."""
    changed = batch._replace(
        attributes=batch.attributes & EMPTY_FLAGS,
        base_timestamp=batch.max_timestamp,
        record_count=0,
    )
    return _sealed(changed, b"")


def _sealed(batch: _Batch, records: Buffer) -> bytes:
    """Return a batch of this header and these records, its length and CRC set right."""
    header = HEADER.pack(
        batch.base_offset, HEADER_BYTES - LOG_OVERHEAD_BYTES + len(records), batch.leader_epoch,
        MAGIC, 0, batch.attributes, batch.last_offset - batch.base_offset, batch.base_timestamp,
        batch.max_timestamp, batch.producer_id, batch.producer_epoch, batch.base_sequence,
        batch.record_count,
    )  # fmt: skip
    sealed = bytearray().join((header, records))
    CRC.pack_into(sealed, CRC_POSITION, crc32c(memoryview(sealed)[ATTRIBUTES_POSITION:]))
    return bytes(sealed)
