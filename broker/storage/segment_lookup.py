"""SegmentLookup: where in a segment an offset or a timestamp is. Indexes are hints.

What this process put into an index itself is trusted. An entry that came from a disk is compared
with the log before its first use:

- offset index: from the entry before it (or the segment's start) one must come, batch by batch,
  to exactly its position, and the batch there must begin after the entry before, and not after
  its own offset;
- time index: the batch that holds its offset must have its timestamp as the largest; and a search
  starts at the entry *before* the one found, so that it takes two wrong ones to mislead it.

What does not hold has both indexes built anew from the log, and is looked up again. So no flipped
bit in an index changes an answer; it costs time, once.

Wounds that are known are stepped over.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import structlog

from broker.steps import SLICE_MESSAGES, Steps
from broker.storage.damage import Damage
from broker.storage.entry_walk import EntryHeader, pass_over
from broker.storage.file_records import FileRecords
from broker.storage.index_builder import IndexBuilder
from broker.storage.index_cache import IndexCache, IndexEntries
from broker.storage.offset_index import OffsetIndex
from broker.storage.offset_metadata import OffsetPosition
from broker.storage.segment_recovery import SegmentWalk, rebuild_indexes
from broker.storage.time_index import TimeIndex
from broker.storage.timestamp_search import first_at_or_after
from protocol import record_batch
from protocol.errors import BatchCorruptError, CorruptMessageError
from protocol.identifiers import NO_LEADER_EPOCH, NO_TIMESTAMP

_log = structlog.get_logger(__name__)

ANCHOR_WINDOW_BYTES = 64 * 1024
"""Of a batch that is looked at alone."""


class TimestampOffset(NamedTuple):
    """A timestamp in ms and the offset it belongs to."""

    timestamp: int
    offset: int


class FoundRecord(NamedTuple):
    """What a look-up by time has found, and on what that rests."""

    record: TimestampOffset
    batch: OffsetPosition
    start_position: int
    """No batch before this one was looked at: an index told that they are too early."""


class Tail(NamedTuple):
    """The end of a segment: what appends go on from."""

    next_offset: int
    """After the last batch; the base offset if there is none."""
    largest: TimestampOffset
    """The largest timestamp of the whole segment; -1 if there is none."""
    unindexed_bytes: int
    """From the batch of the last index entry to the end."""
    leader_epoch: int
    """Of the last batch; -1 if there is none, or it has none."""


class SegmentLookup:
    """Answers for one segment; rebuilds its indexes when they turn out wrong."""

    __slots__ = (
        "_cache",
        "base_offset",
        "index_interval_bytes",
        "limit_offset",
        "offset_index",
        "records",
        "time_index",
        "wounds",
    )

    def __init__(
        self,
        records: FileRecords,
        offset_index: OffsetIndex,
        time_index: TimeIndex,
        cache: IndexCache,
        index_interval_bytes: int,
    ) -> None:
        self.records, self._cache = records, cache
        self.offset_index, self.time_index = offset_index, time_index
        self.base_offset = offset_index.base_offset
        self.index_interval_bytes = index_interval_bytes
        self.wounds: tuple[Damage, ...] = ()
        """Those of this segment that are known, in the order of the file."""
        self.limit_offset: int | None = None
        """No batch reaches it, as far as the caller knows: the next segment's base offset."""

    # --- offsets ------------------------------------------------------------------------------

    def translate_offset(self, offset: int, from_position: int) -> OffsetPosition | None:
        """Return the first batch whose last offset is at or above `offset` (R21).

        Raises:
            BatchCorruptError, BatchTruncatedError: the log is damaged on the way there.
        """
        for wound in self.wounds:
            if offset >= wound.next_offset:
                from_position = max(from_position, wound.end_position)
        entries = self.offset_index.active_entries
        if entries is not None:
            number = bisect_right(entries.keys, offset - self.base_offset) - 1
        if entries is not None and number >= entries.disk_entries:  # the usual case, made short
            position = entries.values[number]
        else:
            position, _ = self._floor_position(offset)
        return self.records.search_for(offset, max(position, from_position))

    def _floor_position(self, offset: int) -> tuple[int, int]:
        """Return where to start to search for an offset, and the number of the index entry.

        Number -1 is the start of the segment.
        """
        entries = self._offset_entries()
        relative = offset - self.base_offset
        number = bisect_right(entries.keys, relative) - 1
        if number >= 0 and not self._is_offset_entry_right(entries, number):
            self.rebuild_indexes("an entry of the offset index does not fit the log")
            entries = self.offset_index.load()
            number = bisect_right(entries.keys, relative) - 1
            if number >= 0 and not self._is_offset_entry_right(entries, number):
                number = -1  # this disk does not keep what is written: do without
        return (entries.values[number], number) if number >= 0 else (0, -1)

    def _offset_entries(self) -> IndexEntries:
        index = self.offset_index
        entries = index.load()
        if index.needs_rebuild and not entries.is_whole:
            self.rebuild_indexes("the offset index is missing or not whole")
            entries = index.load()
        return entries

    def _is_offset_entry_right(self, entries: IndexEntries, number: int) -> bool:
        if not entries.is_trusted(number):
            if not self._fits_log(entries, number):
                return False
            entries.set_checked(number)
        return True

    def _fits_log(self, entries: IndexEntries, number: int) -> bool:
        """Compare an entry with the log: is its position that of the right batch?"""
        keys, values = entries.keys, entries.values
        relative, position = keys[number], values[number]
        before, start = (keys[number - 1], values[number - 1]) if number else (-1, 0)
        if not (before < relative and 0 <= start < position < self.records.size_bytes):
            return False
        records = self.records
        at = pass_over(
            lambda size, at: records.read_bytes(at, size), start, position, records.size_bytes
        )
        if at >= 0:
            if at != position:
                return False
            try:
                _, header = next(records.batches(position))
                return before < header.base_offset - self.base_offset <= relative
            except (BatchCorruptError, StopIteration):
                pass
        # The entry before it is wrong, or the log is damaged between them.
        return self._is_sound(position, before, relative)

    def _is_sound(self, position: int, before: int, relative: int) -> bool:
        """Whether a batch with a right CRC lies there, of offsets that fit the entry."""
        try:
            header = self.walk(ANCHOR_WINDOW_BYTES).check(position)
        except CorruptMessageError:
            return False
        return before < header.base_offset - self.base_offset <= relative

    def anchor(self, position: int) -> tuple[int, int]:
        """Return where a check may begin that has to cover the batch at `position`, and the offset
        that is expected there: at an index entry that fits its batch, or at the start.
        """
        entries = self._offset_entries()
        base_offset, walk = self.base_offset, self.walk(ANCHOR_WINDOW_BYTES)
        for number in range(bisect_right(entries.values, position) - 1, -1, -1):
            start = entries.values[number]
            before = entries.keys[number - 1] if number else -1
            if not 0 < start <= position:
                continue
            try:
                header = walk.check(start)
            except CorruptMessageError:
                continue
            last = header.last_offset - base_offset
            if before < header.base_offset - base_offset <= last <= entries.keys[number]:
                return start, header.base_offset
        return 0, self.base_offset

    # --- walking ------------------------------------------------------------------------------

    def walk(self, window_bytes: int | None = None) -> SegmentWalk:
        """Return a walk over all that is there now."""
        return SegmentWalk(
            self.records, self.base_offset,
            limit_offset=self.limit_offset, window_bytes=window_bytes,
        )  # fmt: skip

    def headers(self, position: int) -> Iterator[tuple[int, EntryHeader]]:
        """Yield every batch from `position` to where the segment ends at the first step.

        Known wounds are stepped over.

        Raises:
            BatchCorruptError: at what is no batch, or reaches beyond the end.
        """
        end = self.records.size_bytes  # appends may go on between two steps
        while True:
            wound = next((each for each in self.wounds if each.end_position > position), None)
            stop = end if wound is None else wound.position
            is_wounded = wound is not None and position == stop
            for at, header in () if is_wounded else self.records.batches(position):
                yield at, header
                position = at + header.size_bytes
                if position >= stop and wound is not None:
                    break
            if position < stop:
                raise BatchCorruptError(position, f"no batch is here, in {self.records.path}")
            if wound is None:
                return
            position = wound.end_position

    def tail(self) -> Tail:
        """Find where the segment ends, by a scan from the last index entry on (R20, R24).

        Raises:
            BatchCorruptError: the log is damaged there.
        """
        largest = self.last_time_entry()
        tail = self._scan_tail(largest)
        fault = ""
        if tail.largest.timestamp > largest.timestamp and not self.time_index.is_active:
            fault = "the time index has lost its end"  # what seals it enters the largest
        elif self.offset_index.last_offset > max(tail.next_offset - 1, self.base_offset):
            fault = "the offset index ends behind the log"
        if fault:
            self.rebuild_indexes(fault)
            tail = self._scan_tail(self.last_time_entry())
        return tail

    def _scan_tail(self, largest: TimestampOffset) -> Tail:
        start, _ = self._floor_position(self.base_offset + 2**31)
        next_offset, leader_epoch = self.base_offset, int(NO_LEADER_EPOCH)
        for _, header in self.headers(start):
            next_offset, leader_epoch = header.next_offset, header.leader_epoch
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, next_offset - 1)
        return Tail(next_offset, largest, self.records.size_bytes - start, leader_epoch)

    def next_offset(self) -> int:
        """Return the offset after the last batch (R24), by the offset index alone; as `tail`."""
        return self._scan_tail(TimestampOffset(NO_TIMESTAMP, self.base_offset)).next_offset

    # --- timestamps ---------------------------------------------------------------------------

    def last_time_entry(self) -> TimestampOffset:
        """Return the time index's last entry; (-1, base offset) if there is none.

        Raises:
            BatchCorruptError: the log is damaged where it would have to be compared with it.
        """
        entries = self._time_entries()
        if not self._is_time_entry_right(entries, len(entries.keys) - 1):
            self._rebuilt_time_entries()
        return TimestampOffset(*self.time_index.last_entry)

    def timestamp_steps(self, timestamp_ms: int, from_offset: int) -> Steps[FoundRecord | None]:
        """Return the first record, in log order, that is late enough (R33); None if none is.

        Indexes are used in the first step only; what is appended after it is not looked at.
        Errors as `headers`, or those of decompression; StorageError if the file is closed between
        two steps.
        """
        start_offset = max(self._offset_before(timestamp_ms), from_offset)
        start, _ = self._floor_position(start_offset)
        for count, (at, header) in enumerate(self.headers(start), 1):
            if header.max_timestamp < timestamp_ms or header.last_offset < from_offset:
                if not count % SLICE_MESSAGES:
                    yield None
                continue
            data = self.records.read_exactly(at, header.size_bytes)
            found = yield from first_at_or_after(data, header, timestamp_ms, from_offset)
            if found is not None:
                batch = OffsetPosition(header.base_offset, at, header.size_bytes)
                return FoundRecord(TimestampOffset(*found), batch, start)
            yield None  # a batch whose header promises more than it holds
        return None

    def _offset_before(self, timestamp_ms: int) -> int:
        """Return an offset up to which every record is too early.

        An entry at `timestamp_ms` itself is not used: where several messages with one time were
        appended at once, Kafka has entered the last of them.
        """
        entries = self._time_entries()
        number = bisect_left(entries.keys, timestamp_ms) - 1
        if number >= 0 and not self._are_time_entries_right(entries, number):
            entries = self._rebuilt_time_entries()
            number = bisect_left(entries.keys, timestamp_ms) - 1
            if number >= 0 and not self._are_time_entries_right(entries, number):
                return self.base_offset
        if number >= 0 and number < entries.disk_entries:
            number -= 1
        return self.base_offset + entries.values[number] if number >= 0 else self.base_offset

    def _are_time_entries_right(self, entries: IndexEntries, number: int) -> bool:
        """Whether an entry and the one before it are right."""
        return all(self._is_time_entry_right(entries, each) for each in (number - 1, number))

    def _time_entries(self) -> IndexEntries:
        index = self.time_index
        entries = index.load()
        if index.needs_rebuild and not entries.is_whole:
            return self._rebuilt_time_entries()
        return entries

    def _rebuilt_time_entries(self) -> IndexEntries:
        self.rebuild_indexes("the time index does not fit the log")
        return self.time_index.load()

    def _is_time_entry_right(self, entries: IndexEntries, number: int) -> bool:
        """Compare an entry with its neighbours and with the log; there is none below 0."""
        if number < 0 or entries.is_trusted(number):
            return True
        keys, values = entries.keys, entries.values
        for left, right in ((number - 1, number), (number, number + 1)):
            in_range = left >= 0 and right < len(keys)
            if in_range and not (keys[left] < keys[right] and values[left] <= values[right]):
                return False
        offset = self.base_offset + values[number]
        if values[number] < 0:
            return False
        found = self.translate_offset(offset, 0)
        if found is None:
            return False
        header = next((header for _, header in self.headers(found.position)), None)
        if header is None or header.max_timestamp != keys[number]:
            return False
        if header.magic == record_batch.MAGIC and header.base_offset > offset:
            return False
        entries.set_checked(number)
        return True

    # --- rebuilding ---------------------------------------------------------------------------

    def rebuild_indexes(self, reason: str) -> int:
        """Build both indexes from the log; return the bytes since the last index entry.

        Counted in the cache's `index_rebuilds`.
        """
        offset_index, time_index = self.offset_index, self.time_index
        _log.warning("rebuilding indexes", path=str(self.records.path), reason=reason)
        was_active = offset_index.is_active
        builder = IndexBuilder(offset_index, time_index, self.index_interval_bytes)
        unindexed_bytes = rebuild_indexes(self.walk(), self.records, builder, self.wounds)
        if not was_active:
            offset_index.seal()
            time_index.seal()
        self._cache.index_rebuilds += 1
        return unindexed_bytes
