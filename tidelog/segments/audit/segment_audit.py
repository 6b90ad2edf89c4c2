"""Segment audit: one log file with its indexes, checked byte for byte.

That every batch is whole with its CRC right, that offsets grow, begin at the file's name and end
below the next file's; that the indexes say what the log says; and, if asked, that every record
decodes and that there are as many as the headers say.
"""

from __future__ import annotations

import numpy as np
from pyarrow.fs import FileType

from protocol.compression import Codec
from protocol.errors import TidelogError
from protocol.legacy_message_set import iterate_entry_records
from protocol.limits import INT64_MAX
from tidelog.segments.audit.audit_task import AuditTask, SegmentAudit
from tidelog.segments.audit.fault import FaultKind, Faults, Severity
from tidelog.segments.audit.index_audit import (
    OffsetIndexAudit,
    TimeIndexAudit,
    TransactionIndexAudit,
)
from tidelog.segments.audit.offset_audit import OffsetAudit
from tidelog.segments.location import Location
from tidelog.segments.log_walk import Batches, Damage, OldEntry, walk_log
from tidelog.segments.log_window import LogWindow
from tidelog.segments.record_runs import Undecodable, record_runs

__all__ = ["audit_segment"]


def audit_segment(
    location: Location, task: AuditTask, *, is_deep: bool = False, gaps_are_faults: bool = False
) -> SegmentAudit:
    """Check one segment.

    Args:
        location: Of its data directory: the file system counts, the task has the path.
        is_deep: Also decode every record.
        gaps_are_faults: Offsets that are missing are errors: nothing was ever compacted.

    Raises:
        OSError: it cannot be read.
    """
    found = SegmentAudit(task.topic, task.partition, task.path, task.base_offset, task.size_bytes)
    faults = Faults(task.path)
    try:
        window = LogWindow(Location(location.filesystem, task.path), task.size_bytes)
    except FileNotFoundError:
        faults.add(FaultKind.MISSING, Severity.NOTE, "it was deleted after it was listed")
        found.size_bytes, found.faults = 0, faults.all()
        return found
    offsets = OffsetAudit(task, found, faults, gaps_are_faults=gaps_are_faults)
    check = _SegmentCheck(location, task, found, faults, offsets, is_deep)
    with window:
        for piece in walk_log(window, task.base_offset):
            if isinstance(piece, Batches):
                check.batches(piece)
            elif isinstance(piece, OldEntry):
                check.old_entry(piece)
            else:
                check.damage(piece)
    return check.finish()


