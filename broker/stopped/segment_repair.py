"""SegmentRepair: takes what is damaged out of one partition's log files. An operator asks for it.

The rule: from the bad offset to the next valid one is removed (R40). The offsets stay a gap, and no
record ever gets one of them: where they were, an empty batch says so, as Kafka's cleaner leaves
them where it keeps no record. What is removed is in quarantine before.

A log file is written anew beside the old one, synced, and renamed over it: after a crash there is
the one or the other, and what is left to do is found again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.storage.damage import Damage
from broker.storage.disk import DiskFile, storage_errors, write_whole
from broker.storage.file_records import FileRecords
from broker.storage.log_config import LogConfig
from broker.storage.quarantine import Cause, keep_copy
from broker.storage.recovery import Hints, is_damage
from broker.storage.segment_recovery import SegmentWalk, wound_between
from protocol.errors import CorruptMessageError
from protocol.identifiers import NO_LEADER_EPOCH
from protocol.limits import INT32_MAX
from protocol.record_batch_builder import build_batch
from protocol.stored.file_names import (
    CLEANED_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    log_file_name,
    segment_file_name,
)

if TYPE_CHECKING:
    from broker.storage.log_context import LogContext

STEP_BYTES: Final = 1024 * 1024


class Wound(NamedTuple):
    """What is to be removed, or is missing."""

    damage: Damage
    leader_epoch: int
    """Of the batch before it: that of the empty batch in its place."""


class SegmentRepair(NamedTuple):
    """What is to be done to one segment."""

    base_offset: int
    wounds: tuple[Wound, ...]
    """In the order of the file."""

    @property
    def removed_bytes(self) -> int:
        return sum(each.damage.size_bytes for each in self.wounds)


def plan_repairs(
    context: LogContext,
    directory: Path,
    base_offsets: tuple[int, ...],
    hints: Hints,
    lost_ranges: tuple[tuple[int, int], ...] = (),
) -> list[SegmentRepair]:
    """Look for damage in a partition; changes nothing. A torn tail is left to the next start.

    Args:
        base_offsets: Of all segments, oldest first.
        hints: As a start would have them.
        lost_ranges: First and next offset of what is known to be missing between two segments.

    Raises:
        StorageError: a file cannot be read.
    """
    found: list[SegmentRepair] = []
    for number, base_offset in enumerate(base_offsets):
        is_last = number == len(base_offsets) - 1
        end = None if is_last else base_offsets[number + 1]
        records = FileRecords.open(context.handles, directory / log_file_name(base_offset))
        search = _Search(records, base_offset, end, hints, is_followed=not is_last)
        wounds = search.wounds(lost_ranges)
        if wounds:
            found.append(SegmentRepair(base_offset, tuple(wounds)))
    return found


class _Search:
    """Looks for the wounds of one segment."""

    def __init__(
        self,
        records: FileRecords,
        base_offset: int,
        end: int | None,
        hints: Hints,
        *,
        is_followed: bool,
    ) -> None:
        self.walk = SegmentWalk(
            records, base_offset, limit_offset=end, promised_offset=hints.promised_offset
        )
        self.end, self.hints, self.is_followed = end, hints, is_followed
        self.next_offset, self.leader_epoch = base_offset, NO_LEADER_EPOCH
        self.is_torn = False

    def wounds(self, lost_ranges: tuple[tuple[int, int], ...]) -> list[Wound]:
        found = list(self._bad_bytes())
        if self.is_torn:
            return found
        end = self.end if self.end is not None else self.hints.promised_offset
        is_missing = self.next_offset < end and (
            self.end is None or any(each == (self.next_offset, end) for each in lost_ranges)
        )
        if is_missing:
            size, first = self.walk.size_bytes, self.next_offset
            fault = f"{end - first} offsets are missing"
            damage = Damage(self.walk.base_offset, size, size, first, end, fault)
            found.append(Wound(damage, self.leader_epoch))
        return found

    def _bad_bytes(self) -> Iterator[Wound]:
        """Yield the wounds up to the segment's end, or to a torn tail."""
        walk, position = self.walk, 0
        while True:
            try:
                for _, header in walk.checked_batches(position, self.next_offset):
                    self.leader_epoch = header.leader_epoch
                position, self.next_offset = walk.sound_position, walk.sound_offset
                return
            except CorruptMessageError as error:
                fault = error.reason
            position, self.next_offset = walk.sound_position, walk.sound_offset
            later = walk.find_later(position, self.next_offset)
            damage = wound_between(walk, position, self.next_offset, later, fault)
            is_followed = self.is_followed or later is not None
            if not is_damage(damage, self.hints, is_followed=is_followed):
                self.is_torn = True  # the next start cuts it
                return
            if later is None:
                end = self.end if self.end is not None else self.hints.promised_offset
                damage = damage._replace(next_offset=max(end, self.next_offset))
                self.next_offset = damage.next_offset
                yield Wound(damage, self.leader_epoch)
                return
            yield Wound(damage, self.leader_epoch)
            position, self.next_offset = later.position, later.offset


def carry_out(context: LogContext, directory: Path, repair: SegmentRepair, now_ms: int) -> None:
    """Mend one segment; durable on return. Its indexes are gone then: `rebuild_indexes`.

    Raises:
        StorageError: a file cannot be read or written; nothing is lost.
        OSError: a sync failed: try again.
    """
    disk = context.disk
    for wound in repair.wounds:
        keep_copy(disk, directory, wound.damage, Cause.REPAIR, now_ms)
    path = directory / log_file_name(repair.base_offset)
    new_path = path.with_name(path.name + CLEANED_SUFFIX)  # a leftover is removed by a start
    with storage_errors("write", new_path):
        old, new = disk.open(path, read_only=True), disk.open(new_path, create=True)
        try:
            new.truncate(0)
            _write_mended(old, new, repair)
            new.sync()
        finally:
            old.close()
            new.close()
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            index = directory / segment_file_name(repair.base_offset, suffix)
            context.handles.forget(index)
            if disk.exists(index):
                disk.unlink(index)
        context.handles.forget(path)
        disk.rename(new_path, path)
        disk.sync_directory(directory)


def rebuild_indexes(
    context: LogContext, directory: Path, base_offset: int, config: LogConfig
) -> None:
    """Build both indexes of a segment from its log; durable on return.

    Raises:
        StorageError: a file cannot be read or written.
    """
    segment = context.open_segment(directory, base_offset, config)
    segment.recover(judge=lambda wound, later: True)
    segment.close()
    context.disk.sync_directory(directory)


def _write_mended(old: DiskFile, new: DiskFile, repair: SegmentRepair) -> None:
    position = written = 0
    for wound in repair.wounds:
        written += _copy(old, new, position, wound.damage.position, written)
        for empty in _empty_batches(wound):
            written += write_whole(new, [empty], written)
        position = wound.damage.end_position
    _copy(old, new, position, old.size(), written)


def _copy(old: DiskFile, new: DiskFile, start: int, end: int, to: int) -> int:
    """Copy a stretch; return its bytes."""
    for position in range(start, end, STEP_BYTES):
        piece = old.read(min(STEP_BYTES, end - position), position)
        write_whole(new, [piece], to + position - start)
    return end - start


def _empty_batches(wound: Wound) -> Iterator[bytes]:
    """Yield what stands for the offsets that are gone: batches without a record."""
    first, end = wound.damage.first_offset, wound.damage.next_offset
    while first < end:
        next_offset = min(end, first + INT32_MAX)
        yield build_batch(
            [],
            base_offset=first,
            last_offset_delta=next_offset - first - 1,
            leader_epoch=wound.leader_epoch,
        )
        first = next_offset
