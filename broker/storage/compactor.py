"""Compactor: cleans one log, in a process of its own: reads its segments, writes `.cleaned` ones.

One pass (as Kafka's Cleaner): the last offset of each key in the dirty part is noted, as far as the
offset map has room; then every segment below that point is filtered, from the first one on, groups
of small ones into one. Each group is reported when its files are durable; to put them in the place
of the old ones is the broker's part (`segment_replacement`). Where the map was too small, what is
left is for another pass.

Nothing that the broker has open is written. Damage anywhere ends the pass: the log stays as it is.
Retention goes on meanwhile: the oldest segments may be gone when their turn comes; they are left
out.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import dropwhile
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from broker.clock import Clock
from broker.storage.batch_filter import (
    BatchFilter,
    FilterCounts,
    FilterRules,
    LastRecord,
    key_slices,
)
from broker.storage.cleaned_segment import CleanedSegment
from broker.storage.compaction import CompactionSegment, SegmentSizes, group_segments
from broker.storage.disk import Disk
from broker.storage.entry_walk import EntryHeader
from broker.storage.offset_map import OffsetMap
from broker.storage.segment_scan import ScannedBatch, scan_segment
from protocol.errors import (
    CorruptMessageError,
    MessageTooLargeError,
    StoredFormatError,
    TidelogError,
    UnsupportedCompressionError,
)
from protocol.record_batch_header import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader
from protocol.stored import transaction_index
from protocol.stored.cleaned_transactions import CleanedTransactions
from protocol.stored.file_names import (
    log_file_name,
    offset_index_file_name,
    time_index_file_name,
    transaction_index_file_name,
)
from protocol.stored.transaction_index import AbortedTransaction

SLEEP_S_MAX: Final = 0.1
"""So often a throttled pass looks whether it should stop."""
TRANSACTION_FLAGS: Final = CONTROL_FLAG | TRANSACTIONAL_FLAG
S = TypeVar("S", CompactionSegment, SegmentSizes)
UNSOUND: Final = (CorruptMessageError, MessageTooLargeError, UnsupportedCompressionError)


class CleaningJob(msgspec.Struct, frozen=True, kw_only=True):
    """One pass over one log; everything that it must know, picklable."""

    directory: str
    """The partition's."""
    segments: tuple[CompactionSegment, ...]
    """All below the first uncleanable offset, oldest first."""
    later_base_offsets: tuple[int, ...]
    """Of the segments behind them: a transaction may end there."""
    first_dirty_offset: int
    first_uncleanable_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    last_records: dict[int, LastRecord]
    dedupe_buffer_bytes: int
    io_bytes_per_second: int = 0
    """Read and written together; 0: as fast as it goes."""
    free_bytes_min: int = 0
    """What the file system must have left after a group is written."""


class CleaningStats(msgspec.Struct):
    """What a pass has done."""

    bytes_read: int = 0
    bytes_written: int = 0
    map_bytes: int = 0
    map_keys: int = 0
    batches: int = 0
    counts: FilterCounts = msgspec.field(default_factory=FilterCounts)


class CleanedGroup(msgspec.Struct, frozen=True):
    """A segment whose `.cleaned` files are durable, and what it is made from."""

    old_base_offsets: tuple[int, ...]
    """The first of them is the new one's too."""
    old_bytes: int
    new_bytes: int


class CleaningResult(msgspec.Struct, frozen=True):
    """How a pass has ended."""

    cleaned_offset: int
    """Everything below is clean now."""
    groups: tuple[CleanedGroup, ...]
    stats: CleaningStats


