"""LogFacts: what must be known of a whole partition before its batches can be thinned out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from protocol.identifiers import Buffer
from protocol.record_batch import iterate_records
from protocol.record_batch_header import CONTROL_FLAG, TRANSACTIONAL_FLAG
from protocol.stored.transaction_index import AbortedTransaction
from tidelog.segments.compaction.stored_runs import StoredRun

__all__ = ["ABORT_MARKER", "LogFacts", "marker_type", "read_facts"]

ABORT_MARKER: Final = 0
COMMIT_MARKER: Final = 1
NO_MARKER: Final = -1
TRANSACTION_FLAGS: Final = CONTROL_FLAG | TRANSACTIONAL_FLAG


class LogFacts(NamedTuple):
    """What was found in a log."""

    batches: int
    records: int
    """Those of control batches, too."""
    size_bytes: int
    crc_sum: int
    """Of all batches: by it a later reading tells that the log is still the same."""
    last_data_offsets: dict[int, int]
    """Last offset of the last batch of records, by producer id."""
    control_epochs: dict[int, int]
    """Epoch of the last control batch, by producer id."""
    aborted: list[AbortedTransaction]
    decided_offset: int
    """Where the first open transaction begins: what lies below is decided. Else the log's end."""


def read_facts(runs: Iterable[StoredRun], end_offset: int) -> LogFacts:
    """Look at the headers of all batches. Errors as those of the runs."""
    batches = records = size_bytes = crc_sum = 0
    last_data_offsets: dict[int, int] = {}
    control_epochs: dict[int, int] = {}
    aborted: list[AbortedTransaction] = []
    open_: dict[int, int] = {}
    for run in runs:
        table = run.table
        batches, records = batches + len(table), records + int(table["record_count"].sum())
        size_bytes += int(table["size_bytes"].sum())
        crc_sum += int(table["crc"].sum(dtype=np.uint64))
        is_control = table["attributes"] & CONTROL_FLAG != 0
        has_producer = table["producer_id"] >= 0
        data, control = table[has_producer & ~is_control], table[has_producer & is_control]
        last_data_offsets.update(
            zip(data["producer_id"].tolist(), data["last_offset"].tolist(), strict=True)
        )
        control_epochs.update(
            zip(control["producer_id"].tolist(), control["producer_epoch"].tolist(), strict=True)
        )
        for row in np.flatnonzero(table["attributes"] & TRANSACTION_FLAGS).tolist():
            _follow(run, row, open_, aborted)
    decided_offset = min([*open_.values(), end_offset])
    return LogFacts(
        batches,
        records,
        size_bytes,
        crc_sum,
        last_data_offsets,
        control_epochs,
        aborted,
        decided_offset,
    )


def marker_type(data: Buffer, position: int) -> int:
    """Return what the control batch there says: 0 abort, 1 commit; others are no transaction's."""
    for record in iterate_records(data, position):
        if record.key is not None and len(record.key) >= 4:
            return int.from_bytes(record.key[2:4])
    return NO_MARKER


def _follow(
    run: StoredRun, row: int, open_: dict[int, int], aborted: list[AbortedTransaction]
) -> None:
    """Note what a batch of a transaction, or a marker, begins or ends."""
    batch = run.table[row]
    producer_id = int(batch["producer_id"])
    if not batch["attributes"] & CONTROL_FLAG:
        open_.setdefault(producer_id, int(batch["base_offset"]))
        return
    marker = marker_type(run.data, int(batch["position"]))
    if marker not in (ABORT_MARKER, COMMIT_MARKER):
        return
    first_offset, last_offset = open_.pop(producer_id, None), int(batch["last_offset"])
    if marker == ABORT_MARKER and first_offset is not None:
        stable = min([*open_.values(), last_offset + 1])
        aborted.append(AbortedTransaction(producer_id, first_offset, last_offset, stable))