class _SegmentCheck:
    """One walk over one segment: hands each piece to those who check something of it."""

    def __init__(
        self,
        location: Location,
        task: AuditTask,
        found: SegmentAudit,
        faults: Faults,
        offsets: OffsetAudit,
        is_deep: bool,
    ) -> None:
        self._location, self._task, self._is_deep = location, task, is_deep
        self._found, self._faults, self._offsets = found, faults, offsets
        self._others: list[Faults] = []
        self._index: OffsetIndexAudit | None = None
        self._time_index: TimeIndexAudit | None = None
        if (data := self._read(task.index_path, ".index")) is not None:
            self._index = OffsetIndexAudit(data, task.base_offset, self._others[-1])
        if (data := self._read(task.time_index_path, ".timeindex")) is not None:
            self._time_index = TimeIndexAudit(data, task.base_offset, self._others[-1])
        self._transaction_index: TransactionIndexAudit | None = None
        path = task.transaction_index_path  # most segments need none
        if path is not None and (data := self._read(path, ".txnindex")) is not None:
            self._transaction_index = TransactionIndexAudit(
                data, task.base_offset, self._others[-1]
            )

    def batches(self, piece: Batches) -> None:
        """Take note of sound batches."""
        table = piece.table
        self._offsets.batches(piece.position, table)
        self._found.batch_count += len(table)
        self._found.record_count += int(table["record_count"].sum())
        if self._index is not None:
            self._index.batches(piece.position + table["position"], table["base_offset"])
        if self._time_index is not None:
            self._time_index.batches(
                table["base_offset"], table["last_offset"], table["max_timestamp"]
            )
        if self._transaction_index is not None:
            self._transaction_index.batches(piece.data, table)
        if self._is_deep:
            self._decode(piece)

    def old_entry(self, piece: OldEntry) -> None:
        """Take note of a sound entry of an old format."""
        entry, first, count = piece.entry, piece.entry.offset, 1
        if self._is_deep or entry.codec_bits != Codec.NONE:  # of a wrapper only its inside tells
            try:
                records = list(iterate_entry_records(piece.data, entry))
                first, count = records[0].offset, len(records)
            except TidelogError as error:
                self._undecodable(piece.position, first, entry.offset, str(error))
        self._offsets.entry(piece.position, first, entry.offset)
        self._found.batch_count += 1
        self._found.record_count += count
        firsts, lasts = np.array([first]), np.array([entry.offset])
        if self._index is not None:
            self._index.batches(np.array([piece.position]), firsts)
        if self._time_index is not None:
            self._time_index.batches(firsts, lasts, np.array([entry.timestamp]))

    def damage(self, piece: Damage) -> None:
        """Take note of bytes that are no sound batch."""
        self._offsets.damage(piece)
        self._unread(piece.position, piece.position + piece.size_bytes)

    def _unread(self, position: int, end_position: int) -> None:
        """Let indexes say of these bytes what they like."""
        if self._index is not None:
            self._index.damage(position, end_position)
        if self._time_index is not None:
            self._time_index.damage()
        if self._transaction_index is not None:
            self._transaction_index.damage()

    def finish(self) -> SegmentAudit:
        """Report what is known at the end only; return what was found."""
        task, size_bytes = self._task, self._task.size_bytes
        grown_to = _size(self._location, task.path)
        is_growing = task.next_base_offset is None and grown_to > size_bytes
        self._offsets.finish(is_growing=is_growing)
        last_offset = self._offsets.last_offset
        if is_growing:  # the indexes were read later than the log was listed
            self._unread(size_bytes, grown_to)
            size_bytes, last_offset = grown_to, INT64_MAX
        if self._index is not None:
            self._index.finish(size_bytes, last_offset)
        if self._time_index is not None:
            if not self._offsets.is_in_order:
                self._time_index.damage()
            self._time_index.finish(last_offset)
        if self._transaction_index is not None:
            self._transaction_index.finish(last_offset)
        self._found.faults = [
            fault for each in (self._faults, *self._others) for fault in each.all()
        ]
        return self._found

    def _read(self, path: str | None, suffix: str) -> bytes | None:
        """Return what is in an index, with `Faults` for it added; report one that is missing."""
        if path is not None:
            try:
                with self._location.filesystem.open_input_stream(path) as file:
                    data: bytes = file.read()
            except FileNotFoundError:
                text = f"{path.rpartition('/')[2]} was deleted after it was listed"
                self._faults.add(FaultKind.MISSING, Severity.NOTE, text)
                return None
            self._others.append(Faults(path))
            return data
        name = f"{self._task.base_offset:020}{suffix}"
        self._faults.add(FaultKind.MISSING, Severity.WARNING, f"{name} is missing")
        return None

    def _decode(self, piece: Batches) -> None:
        for run in record_runs(piece.data, piece.table, with_headers=True):
            if isinstance(run, Undecodable):
                position = piece.position + int(run.row["position"])
                first, last = int(run.row["base_offset"]), int(run.row["last_offset"])
                self._undecodable(position, first, last, run.reason)

    def _undecodable(self, position: int, first: int, last: int, reason: str) -> None:
        self._faults.add(
            FaultKind.RECORDS,
            Severity.ERROR,
            f"records do not decode: {reason}",
            position=position,
            offsets=(first, last),
        )


def _size(location: Location, path: str) -> int:
    """Return a file's size; 0 if it is not there any more."""
    info = location.filesystem.get_file_info(path)
    return int(info.size) if info.type is FileType.File else 0
