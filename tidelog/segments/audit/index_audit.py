"""Index audit: whether `.index`, `.timeindex` and `.txnindex` say what their log says.

The first two are held against the log's batches as these go by, many at once, so no list of a log's
batches is kept. All that is wrong here is a warning: an index is a hint, built anew at a start.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from protocol.end_transaction_marker import decode_marker
from protocol.errors import StoredFormatError, TidelogError
from protocol.record_batch_header import CONTROL_FLAG
from protocol.stored import transaction_index
from protocol.stored.index_entries import (
    OFFSET_INDEX_ENTRY_BYTES,
    TIME_INDEX_ENTRY_BYTES,
)
from tidelog.segments.audit.fault import FaultKind, Faults, Severity
from tidelog.segments.batch_table import BatchTable
from tidelog.segments.index_files import OFFSET_ENTRY, TIME_ENTRY

__all__ = ["OffsetIndexAudit", "TimeIndexAudit", "TransactionIndexAudit"]

Column = NDArray[Any]
NO_TIMESTAMP: Final = -1


class OffsetIndexAudit:
    """Each entry's position must be that of a batch, and its offset from there up to the next's."""

    def __init__(self, data: bytes, base_offset: int, faults: Faults) -> None:
        self._faults = faults
        decoded = _decoded(data, base_offset, FaultKind.INDEX, faults)
        self._offsets, self._positions = decoded
        self._is_met = np.zeros(len(self._offsets), dtype=bool)

    def batches(self, positions: Column, base_offsets: Column) -> None:
        """Take note of the log's next batches: where they begin in the file, and at what offset."""
        first, end = np.searchsorted(self._positions, (positions[0], positions[-1] + 1))
        if first == end:
            return
        at = np.searchsorted(positions, self._positions[first:end])
        is_met = positions[at] == self._positions[first:end]
        self._is_met[first:end] |= is_met
        begins = base_offsets[at]
        below = is_met & (self._offsets[first:end] < begins)
        for number in np.flatnonzero(below).tolist():
            text = f"is below offset {int(begins[number])}, which is there"
            self._report(int(first) + number, text)
        before = self._offsets[np.maximum(np.arange(first, end) - 1, 0)]
        above = is_met & (before >= begins) & (np.arange(first, end) > 0)
        for number in np.flatnonzero(above).tolist():
            text = f"is not below offset {int(begins[number])}, where the next entry points"
            self._report(int(first) + number - 1, text)

    def damage(self, position: int, end_position: int) -> None:
        """Take note of a stretch of the log in which nobody knows where batches begin."""
        first, end = np.searchsorted(self._positions, (position, end_position))
        self._is_met[first:end] = True

    def finish(self, log_size_bytes: int, last_offset: int) -> None:
        """Report what points nowhere, once the log has been walked."""
        beyond = self._positions >= log_size_bytes
        for number in np.flatnonzero(beyond | ~self._is_met).tolist():
            where = "past the log's end" if beyond[number] else "into the middle of a batch"
            self._report(number, f"points {where}")
        is_late = self._is_met & ~beyond & (self._offsets > last_offset)
        for number in np.flatnonzero(is_late).tolist():
            self._report(number, f"is past the log's last offset {last_offset}")

    def _report(self, number: int, text: str) -> None:
        offset, position = int(self._offsets[number]), int(self._positions[number])
        self._faults.add(
            FaultKind.INDEX,
            Severity.WARNING,
            f"entry {number} (offset {offset}, position {position}) {text}",
            position=number * OFFSET_INDEX_ENTRY_BYTES,
            offsets=(offset, offset),
        )


class TimeIndexAudit:
    """Each entry's timestamp must be the largest of the log up to and including its offset.

    One that is smaller makes look-ups by time miss records. One that is larger than any makes them
    scan for nothing, and is no timestamp of this log.
    """

    def __init__(self, data: bytes, base_offset: int, faults: Faults) -> None:
        self._faults = faults
        decoded = _decoded(data, base_offset, FaultKind.TIME_INDEX, faults)
        self._timestamps, self._offsets = decoded
        self._next = 0
        self._largest = NO_TIMESTAMP
        self._above: list[tuple[int, int]] = []
        self._is_known = True

    def batches(self, base_offsets: Column, last_offsets: Column, timestamps: Column) -> None:
        """Take note of the log's next batches: their offsets and largest timestamps (ms)."""
        ends = np.maximum.accumulate(last_offsets)  # grows, even where the log does not
        end = int(np.searchsorted(self._offsets, ends[-1]))
        largest = np.maximum.accumulate(np.maximum(timestamps, self._largest))
        if end > self._next:
            entries = self._offsets[self._next : end]
            whole = np.searchsorted(ends, entries, side="right")
            begun = np.searchsorted(base_offsets, entries, side="right")
            before = self._largest
            self._compare(end, _prefix(largest, whole, before), _prefix(largest, begun, before))
        self._largest = int(largest[-1])

    def damage(self) -> None:
        """Take note of batches whose timestamps, or offsets, nobody knows."""
        self._is_known = False

    def finish(self, last_offset: int) -> None:
        """Report on the rest, once the log has been walked."""
        count = len(self._offsets)
        inside = max(int(np.searchsorted(self._offsets, last_offset, side="right")), self._next)
        rest = np.full(inside - self._next, self._largest)
        self._compare(inside, rest, rest)
        for number, largest in self._above if self._is_known else ():
            self._report(number, f"is above timestamp {largest}, the largest up to there")
        for number in range(inside, count):
            self._report(number, f"is past the log's last offset {last_offset}")

    def _compare(self, end: int, whole: Column, begun: Column) -> None:
        """Compare the entries up to `end` with the largest timestamps of the batches that end, and
        of those that begin, up to their offsets."""
        timestamps = self._timestamps[self._next : end]
        for number in np.flatnonzero(timestamps < whole).tolist():
            text = f"is below timestamp {int(whole[number])}, which is in the log"
            self._report(self._next + number, text)
        for number in np.flatnonzero(timestamps > begun).tolist():
            self._above.append((self._next + number, int(begun[number])))
        self._next = end

    def _report(self, number: int, text: str) -> None:
        timestamp, offset = int(self._timestamps[number]), int(self._offsets[number])
        self._faults.add(
            FaultKind.TIME_INDEX,
            Severity.WARNING,
            f"entry {number} (timestamp {timestamp}, offset {offset}) {text}",
            position=number * TIME_INDEX_ENTRY_BYTES,
            offsets=(offset, offset),
        )


