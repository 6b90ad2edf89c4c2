"""Recovery: from what a directory holds to a list of segments that can be trusted (R23, R31, R32).

Passes, each idempotent, so that a crash inside recovery is recovered by the next start:

1. `finish_leftovers`: `.deleted`, `.cleaned` and `.tmp` files go; a complete `.log.swap` takes the
   place of the segments it was made from; index files without a log go.
2. `recover_segments`, after an unclean stop, from the recovery point on: cached pages are dropped,
   every batch is checked, indexes are built anew; then what was found is judged (`is_damage`).
   A torn tail is cut, with the segments behind it. Damage is left as it is, and appends go on
   behind it: acknowledged bytes are never cut.
3. Everything that is kept is synced: only then may the high watermark be set to the log end.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import structlog

from broker.storage.damage import Damage
from broker.storage.disk import TEMPORARY_SUFFIX, storage_errors
from broker.storage.entry_walk import EntryHeader
from broker.storage.file_records import FileRecords
from broker.storage.segment_recovery import SegmentRecovery, SegmentWalk
from protocol.errors import CorruptMessageError, StorageError
from protocol.stored.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    SegmentFileName,
    log_file_name,
    parse_file_name,
)

if TYPE_CHECKING:
    from broker.storage.log_config import LogConfig
    from broker.storage.log_context import LogContext
    from broker.storage.segment import LogSegment

_log = structlog.get_logger(__name__)

INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


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


# --- leftovers --------------------------------------------------------------------------------


def finish_leftovers(context: LogContext, directory: Path, config: LogConfig) -> tuple[int, ...]:
    """Finish or undo what a crash interrupted (R31, 1 to 3); return the base offsets of the logs.

    Files that are none of ours are left alone.

    Raises:
        StorageError: the directory cannot be read or changed.
    """
    disk = context.disk
    with storage_errors("clean up", directory):
        names = disk.list_directory(directory)
        for name in names:
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)):
                disk.unlink(directory / name)
        parsed = [each for name in names if (each := parse_file_name(name)) is not None]
        swaps = [each for each in parsed if each.state == SWAP_SUFFIX]
        if swaps:
            _finish_swaps(context, directory, config, swaps)
            parsed = [
                each
                for name in disk.list_directory(directory)
                if (each := parse_file_name(name)) is not None
            ]
        logs = {each.base_offset for each in parsed if each[1:] == (LOG_SUFFIX, "")}
        for each in parsed:
            if each.suffix in INDEX_SUFFIXES and not each.state and each.base_offset not in logs:
                _log.warning("index without a log removed", path=str(directory / str(each)))
                disk.unlink(directory / str(each))
    return tuple(sorted(logs))


def _finish_swaps(
    context: LogContext, directory: Path, config: LogConfig, swaps: list[SegmentFileName]
) -> None:
    """Put each sound `.log.swap` in the place of its originals; an unsound one goes.

    A swap file was synced before it got its name, so an unsound one means that nobody may rely on
    it, and its originals are still there.
    """
    disk = context.disk
    for each in swaps:
        if each.suffix != LOG_SUFFIX:
            disk.unlink(directory / str(each))  # indexes are built anew
    for each in swaps:
        if each.suffix != LOG_SUFFIX:
            continue
        path = directory / str(each)
        end = _end_of_swap(context, path, each.base_offset)
        originals = [
            name
            for text in disk.list_directory(directory)
            if (name := parse_file_name(text)) is not None
            and not name.state
            and each.base_offset <= name.base_offset < max(end, each.base_offset + 1)
        ]
        if end < 0:
            _log.warning("unsound swap file removed", path=str(path))
            disk.unlink(path)
            continue
        for name in originals:
            disk.unlink(directory / str(name))
        disk.rename(path, directory / str(each._replace(state="")))
        disk.sync_directory(directory)
        _log.info("swap file finished", path=str(path), originals=len(originals))


def _end_of_swap(context: LogContext, path: Path, base_offset: int) -> int:
    """Return the offset after the last batch of a swap file; -1 if it is not sound."""
    records = FileRecords.open(context.handles, path)
    end = base_offset
    try:
        for _, header in SegmentWalk(records, base_offset).checked_batches():
            end = header.next_offset
    except CorruptMessageError:
        return -1
    finally:
        context.handles.forget(path)
    return end


# --- after an unclean stop --------------------------------------------------------------------


def is_damage(found: SegmentRecovery, durable_offset: int | None, *, is_followed: bool) -> bool:
    """Tell damage from a torn tail, for a segment with bad bytes (design, "Crash recovery").

    Args:
        durable_offset: Everything below it was synced; None where nobody knows.
        is_followed: Later segments hold bytes.
    """
    if durable_offset is not None:
        return found.next_offset < durable_offset
    return found.later is not None or is_followed


def recover_segments(
    context: LogContext,
    directory: Path,
    base_offsets: tuple[int, ...],
    config: LogConfig,
    *,
    recovery_point: int,
    durable_offset: int | None,
    name: str,
) -> Recovered:
    """Check every segment from the recovery point on, cut what is torn, sync what is kept.

    Args:
        base_offsets: Of all segments, oldest first; not empty.
        recovery_point: Nothing below it has to be checked.
        durable_offset: See `is_damage`.
        name: Of the partition, for what is logged.

    Raises:
        StorageError: a file cannot be read or changed: this log cannot be used now.
        OSError: a sync failed: final.
    """
    return _Recovery(context, directory, config, recovery_point, durable_offset, name).run(
        base_offsets
    )


class _Recovery:
    """One recovery of one log: what it has found so far."""

    def __init__(
        self,
        context: LogContext,
        directory: Path,
        config: LogConfig,
        recovery_point: int,
        durable_offset: int | None,
        name: str,
    ) -> None:
        self.context, self.directory, self.config = context, directory, config
        self.recovery_point, self.durable_offset = recovery_point, durable_offset
        self.name = name
        self.damage: list[Damage] = []
        self.epochs: list[tuple[int, int]] = []
        self.checked_bytes = self.cut_bytes = 0
        self.kept: list[LogSegment] = []
        self.checked: list[LogSegment] = []

    def run(self, base_offsets: tuple[int, ...]) -> Recovered:
        sizes = [self._file_size(base_offset) for base_offset in base_offsets]
        ends = [*base_offsets[1:], None]
        log_end_offset = base_offsets[0]
        for number, (base_offset, end) in enumerate(zip(base_offsets, ends, strict=True)):
            segment = self._open(base_offset)
            self.kept.append(segment)
            if end is not None and end <= self.recovery_point:
                continue  # durable as a whole, with its indexes
            found = self._check(segment)
            log_end_offset = found.next_offset
            if not found.fault:
                found = self._with_gap(found, end)
            if not found.fault:
                continue
            is_followed = any(sizes[number + 1 :])
            if is_damage(found, self.durable_offset, is_followed=is_followed):
                log_end_offset = self._keep_damaged(segment, found, end)
                continue
            self._cut(segment, found, base_offsets[number + 1 :])
            break
        self._go_on_after_the_end(log_end_offset)
        log_end_offset = max(log_end_offset, self.kept[-1].base_offset)
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

        A segment whose tail was lost may end at a batch's border. Below the durable offset a gap is
        the cleaner's work; at or above it, what lies behind never was part of the log.
        """
        if next_base_offset is None or self.durable_offset is None:
            return found
        if not self.durable_offset <= found.next_offset < next_base_offset:
            return found
        missing = next_base_offset - found.next_offset
        return found._replace(fault=f"{missing} offsets are missing before the next segment")

    def _visit(self, position: int, header: EntryHeader) -> None:
        epoch = header.leader_epoch
        if epoch >= 0 and (not self.epochs or epoch > self.epochs[-1][0]):
            self.epochs.append((epoch, header.base_offset))

    def _cut(
        self, segment: LogSegment, found: SegmentRecovery, later_bases: tuple[int, ...]
    ) -> None:
        """Cut a torn tail; segments behind it never were part of the log that was promised (R32).

        Newest first, so that a crash leaves a log without a hole.
        """
        for base_offset in reversed(later_bases):
            later = self._open(base_offset)
            self.cut_bytes += later.size_bytes
            later.delete()
        if later_bases:  # before the cut: with it, what follows would pass for the cleaner's gap
            self.context.disk.sync_directory(self.directory)
        self.cut_bytes += segment.truncate_to_position(found.valid_bytes)
        _log.warning(
            "torn tail cut",
            partition=self.name,
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
        if self.durable_offset is not None and next_base_offset is None:
            end = max(end, self.durable_offset)
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
            partition=self.name,
            bad_bytes=bad_bytes,
            **damage._asdict(),
        )

    def _go_on_after_the_end(self, log_end_offset: int) -> None:
        """Make the last segment active; a new one where offsets are missing, or damage is there.

        No offset that was acknowledged is ever given to another record.
        """
        last = self.kept[-1]
        durable_offset = self.durable_offset or 0
        if log_end_offset < durable_offset:  # the file ends before what was promised
            missing = f"{durable_offset - log_end_offset} offsets are missing at the end of the log"
            damage = Damage(
                last.base_offset, last.size_bytes, log_end_offset, durable_offset, missing
            )
            self._report(damage, 0)
            log_end_offset = durable_offset
        is_damaged = self.damage and self.damage[-1].segment_base_offset == last.base_offset
        if is_damaged and log_end_offset > last.base_offset:
            last.records.seal()
            last = self.context.open_segment(
                self.directory, log_end_offset, self.config, create=True, active=True
            )
            self.kept.append(last)
        last.activate()
        for segment in self.kept[:-1]:
            segment.records.seal()

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

    Reads the tail of the active segment, and of the indexes what tells whether they are whole.
    """
    active = segments[-1]
    try:
        log_end_offset = active.next_offset()
    except (CorruptMessageError, StorageError) as error:
        _log.warning("the end of a log is not sound", segment=repr(active), error=str(error))
        return None
    for segment in segments:
        segment.sanity_check()  # what is wrong is built anew by the first look-up
    return log_end_offset
