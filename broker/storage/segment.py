"""LogSegment: one `.log` file of a partition and its two indexes (R19 to R27).

The directory holds `<base offset>.log`, `.index`, `.timeindex` and, of other parts of the engine,
`.txnindex`. One segment of a log, the newest, is active: it is appended to and has its indexes in
memory. The file's bytes are `file_records`' business, finding something in it `segment_lookup`'s,
walking all of it `segment_recovery`'s.

Not thread-safe: the event loop owns it. Errors of the disk are StorageError, damage in the log is
BatchCorruptError or BatchTruncatedError with the position in this segment. An index never fails.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from broker.clock import Clock
from broker.storage.file_handles import FileHandles
from broker.storage.index_builder import IndexBuilder
from broker.storage.index_cache import IndexCache
from broker.storage.log_config import LogConfig
from broker.storage.segment_files import SegmentFiles
from broker.storage.segment_reading import ReadableSegment
from broker.storage.segment_recovery import Judge, SegmentRecovery, SegmentWalk, Visitor, recover
from protocol.errors import CorruptMessageError, IndexFullError
from protocol.identifiers import NO_TIMESTAMP, Buffer
from protocol.limits import INT64_MAX, SEGMENT_BYTES_MAX, SEGMENT_OFFSET_SPAN_MAX


class LogSegment(ReadableSegment):
    """A segment; `base_offset` is at or below the offset of its first record."""

    __slots__ = (
        "_bytes_since_index_entry", "_clock", "_first_batch_timestamp", "_index_interval_bytes",
        "_is_index_full", "_is_tail_known", "_jitter_share", "_largest_timestamp",
        "_offset_max", "_offset_of_largest_timestamp", "_roll_after_ms", "_segment_bytes_max",
        "created_at_ms",
        "tail_leader_epoch",
    )  # fmt: skip

    def __init__(
        self,
        files: SegmentFiles,
        config: LogConfig,
        clock: Clock,
        index_cache: IndexCache,
        jitter_share: float,
    ) -> None:
        """Not for callers: they use `open`."""
        super().__init__(files, index_cache, config.index_interval_bytes)
        self._clock = clock
        self._offset_max = min(self.base_offset + SEGMENT_OFFSET_SPAN_MAX, INT64_MAX)
        self._jitter_share = jitter_share
        self.created_at_ms: int = clock.now_ms()
        """When this process opened or made it, or last cut it down to nothing."""
        self._first_batch_timestamp: int | None = None
        self._bytes_since_index_entry = 0
        self._largest_timestamp: int = NO_TIMESTAMP
        self._offset_of_largest_timestamp = self.base_offset
        self._is_index_full = False
        self._is_tail_known = not self.size_bytes
        self.tail_leader_epoch: int | None = None
        """Of the last batch, when the end of the file was last read; None: it was not."""
        self.update_config(config)

    @classmethod
    def open(
        cls,
        handles: FileHandles,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        clock: Clock,
        *,
        create: bool = False,
        active: bool = False,
        suffix: str = "",
        index_cache: IndexCache | None = None,
        jitter: Callable[[], float] = random.random,
        sizes: Mapping[str, int] | None = None,
    ) -> LogSegment:
        """Open a segment, or with `create` make an empty one; an empty file of its name is used.

        The batches are not looked at: call `recover` after an unclean stop, `sanity_check` else.

        Args:
            active: It will be appended to: its indexes have their full size (R13).
            suffix: Of all its files' names, such as `.cleaned`.
            index_cache: Shared with the other segments; without it this one has its own.
            jitter: Gives a share of `segment_jitter_ms`, from 0 to below 1.
            sizes: Of the directory's files (`Disk.file_sizes`): opening a thousand sealed segments
                then touches none of them.

        Raises:
            StorageError: the `.log` is missing (without `create`) or cannot be opened.
        """
        cache = index_cache if index_cache is not None else IndexCache()
        files = SegmentFiles.open_files(
            handles, directory, base_offset, index_bytes_max=config.segment_index_bytes,
            index_cache=cache, create=create, active=active, suffix=suffix, sizes=sizes,
        )  # fmt: skip
        return cls(files, config, clock, cache, jitter())

    def update_config(self, config: LogConfig) -> None:
        """Take over changed settings: from the next append on."""
        self._segment_bytes_max = min(config.segment_bytes, SEGMENT_BYTES_MAX)
        jitter_ms = int(self._jitter_share * (config.segment_jitter_ms + 1))
        self._roll_after_ms = config.roll_ms - min(jitter_ms, config.roll_ms)
        self._index_interval_bytes = config.index_interval_bytes
        self._lookup.index_interval_bytes = config.index_interval_bytes

    # --- appending ----------------------------------------------------------------------------

    def append(
        self,
        last_offset: int,
        largest_timestamp: int,
        offset_of_largest_timestamp: int,
        buffers: Sequence[Buffer],
        size: int,
    ) -> int:
        """Write one or more whole batches at the end; return their position (R19).

        Not durable when this returns. All or nothing: after an error the segment is as before.

        Args:
            last_offset: Of the last batch; above every offset in the segment.
            largest_timestamp: Of all batches, in ms; -1 if there is none.
            offset_of_largest_timestamp: The last offset of the first batch that has it.
            size: Of the buffers together.

        Raises:
            StorageError: the disk refused.
            ValueError: the offset is too far from the base offset: roll first (R26).
        """
        if last_offset > self._offset_max:
            raise ValueError(f"offset {last_offset} is too far from {self.base_offset}: roll")
        if not self._is_tail_known:
            self._load_tail()
        position = self.records.append(buffers, size)
        if largest_timestamp > self._largest_timestamp:
            self._largest_timestamp = largest_timestamp
            self._offset_of_largest_timestamp = offset_of_largest_timestamp
        if not position:
            self._first_batch_timestamp = largest_timestamp
        if self._bytes_since_index_entry > self._index_interval_bytes:
            self._add_index_entries(last_offset, position)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += size
        self.size_bytes = position + size
        return position

    def _add_index_entries(self, last_offset: int, position: int) -> None:
        """Enter what was just appended; a full index is no reason to fail an append (B16)."""
        try:
            self.offset_index.append(last_offset, position)
            self.time_index.append(self._largest_timestamp, self._offset_of_largest_timestamp)
        except IndexFullError:
            pass  # the next append rolls; until then look-ups have further to scan
        except ValueError as error:
            self._lookup.rebuild_indexes(str(error))
        self._is_index_full = self.offset_index.is_full or self.time_index.is_full

    def _load_tail(self) -> int:
        """Read what appends go on from; return the next offset."""
        tail = self._lookup.tail()
        self._largest_timestamp, self._offset_of_largest_timestamp = tail.largest
        self._bytes_since_index_entry = tail.unindexed_bytes
        self._is_index_full = self.offset_index.is_full or self.time_index.is_full
        self._is_tail_known = True
        self.tail_leader_epoch = tail.leader_epoch
        return tail.next_offset

    def room_bytes(self) -> int:
        """Return how many bytes still fit in."""
        return self._segment_bytes_max - self.size_bytes

    def should_roll(self, size: int, last_offset: int, largest_timestamp: int, now_ms: int) -> bool:
        """Whether batches of these bytes belong into a new segment (R26).

        An empty segment rolls only for offsets that are out of reach: a new one would be as good.
        """
        if last_offset > self._offset_max:
            return True
        size_bytes = self.size_bytes
        if not size_bytes:
            return False
        if size_bytes > self._segment_bytes_max - size:
            return True
        first_timestamp = self._first_batch_timestamp
        if first_timestamp is None:
            first_timestamp = self.first_batch_timestamp()
        if first_timestamp >= 0 and largest_timestamp >= 0:
            age_ms = largest_timestamp - first_timestamp
        else:
            age_ms = now_ms - self.created_at_ms
        return age_ms > self._roll_after_ms or self._is_index_full

    # --- facts --------------------------------------------------------------------------------

    def first_batch_timestamp(self) -> int:
        """Return the largest timestamp of the first batch; -1 if there is none.

        Where that is damaged, of the first one behind it; -1 where that is not known yet.
        """
        if self._first_batch_timestamp is None:
            if not self.size_bytes:
                return NO_TIMESTAMP
            try:
                first = next(self._lookup.headers(0), None)
            except CorruptMessageError:
                first = None  # an append does not fail for it: `created_at_ms` tells the age
            self._first_batch_timestamp = NO_TIMESTAMP if first is None else first[1].max_timestamp
        return self._first_batch_timestamp

    def largest_timestamp(self) -> int:
        """Return the largest timestamp; without one above 0, the modification time (R20).

        Of a segment with a damaged end, the largest that its time index tells.
        """
        if not self._is_tail_known:
            try:
                self._load_tail()
            except CorruptMessageError:
                self._largest_timestamp = self._lookup.last_time_entry().timestamp
        largest = self._largest_timestamp
        return largest if largest > 0 else self.modification_time_ms()

    def next_offset(self) -> int:
        """Return the offset after the last batch, by a scan from the last index entry (R24).

        Raises:
            BatchCorruptError: the end of the log is damaged: recover the segment.
        """
        return self._load_tail()

    # --- recovery -----------------------------------------------------------------------------

    def rebuild_indexes(self) -> None:
        """Build both indexes from the batches' headers (R31, step 4)."""
        self._lookup.rebuild_indexes("asked for")

    def recover(
        self,
        visitor: Visitor | None = None,
        judge: Judge | None = None,
        *,
        limit_offset: int | None = None,
        promised_offset: int = 0,
    ) -> SegmentRecovery:
        """Check every batch and build the indexes anew (R23). Cuts nothing.

        Args:
            visitor: Is called with the position and the header of each sound batch, in order.
            judge: Tells damage from a torn tail; without it the first bad byte ends the segment.
            limit_offset, promised_offset: As for `SegmentWalk`.
        """
        was_active = self.offset_index.is_active
        builder = IndexBuilder(self.offset_index, self.time_index, self._index_interval_bytes)
        walk = SegmentWalk(
            self.records, self.base_offset,
            limit_offset=limit_offset, promised_offset=promised_offset,
        )  # fmt: skip
        found, self._bytes_since_index_entry = recover(walk, builder, visitor, judge)
        self.set_wounds(found.wounds, limit_offset)
        self._first_batch_timestamp = None
        self.check.unchecked = None
        self._largest_timestamp = builder.largest_timestamp
        self._offset_of_largest_timestamp = builder.offset_of_largest_timestamp
        self._is_index_full = self.offset_index.is_full or self.time_index.is_full
        self._is_tail_known = True
        if not was_active:
            self._seal_indexes()
        return found

    # --- changes ------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Cut at the first batch at or above `offset`; return the bytes cut (R25).

        Above the last offset it cuts nothing. The segment is active afterwards.

        Raises:
            StorageError: the disk refused.
            BatchCorruptError: the log is damaged on the way there.
        """
        if not self._is_tail_known:
            self._load_tail()
        found = self.translate_offset(offset)
        self.activate()
        self._bytes_since_index_entry = 0
        if found is None:
            return 0
        return self._cut(found.position)

    def truncate_to_position(self, position: int) -> int:
        """Cut where `recover` found the sound batches to end; return the bytes cut.

        Raises:
            StorageError: the disk refused.
        """
        was_active = self.offset_index.is_active
        self.activate()
        cut_bytes = self._cut(position)
        if not was_active:
            self._seal_indexes()
        return cut_bytes

    def _cut(self, position: int) -> int:
        """Cut log and indexes at a position where a batch starts, all before it being sound."""
        cut_bytes = self.records.truncate_to(position)
        self.size_bytes = position
        self.set_wounds(tuple(each for each in self.wounds if each.position < position), None)
        self.check.cut(position)
        self.offset_index.truncate_to_position(position)
        next_offset = self._lookup.next_offset()
        self.offset_index.truncate_to(next_offset)
        self.time_index.truncate_to(next_offset)
        self._load_tail()
        self._bytes_since_index_entry = 0
        if not position:
            self.created_at_ms = self._clock.now_ms()
            self._first_batch_timestamp = None
        return cut_bytes

    def seal(self) -> None:
        """End appending, at a roll (R27): last time index entry, indexes trimmed.

        Nothing is flushed: the `.log` stays pinned until its flush is over.
        """
        if not self._is_tail_known:
            self._load_tail()
        self._seal_indexes()
        self.records.seal()
        self.check.is_end_checked = True  # the next one begins where this process has ended it

    def _seal_indexes(self) -> None:
        time_index = self.time_index
        if time_index.is_active:
            if time_index.entries >= time_index.entries_max:  # today's setting is a smaller one
                time_index.resize(time_index.size_bytes_max + time_index.ENTRY_BYTES)
            offset = self._offset_of_largest_timestamp
            time_index.append(self._largest_timestamp, offset, last=True)
        self.offset_index.seal()
        self.time_index.seal()

    def close(self) -> None:
        """Flush, write the last time index entry, trim the indexes, close.

        Raises:
            OSError: the sync failed: the process must end.
            StorageError: the `.log` cannot be trimmed.
        """
        if self.time_index.is_active and self._is_tail_known:
            self._seal_indexes()
        self.offset_index.close()
        self.time_index.close()
        self.transaction_index.abandon()
        self.records.close()

    def __repr__(self) -> str:
        return f"LogSegment(base_offset={self.base_offset}, size_bytes={self.size_bytes})"