class TransactionIndexAudit:
    """Entries must be in order, end in this log, and each where its producer's abort marker is."""

    def __init__(self, data: bytes, base_offset: int, faults: Faults) -> None:
        self._faults, self._base_offset = faults, base_offset
        self._entries: list[transaction_index.AbortedTransaction] = []
        try:
            self._entries = transaction_index.decode(data)
        except StoredFormatError as error:
            faults.add(FaultKind.TRANSACTION_INDEX, Severity.WARNING, str(error))
        self._ends = np.array([entry.last_offset for entry in self._entries], dtype=np.int64)
        self._aborts: set[tuple[int, int]] = set()
        """Producer and offset of markers where entries end."""
        self._is_known = True

    def batches(self, data: memoryview, table: BatchTable) -> None:
        """Take note of the log's next batches; the table's positions are of `data`."""
        if not len(self._ends):
            return
        is_control = table["attributes"] & CONTROL_FLAG != 0
        for row in np.flatnonzero(is_control & np.isin(table["last_offset"], self._ends)).tolist():
            try:
                marker = decode_marker(data, int(table["position"][row]))
            except TidelogError:
                continue
            if marker is not None and not marker.is_commit:
                producer_id = int(table["producer_id"][row])
                self._aborts.add((producer_id, int(table["last_offset"][row])))

    def damage(self) -> None:
        """Take note of batches of which nobody knows if they are markers."""
        self._is_known = False

    def finish(self, last_offset: int) -> None:
        """Report what is wrong, once the log has been walked."""
        previous = self._base_offset - 1
        for number, entry in enumerate(self._entries):
            text = ""
            if entry.last_offset <= previous:
                begin = self._base_offset
                text = f"is not above the one before it, or the file's first offset {begin}"
            elif entry.last_offset > last_offset:
                text = f"is past the log's last offset {last_offset}"
            elif self._is_known and (entry.producer_id, entry.last_offset) not in self._aborts:
                text = "ends where the log has no abort marker of this producer"
            if text:
                self._report(number, entry, text)
            previous = entry.last_offset

    def _report(self, number: int, entry: transaction_index.AbortedTransaction, text: str) -> None:
        self._faults.add(
            FaultKind.TRANSACTION_INDEX,
            Severity.WARNING,
            f"entry {number} (producer {entry.producer_id}, offsets {entry.first_offset} to "
            f"{entry.last_offset}) {text}",
            position=number * transaction_index.ENTRY_BYTES,
            offsets=(entry.first_offset, entry.last_offset),
        )


def _prefix(largest: Column, counts: Column, before: int) -> Column:
    """Return the largest of the first so many batches, or of those before them."""
    found: Column = np.where(counts > 0, largest[np.maximum(counts, 1) - 1], before)
    return found


def _decoded(data: bytes, base_offset: int, kind: FaultKind, faults: Faults) -> list[Column]:
    """Return the entries' two columns as `protocol.stored.index_entries` decodes them; report what
    cannot be read.

    Of a segment of a gigabyte the decoders there would make half a million objects, which takes
    longer than its CRCs.
    """
    is_offset_index = kind is FaultKind.INDEX
    entry = OFFSET_ENTRY if is_offset_index else TIME_ENTRY
    if len(data) % entry.itemsize:
        text = (
            f"an index of {len(data)} bytes is not a whole number of {entry.itemsize}-byte entries"
        )
        faults.add(kind, Severity.WARNING, text)
        data = b""
    stored = np.frombuffer(data, dtype=entry)
    first, second = (stored[name].astype(np.int64) for name in stored.dtype.names or ())
    steps = np.diff(second, prepend=-1 if is_offset_index else 0)
    grows = (np.diff(first, prepend=-1) > 0) & (steps > 0 if is_offset_index else steps >= 0)
    ends = np.flatnonzero(~grows | (first == 0) & (second == 0))
    count = int(ends[0]) if len(ends) else len(stored)
    if count < len(stored) and (first[count] < 0 or second[count] < 0):
        name = "offset" if is_offset_index else "time"
        faults.add(kind, Severity.WARNING, f"{name} index entry {count} is negative")
        count, data = 0, b""
    if data[count * entry.itemsize :].strip(b"\0"):  # zeros are the room of a live log's index
        text = f"entry {count} is not above the one before it"
        faults.add(kind, Severity.WARNING, text, position=count * entry.itemsize)
    offsets = first if is_offset_index else second
    offsets += base_offset
    return [first[:count], second[:count]]
