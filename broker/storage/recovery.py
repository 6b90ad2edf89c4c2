"""Recovery: from what a directory holds to a list of segments that can be trusted (R23, R31, R32).

Passes, each idempotent, so that a crash inside recovery is recovered by the next start:

1. `leftovers`: `.deleted`, `.cleaned` and `.tmp` files go; a complete `.log.swap` takes the place
   of the segments it was made from; index files without a log go.
2. `recover_segments`, after an unclean stop, from the recovery point on: cached pages are dropped,
   every batch is checked, indexes are built anew; each stretch of bad bytes is judged when met
   (`is_damage`). A torn tail is cut, with the segments behind it, and what valid batches are in
   there goes into quarantine first. Damage is copied there, reported, and left as it is; the walk
   and later appends go on behind it: acknowledged bytes are never cut.
3. Everything that is kept is synced, unless that is known to have been done: only then may the high
   watermark be set to the log end.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import structlog

from broker.storage.damage import Damage
from broker.storage.disk import storage_errors
from broker.storage.entry_walk import EntryHeader
from broker.storage.quarantine import Cause, keep_copy
from broker.storage.recent_batches import RecentBatches
from broker.storage.segment_recovery import SegmentRecovery
from protocol.errors import CorruptMessageError, StorageError
from protocol.record_batch_header import BatchHeader
from protocol.stored.file_names import log_file_name

if TYPE_CHECKING:
    from broker.storage.log_config import LogConfig
    from broker.storage.log_context import LogContext
    from broker.storage.offset_metadata import OffsetPosition
    from broker.storage.segment import LogSegment

_log = structlog.get_logger(__name__)


class Hints(NamedTuple):
    """What the files beside the partitions say of one log; each may say less than is true."""

    is_clean: bool
    """The broker before stopped in order."""
    recovery_point: int | None
    """Nothing below it has to be checked; None: its checkpoint does not say."""
    log_start_offset: int
    """Everything below it was deleted by retention, or by its owner."""
    durable_offset: int | None
    """Everything below it was synced; None: nobody knows."""
    cleaned_offset: int = 0
    """Everything below it was cleaned once: gaps between segments there are the cleaner's."""

    def is_promised(self, offset: int) -> bool:
        """Whether records at or above `offset` are known to have been synced, and to be wanted.

        The log start lifts the durable offset to itself, so between them nothing is promised.
        """
        return max(offset, self.log_start_offset) < self.promised_offset

    @property
    def promised_offset(self) -> int:
        """Everything below it was synced, as far as anything tells.

        Without a durable offset (a Kafka directory, a lost file) the recovery point is its bound.
        """
        if self.durable_offset is not None:
            return self.durable_offset
        return self.recovery_point or 0

    @property
    def promises_nothing(self) -> bool:
        """Whether it is known that no flush of this log was ever over."""
        known = max(self.recovery_point or 0, self.log_start_offset)
        return self.durable_offset == 0 and known == 0

    @property
    def check_from(self) -> int:
        """From where on a log has to be checked after an unclean stop."""
        recovery_point = self.recovery_point or 0
        if self.durable_offset is not None:  # of a cut, the slot knows first
            recovery_point = min(recovery_point, self.durable_offset)
        return max(recovery_point, self.log_start_offset)


class Recovered(NamedTuple):
    """What recovery made of a log's segments."""

    segments: tuple[LogSegment, ...]
    """Oldest first; the last one is active."""
    log_end_offset: int
    damage: tuple[Damage, ...]
    checked_bytes: int
    cut_bytes: int
    recent_batches: Mapping[int, list[tuple[int, BatchHeader]]] = {}
    """By base offset, of checked segments without transactions: see `RecentBatches`."""
    kept_segments: tuple[int, ...] = ()
    """Base offsets of those whose wounds are all in durable reports (`remembered_wounds`)."""


# --- after an unclean stop --------------------------------------------------------------------


