"""LogTrimmer: takes bytes off a log: old segments at its start (R38, R39), a tail at its end.

A reader must never find a file cut below what it was promised, and a crash at any point must find
a log from which recovery makes the state before or after. The order of each change is part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import structlog

from broker.storage.deleted_segments import DeletedSegments, abandon_segment
from broker.storage.disk import TEMPORARY_SUFFIX, storage_errors, write_whole
from broker.storage.log_wounds import damage_cut, forget_damage
from broker.storage.retention import (
    DeletionReason,
    SegmentFacts,
    needs_time,
    verdicts,
)
from broker.storage.retention_explained import SegmentExplanation, explain
from protocol.errors import CorruptMessageError, OffsetOutOfRangeError, StorageError
from protocol.identifiers import NO_TIMESTAMP

if TYPE_CHECKING:
    from broker.storage.checkpoint import CheckpointTask
    from broker.storage.log_context import LogContext
    from broker.storage.partition_log import PartitionLog
    from broker.storage.segment import LogSegment
    from broker.storage.segments import Segments

_log = structlog.get_logger(__name__)

COPY_STEP_BYTES: Final = 1024 * 1024

SEGMENTS_MAX: Final = 1 << 31
"""More than a log can have."""


class LogTrimmer:
    """The removing side of a PartitionLog."""

    __slots__ = ("_context", "_log", "deleted")

    def __init__(self, log: PartitionLog, context: LogContext) -> None:
        self._log = log
        self._context = context
        self.deleted = DeletedSegments(context)

    @property
    def log(self) -> PartitionLog:
        """Whose side this is."""
        return self._log

    # --- the start ----------------------------------------------------------------------------

    def advance_log_start(self, offset: int) -> bool:
        """Move the log start forward; return whether it moved. Segments go with retention.

        Raises:
            OffsetOutOfRangeError: `offset` is above the high watermark.
        """
        log = self._log
        if offset > log.high_watermark:
            raise OffsetOutOfRangeError(offset, log.log_start_offset, log.high_watermark)
        if offset <= log.log_start_offset:
            return False
        log.log_start_offset = offset
        log.raise_durable_offset(offset)  # what is below the log start need not be kept
        log.upkeep.log_start_moved()
        self._context.touched[log] = None
        self._context.is_checkpoint_due = True
        return True

    def explain(self, now_ms: int) -> Iterator[SegmentExplanation]:
        """Say of one segment after the other why it is kept, or when it goes; changes nothing.

        Raises:
            StorageError: a timestamp cannot be read.
        """
        log = self._log
        return explain(
            self._facts(log.segments, now_ms, timed_from=0),
            log.config,
            size_bytes=log.size_bytes,
            log_start_offset=log.log_start_offset,
            high_watermark=log.high_watermark,
            durable_offset=log.durable_offset,
            now_ms=now_ms,
        )

    def _facts(
        self, segments: Segments, now_ms: int, *, timed_from: int | None
    ) -> Iterator[SegmentFacts]:
        """Yield what retention must know of one segment after the other, oldest first.

        Args:
            timed_from: Of sealed segments with no offset at or above it the timestamps, which cost
                reads, are not looked for; None: of none at all.
        """
        log = self._log
        ends = (*segments.base_offsets[1:], log.log_end_offset)
        for segment, end in zip(segments, ends, strict=True):
            largest, modified = int(NO_TIMESTAMP), int(NO_TIMESTAMP)
            if timed_from is not None and (end > timed_from or segment is log.active):
                largest, modified = _times(segment, now_ms)
            yield SegmentFacts(
                base_offset=segment.base_offset,
                next_base_offset=end,
                size_bytes=segment.size_bytes,
                largest_timestamp_ms=largest,
                modified_at_ms=modified,
                is_active=segment is log.active,
                is_being_cleaned=log.cleaning.is_replacing,
            )

    def _due(self, now_ms: int, limit: int) -> list[tuple[LogSegment, DeletionReason]]:
        """Return the oldest segments that are due, up to `limit`, and why (R38).

        Raises:
            StorageError: the oldest one's timestamp cannot be read.
        """
        log = self._log
        config, segments = log.config, log.segments
        if not config.cleanup_policy.deletes and not (
            len(segments) > 1 and segments.base_offsets[1] <= log.log_start_offset
        ):
            return []
        timed_from = log.log_start_offset if needs_time(config) else None
        found = verdicts(
            self._facts(segments, now_ms, timed_from=timed_from),
            config,
            size_bytes=log.size_bytes if config.retention_bytes >= 0 else 0,
            log_start_offset=log.log_start_offset,
            high_watermark=log.high_watermark,
            durable_offset=log.durable_offset,
            now_ms=now_ms,
        )
        due: list[tuple[LogSegment, DeletionReason]] = []
        try:
            for segment, verdict in zip(segments, found, strict=False):
                if verdict.deletion is None or len(due) == limit:
                    break
                due.append((segment, verdict.deletion))
        except StorageError:
            if not due:
                raise
        return due

    def delete_old_segments(self, now_ms: int, limit: int = SEGMENTS_MAX) -> int:
        """Remove the oldest segments that retention says are due; return how many (R38, R39).

        They leave the list, and the log start moves; their files are renamed once that is
        checkpointed, and unlinked after `file_delete_delay_ms` (`deleted`).

        Args:
            limit: No more than so many; each costs some tens of microseconds.

        Raises:
            StorageError: a timestamp cannot be read, or the active segment cannot be rolled.
        """
        log = self._log
        due = self._due(now_ms, limit)
        if not due:
            return 0
        if due[-1][0] is log.active:
            log.roll()
        log.segments = log.segments.without_oldest(len(due))
        first = log.segments.base_offsets[0]
        if first > log.log_start_offset:
            log.log_start_offset = first
            log.raise_durable_offset(first)
        log.upkeep.log_start_moved()
        for segment, _ in due:
            forget_damage(log, segment.base_offset)
            self.deleted.add(segment)
        _log.info(
            "segments deleted",
            partition=str(log.topic_partition),
            base_offset=due[0][0].base_offset,
            end_offset=first,
            segments=len(due),
            size_bytes=sum(segment.size_bytes for segment, _ in due),
            reasons=sorted({str(reason) for _, reason in due}),
        )
        self._context.deleting[self] = None  # renamed after the next regular checkpoint
        return len(due)

    def rename_deleted(self, checkpoint: CheckpointTask) -> bool:
        """Rename the oldest deleted segment, if it is below a log start that will outlive a crash.

        Args:
            checkpoint: It has run; if it could not be written, one segment goes all the same.
        """
        log = self._log
        delay_ms = log.config.file_delete_delay_ms
        if not checkpoint.is_written:
            return self.deleted.rename_oldest(delay_ms)
        return self.deleted.rename_below(checkpoint.log_start_of(log.topic_partition), delay_ms)

    # --- the end ------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Cut everything at or above `offset`; return the new log end offset.

        That is `offset`, or lower where a batch spans it: batches are not divided. In this order,
        the durable offset is lowered, durably; whole segments go, newest first, their renames are
        synced; the last one is cut and synced. A file is never cut below the high watermark in
        place, for somebody may be sending a mapping of it: there it is replaced by a shorter copy.

        Raises:
            OffsetOutOfRangeError: `offset` is below the log start.
            StorageError: the disk refused: the log has failed, a new start makes it whole.
        """
        log = self._log
        if offset < log.log_start_offset:
            raise OffsetOutOfRangeError(offset, log.log_start_offset, log.log_end_offset)
        if offset >= log.log_end_offset:
            return log.log_end_offset
        segment = log.segments.floor(offset)
        assert segment is not None, "the log start is in a segment"
        end, position = _cut_point(segment, offset)
        stored_end = segment.end_before(position)  # below `end` where the cleaner left a gap
        spans_start = end < log.log_start_offset
        if spans_start:
            end = log.log_start_offset
        try:
            if stored_end < log.durable_offset:
                log.lower_durable_offset(end if spans_start else stored_end)
            log.unflushed.offset_max = min(log.unflushed.offset_max, end)
            log.upkeep.cut_begins(end)
            if spans_start:
                segment = self._begun_anew(end)
            else:
                self._remove([each for each in log.segments if each.base_offset > offset])
                if end < log.high_watermark:
                    segment = self._replaced(segment, position)
                else:
                    segment.truncate_to(end)
                segment.records.flush()
                damage_cut(log, segment.base_offset, position)
                if stored_end < end:
                    segment = self._after_gap(segment, end)
                    log.lower_durable_offset(end)  # durably: what is missing there was cleaned
            log.upkeep.cut(end)
        except (OSError, StorageError) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            log.fail(cause if isinstance(cause, OSError) else OSError(str(error)))
            raise StorageError(f"{log.topic_partition} cannot be cut: {error}") from error
        self._take_over_end(segment, end)
        return end

    def _take_over_end(self, active: LogSegment, end: int) -> None:
        """Go on with what the cut has made: `active` is the last segment, and ends at `end`."""
        log = self._log
        log.active = active
        active.update_config(log.config)
        log.log_end_offset = end
        log.unflushed.recount(active)
        log.watermark.forget_metadata()
        log.reader.forget_end()
        if log.watermark.offset > end:
            log.watermark.move_to(end)
        log.watermark.update_last_stable()
        self._context.is_checkpoint_due = True
        log.unflushed.note()

    def _remove(self, gone: list[LogSegment]) -> None:
        """Take whole segments off the end, durably; newest first, so that no hole is left."""
        log = self._log
        if not gone:
            return
        log.segments = log.segments.without(*gone)
        for segment in reversed(gone):
            log.unflushed.remove_sealed(segment)
            forget_damage(log, segment.base_offset)
            self._context.deleting[self] = None
            self.deleted.add_renamed(segment, log.config.file_delete_delay_ms)
        self._context.disk.sync_directory(log.directory)

    def _begun_anew(self, offset: int) -> LogSegment:
        """Return an empty segment in the place of all others.

        For a log whose only batch that is left begins below the log start: it goes as a whole, and
        a file that ended below the log start would not say where the log ends.
        """
        log = self._log
        self._remove(list(log.segments))
        segment = self._context.open_segment(
            log.directory, offset, log.config, create=True, active=True
        )
        self._context.disk.sync_directory(log.directory)
        log.segments = log.segments.with_added(segment)
        return segment

    def _after_gap(self, segment: LogSegment, end: int) -> LogSegment:
        """Return an empty segment at `end`, behind one that ends below it: in a file that ended
        there, the offsets in between, which the cleaner has taken, would pass for lost ones."""
        log = self._log
        segment.seal()
        log.unflushed.add_sealed(segment)
        empty = self._context.open_segment(log.directory, end, log.config, create=True, active=True)
        self._context.disk.sync_directory(log.directory)
        log.segments = log.segments.with_added(empty)
        return empty

    def _replaced(self, segment: LogSegment, position: int) -> LogSegment:
        """Return a segment in the place of `segment` that holds its first bytes only.

        The old file lives on, without a name, as long as somebody has it mapped.
        """
        log, disk = self._log, self._context.disk
        path = segment.path
        copy_path = path.with_name(path.name + TEMPORARY_SUFFIX)  # not what a cleaner may write
        with storage_errors("write", copy_path):
            copy = disk.open(copy_path, create=True)
            try:
                copy.truncate(0)
                for start in range(0, position, COPY_STEP_BYTES):
                    size = min(COPY_STEP_BYTES, position - start)
                    write_whole(copy, [segment.records.read_exactly(start, size)], start)
                copy.sync()
            finally:
                copy.close()
        log.unflushed.remove_sealed(segment)
        abandon_segment(segment)
        with storage_errors("rename", copy_path):
            disk.rename(copy_path, path)
            disk.sync_directory(log.directory)
        shorter = self._context.open_segment(
            log.directory, segment.base_offset, log.config, active=True
        )
        shorter.rebuild_indexes()
        log.segments = log.segments.replaced([segment], [shorter])
        return shorter


def _cut_point(segment: LogSegment, offset: int) -> tuple[int, int]:
    """Return where a segment is to be cut for `offset`: the offset it ends with, and the byte."""
    for wound in segment.wounds:
        if wound.holds(offset):
            return wound.first_offset, wound.position
    found = segment.translate_offset(offset)
    if found is None:
        return offset, segment.size_bytes
    return min(offset, found.offset), found.position


def _times(segment: LogSegment, now_ms: int) -> tuple[int, int]:
    """Return largest timestamp and modification time; the latter only where it counts.

    Raises:
        StorageError: the segment cannot be read.
    """
    try:
        largest = segment.largest_timestamp()
    except CorruptMessageError:
        largest = NO_TIMESTAMP  # damaged: it ages by its file
    needs_file_time = largest == NO_TIMESTAMP or largest > now_ms
    return largest, segment.modification_time_ms() if needs_file_time else largest
