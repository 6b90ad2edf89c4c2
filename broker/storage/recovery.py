"""Recovery: from what a directory holds to a list of segments that can be trusted (R23, R31, R32).

Passes, each idempotent, so that a crash inside recovery is recovered by the next start:

1. `leftovers`: `.deleted`, `.cleaned` and `.tmp` files go; a complete `.log.swap` takes the place
   of the segments it was made from; index files without a log go.
2. `recover_segments`, after an unclean stop, from the recovery point on: cached pages are dropped,
   every batch is checked, indexes are built anew; then what was found is judged (`is_damage`).
   A torn tail is cut, with the segments behind it. Damage is left as it is, and appends go on
   behind it: acknowledged bytes are never cut.
3. Everything that is kept is synced, unless that is known to have been done: only then may the high
   watermark be set to the log end.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import structlog

from broker.storage.damage import Damage
from broker.storage.disk import storage_errors
from broker.storage.entry_walk import EntryHeader
from broker.storage.segment_recovery import SegmentRecovery, SegmentWalk
from protocol.errors import CorruptMessageError, StorageError
from protocol.stored.file_names import log_file_name

if TYPE_CHECKING:
    from broker.storage.log_config import LogConfig
    from broker.storage.log_context import LogContext
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

    def is_promised(self, offset: int) -> bool:
        """Whether records at or above `offset` are known to have been synced, and to be wanted.

        The log start lifts the durable offset to itself, so between them nothing is promised.
        """
        return self.durable_offset is not None and (
            max(offset, self.log_start_offset) < self.durable_offset
        )

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
    leader_epochs: tuple[tuple[int, int], ...]
    """Epochs met in the batches, each above the one before, and where it begins."""


# --- after an unclean stop --------------------------------------------------------------------


def is_damage(found: SegmentRecovery, hints: Hints, *, is_followed: bool) -> bool:
    """Tell damage from a torn tail, for a segment with bad bytes (design, "Crash recovery").

    Args:
        is_followed: Later segments hold bytes.
    """
    if hints.durable_offset is not None:
        return hints.is_promised(found.next_offset)
    return found.later is not None or is_followed


def recover_segments(
    context: LogContext,
    directory: Path,
    base_offsets: tuple[int, ...],
    config: LogConfig,
    hints: Hints,
) -> Recovered:
    """Check every segment from the recovery point on, cut what is torn, sync what is kept.

    Args:
        directory: The partition's.
        base_offsets: Of all segments, oldest first; not empty.

    Raises:
        StorageError: a file cannot be read or changed: this log cannot be used now.
        OSError: a sync failed: final.
    """
    recovery = _Recovery(context, directory, config, hints)
    if hints.promises_nothing and base_offsets[0] > 0:
        base_offsets = recovery.begin_anew(base_offsets)
    return recovery.run(base_offsets)


class _Recovery:
    """One recovery of one log: what it has found so far."""

    def __init__(
        self, context: LogContext, directory: Path, config: LogConfig, hints: Hints
    ) -> None:
        self.context, self.directory, self.config = context, directory, config
        self.hints = hints
        self.damage: list[Damage] = []
        self.epochs: list[tuple[int, int]] = []
        self.checked_bytes = self.cut_bytes = 0
        self.kept: list[LogSegment] = []
        self.checked: list[LogSegment] = []

    def run(self, base_offsets: tuple[int, ...]) -> Recovered:
        sizes = [self._file_size(base_offset) for base_offset in base_offsets]
        ends = [*base_offsets[1:], None]
        log_end_offset, check_from = base_offsets[0], self.hints.check_from
        for number, (base_offset, end) in enumerate(zip(base_offsets, ends, strict=True)):
            segment = self._open(base_offset)
            self.kept.append(segment)
            if end is not None and end <= check_from:
                continue  # durable as a whole, with its indexes, or deleted
            found = self._check(segment)
            log_end_offset = found.next_offset
            if not found.fault:
                found = self._with_gap(found, end)
            if not found.fault:
                continue
            is_followed = any(sizes[number + 1 :])
            if is_damage(found, self.hints, is_followed=is_followed):
                log_end_offset = self._keep_damaged(segment, found, end)
                continue
            self._cut(segment, found, base_offsets[number + 1 :])
            break
        self._go_on_after_the_end(log_end_offset)
        log_end_offset = max(log_end_offset, self.kept[-1].base_offset)
        if not self._is_known_durable(log_end_offset):
            self._sync()
        return Recovered(
            tuple(self.kept), log_end_offset, tuple(self.damage), self.checked_bytes,
            self.cut_bytes, tuple(self.epochs),
        )  # fmt: skip

    def _file_size(self, base_offset: int) -> int:
        path = self.directory / log_file_name(base_offset)
        with storage_errors("read the size of", path):
            return self.context.disk.file_size(path)

    def _open(self, base_offset: int) -> LogSegment:
        return self.context.open_segment(self.directory, base_offset, self.config)

    def _check(self, segment: LogSegment) -> SegmentRecovery:
        """Drop what the page cache has of a segment, then check every batch."""
        with storage_errors("read", segment.path):
            self.context.handles.get(segment.path).drop_cached_pages(0, 0)
        self.checked.append(segment)
        self.checked_bytes += segment.size_bytes
        return segment.recover(self._visit)

    def _with_gap(self, found: SegmentRecovery, next_base_offset: int | None) -> SegmentRecovery:
        """Return what was found, with a fault where offsets before the next segment are missing.

        A segment whose tail was lost may end at a batch's border. What lies behind a gap at or
        above the durable offset never was part of the log; below it, only the cleaner leaves gaps.
        """
        if next_base_offset is None or self.hints.durable_offset is None:
            return found
        missing = next_base_offset - found.next_offset
        may_be_cleaned = self.config.cleanup_policy.compacts
        if missing <= 0 or (may_be_cleaned and self.hints.is_promised(found.next_offset)):
            return found
        return found._replace(fault=f"{missing} offsets are missing before the next segment")

    def _visit(self, position: int, header: EntryHeader) -> None:
        epoch = header.leader_epoch
        if epoch >= 0 and (not self.epochs or epoch > self.epochs[-1][0]):
            self.epochs.append((epoch, header.base_offset))

    def begin_anew(self, base_offsets: tuple[int, ...]) -> tuple[int, ...]:
        """Remove everything: the first segment was lost, the others begin in the middle (R32)."""
        self._remove(base_offsets)
        self.context.open_segment(self.directory, 0, self.config, create=True).close()
        return (0,)

    def _remove(self, base_offsets: tuple[int, ...]) -> None:
        """Remove segments durably, newest first, so that a crash leaves no hole."""
        for base_offset in reversed(base_offsets):
            segment = self._open(base_offset)
            self.cut_bytes += segment.size_bytes
            segment.delete()
        if base_offsets:
            self.context.disk.sync_directory(self.directory)

    def _cut(
        self, segment: LogSegment, found: SegmentRecovery, later_bases: tuple[int, ...]
    ) -> None:
        """Cut a torn tail; segments behind it never were part of the log that was promised (R32).

        They go before the cut: after it, they would pass for what follows a gap of the cleaner's.
        """
        self._remove(later_bases)
        self.cut_bytes += segment.truncate_to_position(found.valid_bytes)
        _log.warning(
            "torn tail cut",
            partition=self.directory.name,
            segment=segment.base_offset,
            position=found.valid_bytes,
            cut_bytes=self.cut_bytes,
            log_end_offset=found.next_offset,
            fault=found.fault,
        )

    def _keep_damaged(
        self, segment: LogSegment, found: SegmentRecovery, next_base_offset: int | None
    ) -> int:
        """Leave the bytes as they are; return the offset that follows all there is in them."""
        end = _end_behind_damage(segment, found)
        if self.hints.durable_offset is not None and next_base_offset is None:
            end = max(end, self.hints.durable_offset)
        next_offset = found.later.offset if found.later is not None else next_base_offset or end
        self._report(
            Damage(
                segment.base_offset, found.valid_bytes, found.next_offset, next_offset, found.fault
            ),
            found.bad_bytes,
        )
        return end

    def _report(self, damage: Damage, bad_bytes: int) -> None:
        self.damage.append(damage)
        _log.error(
            "damage in acknowledged records: nothing was cut; verify the partition",
            partition=self.directory.name,
            bad_bytes=bad_bytes,
            **damage._asdict(),
        )

    def _go_on_after_the_end(self, log_end_offset: int) -> None:
        """Make the last segment active; a new one where offsets are missing, or damage is there.

        No offset that was acknowledged is ever given to another record.
        """
        last, last_end = self.kept[-1], log_end_offset
        durable_offset = self.hints.durable_offset or 0
        gap_start = max(log_end_offset, self.hints.log_start_offset)
        if gap_start < durable_offset:  # the file ends before what was promised
            missing = f"{durable_offset - gap_start} offsets are missing at the end of the log"
            self._report(
                Damage(last.base_offset, last.size_bytes, gap_start, durable_offset, missing), 0
            )
        log_end_offset = max(gap_start, durable_offset)
        is_damaged = self.damage and self.damage[-1].segment_base_offset == last.base_offset
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


def _end_behind_damage(segment: LogSegment, found: SegmentRecovery) -> int:
    """Return the offset after the last sound batch of a damaged segment."""
    end = found.next_offset
    later = found.later
    walk = SegmentWalk(segment.records, segment.base_offset)
    while later is not None:
        position = later.position
        try:
            for at, header in walk.checked_batches(position):
                end, position = max(end, header.next_offset), at + header.size_bytes
            return end
        except CorruptMessageError as error:
            position = max(position, error.position)
        later = walk.find_later(position, end)
    return end


def check_clean_segments(segments: list[LogSegment]) -> int | None:
    """Return the log end offset after a clean stop; None if the end is not as a clean stop has it.

    Reads the tail of the active segment and its indexes, and nothing else: what is wrong with other
    segments' indexes shows, and is put right, when they are used.
    """
    active = segments[-1]
    try:
        log_end_offset = active.next_offset()
    except (CorruptMessageError, StorageError) as error:
        _log.warning("the end of a log is not sound", segment=repr(active), error=str(error))
        return None
    active.sanity_check()  # what is wrong is built anew by the first look-up
    return log_end_offset
