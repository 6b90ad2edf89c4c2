"""Segment statistics: one log file, read once, as `LogStatistics`."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.compression import Codec
from protocol.legacy_message_set import LegacyEntry
from protocol.limits import INT64_MAX
from protocol.record_batch_header import CODEC_MASK, CONTROL_FLAG, HEADER_BYTES
from tidelog.segments.batch_table import BatchTable
from tidelog.segments.legacy_batches import legacy_batches
from tidelog.segments.location import Location
from tidelog.segments.log_scan import LegacyEntries, Wound
from tidelog.segments.log_walk import Batches, OldEntry, walk_log
from tidelog.segments.log_window import LogWindow
from tidelog.segments.record_runs import RecordRun, Undecodable, record_runs
from tidelog.segments.record_spans import NULL_END, RecordSpans
from tidelog.segments.statistics.log_statistics import CodecUse, LogStatistics, StatisticsAim
from tidelog.segments.statistics.sketches.span_hash import hash_spans

__all__ = ["StatisticsTask", "segment_statistics"]

KEY_BYTES_SHOWN: Final = 64
OLD_BYTES: Final = 1024 * 1024
"""Of old formats, converted at once."""
TIMESTAMP_MAX_MS: Final = 253_402_300_799_999
"""The end of the year 9999, where calendars of programs end."""

Column = NDArray[Any]


class StatisticsTask(NamedTuple):
    """One segment to look at; it pickles."""

    topic: str
    partition: int
    path: str
    base_offset: int
    size_bytes: int
    start_offset: int = 0
    """Records below it are left out: the log begins there."""
    end_offset: int = INT64_MAX
    """So are those at or above it: they are not committed yet."""


def segment_statistics(
    location: Location, task: StatisticsTask, aim: StatisticsAim
) -> LogStatistics:
    """Read a segment; what is damaged in it is left out and counted.

    Messages of old formats count as the batches that they are converted to: sizes and numbers of
    batches are those of these.

    Args:
        location: Of its data directory: the file system counts, the task has the path.

    Raises:
        OSError: it cannot be read. One that was deleted meanwhile is as if it were empty.
    """
    try:
        window = LogWindow(Location(location.filesystem, task.path), task.size_bytes)
    except FileNotFoundError:
        return LogStatistics(aim)
    with window:
        reading = _Reading(task, aim)
        for piece in walk_log(window, task.base_offset):
            if isinstance(piece, OldEntry):
                reading.old_entry(piece)
                continue
            reading.flush_old()
            if isinstance(piece, Batches):
                reading.batches(piece.data, piece.table)
            else:
                reading.found.damaged_bytes += piece.size_bytes
        reading.flush_old()
        return reading.found


class _Reading:
    """One way through one segment."""

    def __init__(self, task: StatisticsTask, aim: StatisticsAim) -> None:
        self._task, self._aim = task, aim
        self._old = bytearray()
        self._entries: list[LegacyEntry] = []
        """Of old formats; their positions are those in `_old`."""
        self.found = LogStatistics(aim)

    def old_entry(self, piece: OldEntry) -> None:
        """Keep an entry of an old format, to be converted with its neighbours."""
        self._entries.append(piece.entry._replace(position=len(self._old)))
        self._old += piece.data
        if len(self._old) >= OLD_BYTES:
            self.flush_old()

    def flush_old(self) -> None:
        """Convert the entries that are kept; plain ones become batches of some KB."""
        if not self._entries:
            return
        last = self.found.last_offset
        first_offset = self._task.base_offset if last is None else last + 1
        section = LegacyEntries(memoryview(self._old), 0, self._entries, first_offset)
        self._old, self._entries = bytearray(), []
        for found in legacy_batches(section):
            if isinstance(found, Wound):
                self.found.damaged_bytes += found.end_position - found.position
            else:
                self.batches(found.data, found.table)

    def batches(self, data: memoryview, table: BatchTable) -> None:
        """Take note of sound batches."""
        task, aim = self._task, self._aim
        table = table[(table["last_offset"] >= task.start_offset)
                      & (table["base_offset"] < task.end_offset)]  # fmt: skip
        if not len(table):
            return
        self._offsets(table)
        if aim.start_timestamp_ms is not None:  # an earlier batch need not be decoded
            table = table[table["max_timestamp"] >= aim.start_timestamp_ms]
        is_control = table["attributes"] & CONTROL_FLAG != 0
        if is_control.any():
            self.found.control_records += int(table["record_count"][is_control].sum())
            table = table[~is_control]
        for run in record_runs(data, table):
            if isinstance(run, Undecodable):
                self.found.damaged_bytes += int(run.row["size_bytes"])
            else:
                self._run(run)

    def _offsets(self, table: BatchTable) -> None:
        firsts, lasts = table["base_offset"], table["last_offset"]
        found = self.found
        before = int(firsts[0]) - 1 if found.last_offset is None else found.last_offset
        steps = firsts - np.concatenate([[before], lasts[:-1]]) - 1
        found.gaps += int((steps > 0).sum())
        inside = lasts - firsts + 1 - table["record_count"]
        found.missing_offsets += int(np.maximum(steps, 0).sum() + inside.sum())
        if found.first_offset is None:
            found.first_offset = max(int(firsts[0]), self._task.start_offset)
        found.last_offset = min(int(lasts[-1]), self._task.end_offset - 1)

    def _run(self, run: RecordRun) -> None:
        spans = run.spans
        previous = np.concatenate([[0], spans.end[:-1]])
        begins = np.flatnonzero(np.diff(spans.batch, prepend=-1))
        previous[begins] = run.starts[spans.batch[begins]]
        sizes = spans.end - previous
        is_wanted = self._is_wanted(spans)
        if not is_wanted.all():
            spans = RecordSpans(*(column[is_wanted] for column in spans))
            sizes = sizes[is_wanted]
        if not len(sizes):
            return
        self._batches(run, spans)
        self._records(run.buffer, spans, sizes)

    def _is_wanted(self, spans: RecordSpans) -> Column:
        task, aim = self._task, self._aim
        is_wanted: Column = (spans.offset >= task.start_offset) & (spans.offset < task.end_offset)
        if aim.start_timestamp_ms is not None:
            is_wanted &= spans.timestamp >= aim.start_timestamp_ms
        if aim.end_timestamp_ms is not None:
            is_wanted &= spans.timestamp < aim.end_timestamp_ms
        return is_wanted

    def _batches(self, run: RecordRun, spans: RecordSpans) -> None:
        """Take note of the batches of which some record is wanted."""
        found, table = self.found, run.table
        counts = np.bincount(spans.batch, minlength=len(table))
        is_used = counts > 0
        sizes = table["size_bytes"][is_used].astype(np.int64)
        found.size_bytes += int(sizes.sum())
        found.batch_bytes.add(sizes)
        found.batch_records.add(counts[is_used])
        codecs = table["attributes"] & CODEC_MASK
        stored = (table["size_bytes"].astype(np.int64) - HEADER_BYTES) * is_used
        raw = (run.ends - run.starts) * is_used
        for codec in np.unique(codecs[is_used]).tolist():
            here = codecs == codec
            use = CodecUse(
                int((is_used & here).sum()),
                int(counts[here].sum()),
                int(stored[here].sum()),
                int(raw[here].sum()),
            )
            found.see_codec(Codec(codec), use)

    def _records(self, buffer: Column, spans: RecordSpans, sizes: Column) -> None:
        found = self.found
        found.records += len(sizes)
        found.record_bytes.add(sizes)
        found.null_values += int((spans.value_end == NULL_END).sum())
        self._keys(buffer, spans)
        is_timed = (spans.timestamp >= 0) & (spans.timestamp <= TIMESTAMP_MAX_MS)
        timestamps = spans.timestamp
        if not is_timed.all():
            found.untimed += int((~is_timed).sum())
            timestamps, sizes = timestamps[is_timed], sizes[is_timed]
        if len(timestamps):
            found.see_times(int(timestamps.min()), int(timestamps.max()))
            found.rates.add(timestamps, sizes)
            found.lateness.add(timestamps)

    def _keys(self, buffer: Column, spans: RecordSpans) -> None:
        starts, ends = spans.key_start, spans.key_end
        has_key = ends != NULL_END
        if not has_key.all():
            self.found.null_keys += int((~has_key).sum())
            starts, ends = starts[has_key], ends[has_key]
        if not len(starts):
            return

        def name_of(row: int) -> bytes:
            start = int(starts[row])
            return buffer[start : min(int(ends[row]), start + KEY_BYTES_SHOWN)].tobytes()

        hashes = hash_spans(buffer, starts, ends)
        self.found.keys.add(hashes)
        self.found.top_keys.add(hashes, name_of)