class LogUncleanableError(TidelogError):
    """A log cannot be cleaned as it is; nothing was changed. Say so, and try again later."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(path, position, reason)
        self.path, self.position, self.reason = path, position, reason

    def __str__(self) -> str:
        return f"{self.path}, byte {self.position}: {self.reason}"


class CleaningStoppedError(TidelogError):
    """The pass was told to stop; what it had not reported is as if it had not been."""


def clean_log(
    job: CleaningJob,
    disk: Disk,
    clock: Clock,
    *,
    report: Callable[[CleanedGroup], object] = lambda group: None,
    should_stop: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], object] = time.sleep,
) -> CleaningResult:
    """Clean a log once; `report` is told of each group as soon as it can be put in place.

    Raises:
        LogUncleanableError: something in it is not sound, or there is no room for the new files.
        CleaningStoppedError: `should_stop` said so.
        FileNotFoundError: the log was deleted meanwhile, or retention took a segment just when its
            turn came: begin anew.
        OSError: the disk refused.
    """
    return _Pass(job, disk, clock, should_stop, sleep).run(report)


class _Pass:
    """One pass: what it has read and written so far."""

    def __init__(
        self,
        job: CleaningJob,
        disk: Disk,
        clock: Clock,
        should_stop: Callable[[], bool],
        sleep: Callable[[float], object],
    ) -> None:
        self.job, self.disk, self.clock = job, disk, clock
        self.directory = Path(job.directory)
        self.should_stop, self.sleep = should_stop, sleep
        self.stats = CleaningStats()
        self._started_s = clock.monotonic()

    def run(self, report: Callable[[CleanedGroup], object]) -> CleaningResult:
        job = self.job
        self._check_there()
        span = job.first_uncleanable_offset - job.first_dirty_offset
        offsets = OffsetMap(job.dedupe_buffer_bytes, keys_expected=span)
        aborted = self._aborted_transactions()
        latest_offset = self._fill(offsets, aborted)
        self.stats.map_bytes, self.stats.map_keys = offsets.size_bytes, offsets.keys
        transactions = CleanedTransactions(aborted)
        rules = FilterRules(
            job.now_ms, job.delete_retention_ms, job.first_uncleanable_offset, job.last_records
        )
        batch_filter = BatchFilter(offsets, latest_offset, transactions, rules)
        tombstones_from_ms = self._legacy_tombstones_from_ms()
        groups: list[CleanedGroup] = []
        for planned in self._groups(latest_offset + 1):
            group = self._there(planned)
            if group:
                cleaned = self._clean_group(group, batch_filter, transactions, tombstones_from_ms)
                groups.append(cleaned)
                report(cleaned)
        self.stats.counts = batch_filter.counts
        return CleaningResult(latest_offset + 1, tuple(groups), self.stats)

    # --- the map ------------------------------------------------------------------------------

    def _fill(self, offsets: OffsetMap, aborted: list[AbortedTransaction]) -> int:
        """Note the keys of the dirty part; return up to which offset all of them are known."""
        latest_offset = self.job.first_dirty_offset - 1
        transactions = CleanedTransactions(aborted)
        put = offsets.put
        for segment in self._there(self.job.segments):
            if segment.next_base_offset <= self.job.first_dirty_offset:
                continue
            position = 0
            try:
                for data, index, header, position in self._scan(segment):  # noqa: B007
                    if header.last_offset <= latest_offset:
                        continue
                    if not _is_dropped_whole(header, transactions):
                        base_offset, records = key_slices(data, index, header)
                        for _, _, _, delta, key, _ in records:
                            offset = base_offset + delta
                            if key is None or offset <= latest_offset:
                                continue
                            if not put(key, offset):
                                return latest_offset
                            latest_offset = offset
                    latest_offset = header.last_offset
            except UNSOUND as error:
                raise self._uncleanable(segment, position, error) from error
            latest_offset = segment.next_base_offset - 1
        return latest_offset

    def _aborted_transactions(self) -> list[AbortedTransaction]:
        """Return every aborted transaction of the log that begins below what is left alone."""
        bases = [each.base_offset for each in self.job.segments]
        found: list[AbortedTransaction] = []
        for base_offset in (*bases, *self.job.later_base_offsets):
            path = self.directory / transaction_index_file_name(base_offset)
            if not self.disk.exists(path):
                continue
            data = self.disk.read_file(path)
            whole = len(data) - len(data) % transaction_index.ENTRY_BYTES  # one is being written
            try:
                found += transaction_index.decode(data[:whole])
            except StoredFormatError as error:
                raise LogUncleanableError(str(path), 0, str(error)) from error
        return [each for each in found if each.first_offset < self.job.first_uncleanable_offset]

    # --- the segments -------------------------------------------------------------------------

    def _groups(self, end_offset: int) -> list[tuple[SegmentSizes, ...]]:
        sizes = [
            SegmentSizes(
                each.base_offset,
                each.next_base_offset,
                each.size_bytes,
                self._size(offset_index_file_name(each.base_offset)),
                self._size(time_index_file_name(each.base_offset)),
            )
            for each in self._there(self.job.segments)
            if each.base_offset < end_offset
        ]
        return group_segments(
            sizes,
            segment_bytes=self.job.segment_bytes,
            segment_index_bytes=self.job.segment_index_bytes,
        )

    def _size(self, name: str) -> int:
        path = self.directory / name
        return self.disk.file_size(path) if self.disk.exists(path) else 0

    def _legacy_tombstones_from_ms(self) -> int:
        """Return how old a segment of old formats may be whose tombstones stay."""
        clean = [
            each
            for each in self.job.segments
            if each.next_base_offset <= self.job.first_dirty_offset
        ]
        if not clean or not self._there(clean):
            return 0
        modified_at_ms = self.disk.modification_time_ms(self._path(clean[-1]))
        return modified_at_ms - self.job.delete_retention_ms

    def _clean_group(
        self,
        group: tuple[SegmentSizes, ...],
        batch_filter: BatchFilter,
        transactions: CleanedTransactions,
        tombstones_from_ms: int,
    ) -> CleanedGroup:
        old_bytes = sum(each.log_bytes for each in group)
        free_bytes = self.disk.free_bytes(self.directory)
        if free_bytes - old_bytes < self.job.free_bytes_min:
            reason = f"{free_bytes} bytes are free, too few for {old_bytes} more"
            raise LogUncleanableError(str(self.directory), 0, reason)
        bases = {each.base_offset for each in group}
        transactions.kept_aborted = []
        cleaned = CleanedSegment(
            self.disk, self.directory, group[0].base_offset, self.job.index_interval_bytes,
            self._note_written,
        )  # fmt: skip
        try:
            for segment in self.job.segments:
                if segment.base_offset in bases:
                    modified_at_ms = self.disk.modification_time_ms(self._path(segment))
                    keeps = modified_at_ms > tombstones_from_ms
                    self._clean_into(cleaned, segment, batch_filter, keeps)
            size = cleaned.finish(transactions.kept_aborted, modified_at_ms)
        except BaseException:
            cleaned.abandon()
            raise
        return CleanedGroup(tuple(each.base_offset for each in group), old_bytes, size)

    def _clean_into(
        self,
        cleaned: CleanedSegment,
        segment: CompactionSegment,
        batch_filter: BatchFilter,
        keeps_legacy_tombstones: bool,
    ) -> None:
        position = 0
        try:
            for data, index, header, position in self._scan(segment):  # noqa: B007
                self.stats.batches += 1
                kept = batch_filter.kept(
                    data, index, header, keeps_legacy_tombstones=keeps_legacy_tombstones
                )
                if kept is not None:
                    cleaned.append(*kept)
        except UNSOUND as error:
            raise self._uncleanable(segment, position, error) from error

    # --- reading and waiting ------------------------------------------------------------------

    def _there(self, segments: Iterable[S]) -> tuple[S, ...]:
        """Return the segments without the oldest ones, as far as retention has taken them.

        Their keys need not be known: records that these have outdated are gone with them.
        """
        return tuple(dropwhile(lambda each: not self.disk.exists(self._path(each)), segments))

    def _check_there(self) -> None:
        if not self._there(self.job.segments):
            raise FileNotFoundError(errno.ENOENT, "no segment is left", self.job.directory)

    def _path(self, segment: CompactionSegment | SegmentSizes) -> Path:
        return self.directory / log_file_name(segment.base_offset)

    def _scan(self, segment: CompactionSegment) -> Iterator[ScannedBatch]:
        file = self.disk.open(self._path(segment), read_only=True)
        try:
            yield from scan_segment(
                file, segment.size_bytes, segment.base_offset, segment.next_base_offset,
                self._note_read,
            )  # fmt: skip
        except CorruptMessageError as error:
            raise self._uncleanable(segment, error.position, error) from error
        finally:
            file.close()

    def _uncleanable(
        self, segment: CompactionSegment, position: int, error: TidelogError
    ) -> LogUncleanableError:
        reason = error.reason if isinstance(error, CorruptMessageError) else str(error)
        return LogUncleanableError(str(self._path(segment)), position, reason)

    def _note_read(self, size: int) -> None:
        self.stats.bytes_read += size
        self._pace()

    def _note_written(self, size: int) -> None:
        self.stats.bytes_written += size
        self._pace()

    def _pace(self) -> None:
        """Wait until as many bytes a second were moved as may be."""
        while True:
            if self.should_stop():
                raise CleaningStoppedError("the cleaning was told to stop")
            if not self.job.io_bytes_per_second:
                return
            moved = self.stats.bytes_read + self.stats.bytes_written
            due_s = self._started_s + moved / self.job.io_bytes_per_second
            ahead_s = due_s - self.clock.monotonic()
            if ahead_s <= 0:
                return
            self.sleep(min(ahead_s, SLEEP_S_MAX))


def _is_dropped_whole(header: EntryHeader, transactions: CleanedTransactions) -> bool:
    """Whether no key of a batch counts: it is a marker, or of an aborted transaction."""
    if not isinstance(header, BatchHeader) or not header.attributes & TRANSACTION_FLAGS:
        return False
    return header.is_control or (
        header.is_transactional
        and transactions.may_drop_batch(header.producer_id, header.last_offset)
    )