def is_damage(wound: Damage, hints: Hints, *, is_followed: bool) -> bool:
    """Tell damage from a torn tail (design, "Crash recovery").

    Args:
        wound: Bad bytes that a walk has met.
        is_followed: Sound batches lie behind them, or later segments that hold bytes.
    """
    if hints.is_promised(wound.first_offset):
        return True
    return hints.durable_offset is None and is_followed


def recover_segments(
    context: LogContext,
    directory: Path,
    base_offsets: tuple[int, ...],
    config: LogConfig,
    hints: Hints,
    lost_segments: tuple[int, ...] = (),
) -> Recovered:
    """Check every segment from the recovery point on, cut what is torn, sync what is kept.

    Args:
        directory: The partition's.
        base_offsets: Of all segments, oldest first; not empty.
        lost_segments: Base offsets of which there were index files and no log (`leftovers`).

    Raises:
        StorageError: a file cannot be read or changed: this log cannot be used now.
        OSError: a sync failed: final.
    """
    recovery = _Recovery(context, directory, config, hints, lost_segments)
    if hints.promises_nothing and base_offsets[0] > 0:
        base_offsets = recovery.begin_anew(base_offsets)
    return recovery.run(base_offsets)


class _Recovery:
    """One recovery of one log: what it has found so far."""

    def __init__(
        self,
        context: LogContext,
        directory: Path,
        config: LogConfig,
        hints: Hints,
        lost_segments: tuple[int, ...],
    ) -> None:
        self.context, self.directory, self.config = context, directory, config
        self.hints, self.lost_segments = hints, lost_segments
        self.file_sizes: dict[str, int] | None = None
        self.damage: list[Damage] = []
        self.recent: dict[int, list[tuple[int, BatchHeader]]] = {}
        self.checked_bytes = self.cut_bytes = 0
        self.kept: list[LogSegment] = []
        self.checked: list[LogSegment] = []

    def run(self, base_offsets: tuple[int, ...]) -> Recovered:
        with storage_errors("read", self.directory):
            self.file_sizes = self.context.disk.file_sizes(self.directory)
        sizes = [self.file_sizes.get(log_file_name(each), 0) for each in base_offsets]
        ends = [*base_offsets[1:], None]
        log_end_offset, check_from = base_offsets[0], self.hints.check_from
        for number, (base_offset, end) in enumerate(zip(base_offsets, ends, strict=True)):
            segment = self._open(base_offset)
            self.kept.append(segment)
            if end is not None and end <= check_from:
                self._report_lost(segment, end)
                continue  # durable as a whole, with its indexes, or deleted
            found = self._check(segment, end, is_followed=any(sizes[number + 1 :]))
            log_end_offset = self._report_wounds(segment, found, end)
            if not found.fault:
                found = self._with_gap(segment, found, log_end_offset, end)
            if found.fault:
                self._cut(segment, found, base_offsets[number + 1 :])
                break
        self._go_on_after_the_end(log_end_offset)
        log_end_offset = max(log_end_offset, self.kept[-1].base_offset)
        if not self._is_known_durable(log_end_offset):
            self._sync()
        return Recovered(
            tuple(self.kept), log_end_offset, tuple(self.damage), self.checked_bytes,
            self.cut_bytes, self.recent,
        )  # fmt: skip

    def _open(self, base_offset: int) -> LogSegment:
        return self.context.open_segment(
            self.directory, base_offset, self.config, sizes=self.file_sizes
        )

    def _check(self, segment: LogSegment, end: int | None, *, is_followed: bool) -> SegmentRecovery:
        """Drop what the page cache has of a segment, then check every batch.

        Args:
            end: The next segment's base offset.
        """

        def judge(wound: Damage, later: OffsetPosition | None) -> bool:
            return is_damage(wound, self.hints, is_followed=is_followed or later is not None)

        recent, is_told = RecentBatches(), True

        def visit(position: int, header: EntryHeader) -> None:
            nonlocal is_told
            if type(header) is BatchHeader and header.producer_id >= 0 and is_told:
                is_told = recent.add(position, header)

        with storage_errors("read", segment.path):
            self.context.handles.get(segment.path).drop_cached_pages(0, 0)
        self.checked.append(segment)
        self.checked_bytes += segment.size_bytes
        promised = self.hints.promised_offset
        found = segment.recover(visit, judge, limit_offset=end, promised_offset=promised)
        if is_told:
            self.recent[segment.base_offset] = recent.take()
        return found

    def _report_wounds(self, segment: LogSegment, found: SegmentRecovery, end: int | None) -> int:
        """Report the damage in a segment; return the offset that follows all there is in it."""
        log_end_offset = found.next_offset
        for wound in found.wounds:
            if wound.end_position == segment.size_bytes:
                # Nothing is behind it in the file: what its bytes once were, only others can say.
                log_end_offset = max(log_end_offset, end or self.hints.promised_offset)
                wound = wound._replace(next_offset=log_end_offset)
            self._report(wound)
        return log_end_offset

    def _with_gap(
        self, segment: LogSegment, found: SegmentRecovery, log_end_offset: int, end: int | None
    ) -> SegmentRecovery:
        """Return what was found, with a fault where what follows never was part of the log.

        A segment whose tail was lost may end at a batch's border. What lies behind a gap at or
        above the durable offset never was part of the log; below it, only the cleaner leaves gaps.
        """
        if end is None or end <= log_end_offset:
            return found
        if self._is_lost(log_end_offset, end):
            self._report_missing(segment, log_end_offset, end)
        elif self.hints.durable_offset is not None and not self.hints.is_promised(log_end_offset):
            missing = end - log_end_offset
            return found._replace(fault=f"{missing} offsets are missing before the next segment")
        return found

    def _is_lost(self, log_end_offset: int, end: int) -> bool:
        """Whether the offsets between two segments were there once, and not the cleaner's.

        Below the log start they were deleted: a power cut may bring some segments of those back.
        """
        if end <= self.hints.log_start_offset:
            return False
        if self.config.cleanup_policy.compacts or log_end_offset < self.hints.cleaned_offset:
            return False
        if self.hints.is_promised(log_end_offset):
            return True
        was_there = any(log_end_offset <= each < end for each in self.lost_segments)
        return was_there and self.hints.durable_offset is None

    def _report_lost(self, segment: LogSegment, end: int) -> None:
        """Report a segment that is missing behind one that need not be checked."""
        if not any(segment.base_offset < each < end for each in self.lost_segments):
            return
        try:
            next_offset = segment.next_offset()
        except CorruptMessageError:
            return  # found by whoever reads it
        if next_offset < end and self._is_lost(next_offset, end):
            self._report_missing(segment, next_offset, end)

    def _report_missing(self, segment: LogSegment, first_offset: int, next_offset: int) -> None:
        size = segment.size_bytes
        fault = f"{next_offset - first_offset} offsets are missing"
        self._report(Damage(segment.base_offset, size, size, first_offset, next_offset, fault))

    def begin_anew(self, base_offsets: tuple[int, ...]) -> tuple[int, ...]:
        """Remove everything: the first segment was lost, the others begin in the middle (R32)."""
        self._remove(base_offsets)
        self.context.open_segment(self.directory, 0, self.config, create=True).close()
        return (0,)

    def _remove(self, base_offsets: tuple[int, ...]) -> None:
        """Remove segments durably, newest first, so that a crash leaves no hole.

        What they hold is kept in quarantine: nobody was promised it, but it may be all there is.
        """
        for base_offset in reversed(base_offsets):
            segment = self._open(base_offset)
            size = segment.size_bytes
            if size:
                removed = Damage(base_offset, 0, size, base_offset, base_offset, "")
                self._quarantine(removed, Cause.BEHIND_TORN_TAIL)
            self.cut_bytes += size
            segment.delete()
        if base_offsets:
            self.context.disk.sync_directory(self.directory)

    def _cut(
        self, segment: LogSegment, found: SegmentRecovery, later_bases: tuple[int, ...]
    ) -> None:
        """Cut a torn tail; segments behind it never were part of the log that was promised (R32).

        They go before the cut: after it, they would pass for what follows a gap of the cleaner's.
        """
        position, size = found.valid_bytes, segment.size_bytes
        if found.later is not None:
            torn = Damage(
                segment.base_offset, position, size, found.next_offset, found.next_offset,
                found.fault,
            )  # fmt: skip
            self._quarantine(torn, Cause.TORN_TAIL)
        self._remove(later_bases)
        self.cut_bytes += segment.truncate_to_position(position)
        _log.warning(
            "torn tail cut",
            partition=self.directory.name,
            segment=segment.base_offset,
            position=position,
            cut_bytes=self.cut_bytes,
            log_end_offset=found.next_offset,
            fault=found.fault,
        )

    def _report(self, damage: Damage) -> None:
        """Copy bad bytes to quarantine and report them; they stay where they are."""
        self.damage.append(damage)
        try:
            copy = self._quarantine(damage, Cause.DAMAGE)
        except StorageError as error:
            copy = f"none: {error}"
        _log.error(
            "damage in acknowledged records: nothing was cut; verify the partition",
            partition=self.directory.name,
            bad_bytes=damage.size_bytes,
            copy=copy,
            **damage._asdict(),
        )

    def _quarantine(self, stretch: Damage, cause: Cause) -> str:
        now_ms = self.context.clock.now_ms()
        return keep_copy(self.context.disk, self.directory, stretch, cause, now_ms).name

    def _go_on_after_the_end(self, log_end_offset: int) -> None:
        """Make the last segment active; a new one where offsets are missing, or damage is there.

        No offset that was acknowledged is ever given to another record.
        """
        last, last_end = self.kept[-1], log_end_offset
        promised_offset = self.hints.promised_offset
        gap_start = max(log_end_offset, self.hints.log_start_offset)
        if gap_start < promised_offset:  # the file ends before what was promised
            self._report_missing(last, gap_start, promised_offset)
        log_end_offset = max(gap_start, promised_offset)
        is_damaged = any(each.segment_base_offset == last.base_offset for each in self.damage)
        if is_damaged:
            log_end_offset = max(log_end_offset, last.base_offset + 1)
        if is_damaged or log_end_offset > last_end:
            last.records.seal()
            last = self.context.open_segment(
                self.directory, log_end_offset, self.config, create=True, active=True
            )
            self.kept.append(last)
        last.activate()
        for segment in self.kept[:-1]:
            segment.records.seal()

    def _is_known_durable(self, log_end_offset: int) -> bool:
        """Whether all that is kept was synced before the stop, and nothing of it was changed.

        So it is with most logs: a sync each would take seconds with a thousand of them. The name of
        an empty last segment may be missing yet, and the log start lifts offsets without a sync.
        """
        hints, last = self.hints, self.kept[-1]
        known = min(hints.recovery_point or 0, hints.durable_offset or 0)
        is_synced = max(last.base_offset, hints.log_start_offset) < log_end_offset <= known
        return is_synced and last.size_bytes > 0 and not (self.cut_bytes or self.damage)

    def _sync(self) -> None:
        """Make all durable that is kept, and was not known to be: files, then their names."""
        for segment in self.kept:
            if segment in self.checked:
                self._sync_segment(segment)
        self.context.disk.sync_directory(self.directory)

    def _sync_segment(self, segment: LogSegment) -> None:
        if segment.records.has_unflushed:
            segment.records.flush()  # it was cut
        else:
            self.context.handles.get(segment.path).sync()
        if segment is not self.kept[-1]:  # the active one's are built anew after every crash
            segment.offset_index.flush()
            segment.time_index.flush()
