"""LogReader: reads and look-ups over the segments of one log (R30, R33).

Every call takes one snapshot of segment list and offsets, and works on that.
"""

from __future__ import annotations

import enum
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.steps import Steps, run_to_end
from broker.storage.damage import Damage, DamageFoundError
from broker.storage.file_slice import FileSlice
from broker.storage.offset_metadata import FetchData, LogOffsetMetadata
from broker.storage.segment_check import BytesUncheckedError
from protocol.errors import CorruptMessageError, OffsetOutOfRangeError, StorageError

if TYPE_CHECKING:
    from broker.storage.partition_log import PartitionLog
    from broker.storage.segment import LogSegment
    from broker.storage.segments import Segments
    from protocol.stored.transaction_index import AbortedTransaction

SEGMENTS_PER_STEP: Final = 20
"""Of each, its largest timestamp may have to be read from its index."""


class ReadLimit(enum.Enum):
    """Up to where a read may go."""

    HIGH_WATERMARK = "high watermark"
    LAST_STABLE = "last stable offset"
    LOG_END = "log end offset"


class LogReader:
    """The reading side of a PartitionLog."""

    __slots__ = ("_log", "_read_up_to")

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._read_up_to: LogOffsetMetadata | None = None
        """Where the last read that met its limit ended: a reader that follows begins there next."""

    def read(
        self, offset: int, max_bytes: int, limit: ReadLimit, *, min_one: bool, at_once: bool
    ) -> FetchData:
        """Return slices from the batch that holds `offset` on, or from the next one there is.

        At the limit, or with `max_bytes` 0, the answer has no slices; at LEO and at the high
        watermark it still says where the offset lies.

        Args:
            max_bytes: Of all slices together; the last batch may be cut by it.
            min_one: The first batch comes whole, even if it is larger.
            at_once: Check in place what nobody has looked at yet.

        Raises:
            BytesUncheckedError: not `at_once`, and there is such: run its steps, then read again.
            ValueError: `max_bytes` is negative.
            OffsetOutOfRangeError: below the log start or above LEO.
            CorruptMessageError: the batch that holds `offset` is damaged.
            StorageError: the log is closed, or cannot be read.
        """
        log = self._log
        if max_bytes < 0:
            raise ValueError(f"max_bytes is {max_bytes}")
        log.check_open()
        log_end_offset = log.log_end_offset
        if not log.log_start_offset <= offset <= log_end_offset:
            raise OffsetOutOfRangeError(offset, log.log_start_offset, log_end_offset)
        end = self._end(limit)
        if offset >= end.message_offset:
            self._read_up_to = end
            return FetchData(self._metadata_at_end(offset, end), (), 0)
        if (following := self._read_on(offset, max_bytes, end)) is not None:
            return following
        while True:
            try:
                return self._read_segments(offset, max_bytes, end, min_one, at_once)
            except DamageFoundError as error:
                if not log.add_damage(error.damage):
                    raise

    def _read_on(self, offset: int, max_bytes: int, end: LogOffsetMetadata) -> FetchData | None:
        """Return all from `offset` on, if its place is known without looking for it.

        That is where a read ended before, and the begin of the active segment. What is neither in
        that segment, nor sound for sure, is looked for.
        """
        begin, active = self._read_up_to, self._log.active
        if begin is None or begin.message_offset != offset:
            begin = LogOffsetMetadata(offset, offset, 0)
        if (
            not begin.segment_base_offset == end.segment_base_offset == active.base_offset
            or not 0 < (size_bytes := end.position - begin.position) <= max_bytes
            or active.wounds
            or active.check.unchecked is not None
        ):
            return None
        self._read_up_to = end
        return FetchData(
            begin, (FileSlice(active.records, begin.position, size_bytes),), size_bytes
        )

    def forget_end(self) -> None:
        """Look the next offset up, whatever it is: the log was cut."""
        self._read_up_to = None

    def _read_segments(
        self, offset: int, max_bytes: int, end: LogOffsetMetadata, min_one: bool, at_once: bool
    ) -> FetchData:
        """Read on over segment borders, until `max_bytes`, the limit or damage."""
        segments = self._log.segments
        slices: list[FileSlice] = []
        size_bytes = 0
        found: LogOffsetMetadata | None = None  # so it stays where all up to `end` was compacted
        segment = segments.floor(offset)
        while segment is not None and segment.base_offset <= end.segment_base_offset:
            is_last = segment.base_offset == end.segment_base_offset
            max_position = end.position if is_last else segment.size_bytes
            from_offset = offset if found is None else segment.base_offset
            wound = None
            if segment.wounds:
                wound = self._wound_ahead(segment, from_offset, is_begin=not slices)
            if segment.check.unchecked is not None:
                self._set_limit(segment)
            try:
                part = segment.read(
                    from_offset,
                    max_bytes - size_bytes,
                    max_position if wound is None else min(max_position, wound.position),
                    min_one and not slices,
                    at_once,
                )
            except BytesUncheckedError as error:
                error.steps = partial(self._check_steps, segment, error)
                raise
            except CorruptMessageError as error:
                if wound is None or isinstance(error, DamageFoundError):
                    raise
                part = None  # the way to what follows leads into the wound
            if part is not None:
                metadata, piece = part
                found = metadata if found is None else found
                if piece is None:
                    if wound is not None and max_bytes and not slices:
                        raise CorruptMessageError(wound.position, str(wound))
                    break
                slices.append(piece)
                size_bytes += piece.size_bytes
                if size_bytes >= max_bytes or piece.position + piece.size_bytes < max_position:
                    break
            if wound is not None:  # what follows the sound part is not the next offset
                if not slices:
                    raise CorruptMessageError(wound.position, str(wound))
                break
            segment = self._following(segment, segments)
        return FetchData(end if found is None else found, tuple(slices), size_bytes)

    def _check_steps(self, segment: LogSegment, unchecked: BytesUncheckedError) -> Steps[None]:
        """Check what a read has asked for, and take note of damage; the next read tells of it.

        A segment that is deleted or replaced between two steps need not be checked any more.

        Raises:
            CorruptMessageError, StorageError: as `read`.
        """
        log = self._log
        try:
            yield from segment.check.steps(unchecked.offset, unchecked.found, unchecked.size_bytes)
        except DamageFoundError as error:
            if not log.add_damage(error.damage):
                raise
        except StorageError:
            if log.is_closed or log.segments.floor(segment.base_offset) is segment:
                raise

    def _following(self, segment: LogSegment, segments: Segments) -> LogSegment | None:
        """Return the next segment, if this one ends where that begins.

        Raises:
            DamageFoundError: offsets between them are missing, and nobody knew of it.
            CorruptMessageError: the end cannot be read.
        """
        following = segments.higher(segment.base_offset)
        if following is not None and not segment.check.is_end_checked:
            self._check_end(segment, following.base_offset)
        return following

    def _check_end(self, segment: LogSegment, next_base_offset: int) -> None:
        """Only the cleaner leaves gaps: else a file has lost its end. Errors as `_following`."""
        log = self._log
        try:
            end = segment.next_offset()
        except CorruptMessageError as error:
            segment.check.raise_damage(error)
        if segment.wounds:
            end = max(end, segment.wounds[-1].next_offset)
        is_cleaned = next_base_offset <= (log.cleaning.cleaned_offset or 0)
        if not (log.config.cleanup_policy.compacts or is_cleaned):
            missing = next_base_offset - max(end, log.log_start_offset)
            if missing > 0:
                size = segment.size_bytes
                fault = f"{missing} offsets are missing"
                raise DamageFoundError(
                    Damage(segment.base_offset, size, size, end, next_base_offset, fault)
                )
        segment.check.is_end_checked = True

    @staticmethod
    def _wound_ahead(segment: LogSegment, offset: int, *, is_begin: bool) -> Damage | None:
        """Return the first wound that a read from `offset` on would meet, if any.

        Raises:
            CorruptMessageError: the read begins (`is_begin`) inside it.
        """
        for wound in segment.wounds:
            if wound.holds(offset) and is_begin:
                raise CorruptMessageError(wound.position, str(wound))
            if offset < wound.next_offset:
                return wound
        return None

    def _set_limit(self, segment: LogSegment) -> None:
        """Tell a segment that is to be checked up to where its offsets may reach."""
        following = self._log.segments.higher(segment.base_offset)
        limit = self._log.log_end_offset if following is None else following.base_offset
        segment.set_wounds(segment.wounds, limit)

    def _end(self, limit: ReadLimit) -> LogOffsetMetadata:
        """Return where a read has to stop."""
        log = self._log
        if limit is ReadLimit.LOG_END:
            return log.end_metadata()
        if limit is ReadLimit.LAST_STABLE and log.last_stable_offset != log.high_watermark:
            return self.metadata(log.last_stable_offset)
        return log.watermark.metadata()

    def _metadata_at_end(self, offset: int, end: LogOffsetMetadata) -> LogOffsetMetadata:
        if offset == end.message_offset:
            return end
        if offset == self._log.log_end_offset:
            return self._log.end_metadata()
        return LogOffsetMetadata(offset)

    def metadata(self, offset: int) -> LogOffsetMetadata:
        """Return the offset with its place: of the first batch that reaches it (R35).

        Raises:
            OffsetOutOfRangeError: below the log start or above LEO.
            StorageError: the log is closed, or cannot be read.
        """
        log = self._log
        log.check_open()
        if offset == log.log_end_offset:
            return log.end_metadata()
        if not log.log_start_offset <= offset < log.log_end_offset:
            raise OffsetOutOfRangeError(offset, log.log_start_offset, log.log_end_offset)
        segment = log.segments.floor(offset)
        while segment is not None:
            found = segment.translate_offset(max(offset, segment.base_offset))
            if found is not None:
                return LogOffsetMetadata(offset, segment.base_offset, found.position)
            segment = log.segments.higher(segment.base_offset)
        return LogOffsetMetadata(offset, log.active.base_offset, log.active.size_bytes)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that a read must know.

        Those with records at or above `start` and below `end`, in the order of their markers: what
        a read up to the last stable offset carries, for its reader to leave their records out.

        Raises:
            StorageError: the log is closed, or cannot be read.
        """
        log = self._log
        log.check_open()
        found: list[AbortedTransaction] = []
        segment = log.segments.floor(start) if log.upkeep.has_transactions() else None
        while segment is not None:
            index = segment.transaction_index
            if not index.is_trusted:
                log.upkeep.trusted_index(segment)
            if index.size_bytes:
                collected, is_complete = index.collect(start, end)
                found += collected
                if is_complete:
                    break
            segment = log.segments.higher(segment.base_offset)
        return found

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Return (timestamp, offset) of the first record that is late enough (R33).

        First in log order, from the log start to the high watermark; None if there is none.

        Raises:
            CorruptMessageError: the log is damaged on the way there.
            StorageError: the log is closed, or cannot be read.
        """
        return run_to_end(self.timestamp_steps(timestamp_ms))

    def timestamp_steps(self, timestamp_ms: int) -> Steps[tuple[int, int] | None]:
        """As `offset_for_timestamp`, in steps; the first one takes the snapshot.

        A segment that is deleted between two steps is passed over: its records are gone.

        Raises:
            CorruptMessageError: the record may be in a wound: all before it are too early, and the
                first one behind it is late enough, or there is none.
        """
        log = self._log
        log.check_open()
        start, end = log.log_start_offset, log.high_watermark
        before: Damage | None = None  # a wound at the end of the segment before
        for count, segment in enumerate(log.segments.range(start, end), 1):
            if not count % SEGMENTS_PER_STEP:
                yield None
            log.check_open()
            base_offset = segment.base_offset
            is_there = log.segments.floor(base_offset) is segment
            if not is_there or not self._may_reach(segment, timestamp_ms):
                before = self._wound_at_end(segment, start)
                continue
            if segment.check.unchecked is not None:
                self._set_limit(segment)
            try:
                found = yield from self._found_in(segment, timestamp_ms, max(start, base_offset))
            except StorageError:
                if log.is_closed or log.segments.floor(base_offset) is segment:
                    raise
                continue
            if found is not None:
                timestamp, offset = found
                if before is not None and self.metadata(offset).position == 0:
                    break
                return (timestamp, offset) if offset < end else None
            before = self._wound_at_end(segment, start)
        if before is not None:
            raise CorruptMessageError(before.position, str(before))
        return None

    def _wound_at_end(self, segment: LogSegment, log_start_offset: int) -> Damage | None:
        """Return the wound that takes up the segment's end, if it may hide a record."""
        try:
            self._following(segment, self._log.segments)
        except DamageFoundError as error:
            self._log.add_damage(error.damage)
        except CorruptMessageError:
            pass  # whoever reads there is told
        if not segment.wounds:
            return None
        wound = segment.wounds[-1]
        is_at_end = wound.end_position >= segment.size_bytes
        hides = max(wound.first_offset, log_start_offset) < wound.next_offset
        return wound if is_at_end and hides else None

    def _found_in(
        self, segment: LogSegment, timestamp_ms: int, from_offset: int
    ) -> Steps[tuple[int, int] | None]:
        """Return what `segment` has, at or above the log start as it is in the end."""
        while True:
            try:
                found = yield from segment.timestamp_steps(timestamp_ms, from_offset)
            except DamageFoundError as error:
                if not self._log.add_damage(error.damage):
                    raise
                continue
            if found is None or found.offset >= self._log.log_start_offset:
                return found
            from_offset = self._log.log_start_offset

    def _may_reach(self, segment: LogSegment, timestamp_ms: int) -> bool:
        """Whether the segment may hold a record of that time or later."""
        try:
            return segment.largest_timestamp() >= timestamp_ms
        except CorruptMessageError:
            return True  # damaged: its sound records still count

    def segment_base_offsets_below(self, offset: int, count: int) -> list[int]:
        """Return up to `count` base offsets of segments below `offset`, newest first.

        The oldest one is the log start offset, where that lies inside the first segment.
        """
        log = self._log
        log.check_open()
        below: list[int] = []
        for segment in reversed(log.segments):
            start = max(segment.base_offset, log.log_start_offset)
            if len(below) >= count:
                break
            if start < offset:
                below.append(start)
            if segment.base_offset <= log.log_start_offset:
                break
        return below
