"""Compaction: which part of a log is to be cleaned, when, and in which pieces. Pure.

As Kafka's LogCleanerManager and Cleaner have it. A log is cleaned from its start; what lies below
the *first dirty offset* was cleaned before, so only the keys of what follows are looked for. The
*first uncleanable offset* is a segment's base: of the active one, or of the one that holds the
last stable offset, the recovery point as it stands in the checkpoint, or a record younger than
`min_compaction_lag_ms`.

The recovery point, because recovery takes offsets that are missing above it for a torn tail, and
would cut what follows: only below it may a cleaner leave gaps.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from broker.storage.log_config import LogConfig
from protocol.limits import SEGMENT_BYTES_MAX, SEGMENT_OFFSET_SPAN_MAX


class CompactionSegment(msgspec.Struct, frozen=True):
    """What compaction must know of one segment."""

    base_offset: int
    next_base_offset: int
    """Of the segment after it; of the active one the log end offset."""
    size_bytes: int
    first_timestamp_ms: int = -1
    """Largest timestamp of its first batch; needed with `max_compaction_lag_ms` alone."""
    largest_timestamp_ms: int = -1
    """Needed with `min_compaction_lag_ms` alone."""


class CleaningPlan(msgspec.Struct, frozen=True):
    """Which part of a log can be cleaned, and whether it should be."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    """The base offset of a segment."""
    clean_bytes: int
    cleanable_bytes: int
    """In segments from the one with the first dirty offset up to the first uncleanable one."""
    is_overdue: bool
    """Something in it is older than `max_compaction_lag_ms`."""

    @property
    def dirty_ratio(self) -> float:
        """The share of the bytes that would be worked on and were not cleaned yet."""
        return self.cleanable_bytes / max(1, self.clean_bytes + self.cleanable_bytes)

    def is_due(self, min_cleanable_dirty_ratio: float) -> bool:
        """Whether the log should be cleaned."""
        if not self.cleanable_bytes:
            return False
        return self.is_overdue or self.dirty_ratio > min_cleanable_dirty_ratio


class SegmentSizes(msgspec.Struct, frozen=True):
    """What decides which segments can become one."""

    base_offset: int
    next_base_offset: int
    log_bytes: int
    offset_index_bytes: int
    time_index_bytes: int


def plan_cleaning(
    segments: Sequence[CompactionSegment],
    config: LogConfig,
    *,
    cleaned_offset: int | None,
    log_start_offset: int,
    limit_offset: int,
    now_ms: int,
) -> CleaningPlan:
    """Say what of a log can be cleaned.

    Args:
        segments: All of the log, oldest first; the last one is active.
        cleaned_offset: Up to where it was cleaned before; None: never.
        limit_offset: Nothing at or above it may be cleaned: the last stable offset, and what the
            checkpoint says is durable.
    """
    log_end_offset = segments[-1].next_base_offset
    first_dirty = log_start_offset if cleaned_offset is None else cleaned_offset
    if not log_start_offset <= first_dirty <= log_end_offset:
        first_dirty = log_start_offset  # the log was trimmed, or cut and written anew
    first_uncleanable = _first_uncleanable(segments, config, first_dirty, limit_offset, now_ms)
    clean_bytes = cleanable_bytes = 0
    is_overdue = False
    for segment in segments:
        if segment.base_offset >= first_uncleanable:
            break
        if segment.next_base_offset <= first_dirty:
            clean_bytes += segment.size_bytes
            continue
        cleanable_bytes += segment.size_bytes
        if 0 < segment.first_timestamp_ms < now_ms - config.max_compaction_lag_ms:
            is_overdue = True
    return CleaningPlan(
        min(first_dirty, first_uncleanable), first_uncleanable, clean_bytes, cleanable_bytes,
        is_overdue,
    )  # fmt: skip


def _first_uncleanable(
    segments: Sequence[CompactionSegment],
    config: LogConfig,
    first_dirty: int,
    limit_offset: int,
    now_ms: int,
) -> int:
    """Return the base offset of the first segment that may not be cleaned."""
    for segment in segments[:-1]:
        if segment.next_base_offset > limit_offset:
            return segment.base_offset
        is_dirty = segment.next_base_offset > first_dirty
        is_young = segment.largest_timestamp_ms > now_ms - config.min_compaction_lag_ms
        if is_dirty and config.min_compaction_lag_ms > 0 and is_young:
            return segment.base_offset
    return segments[-1].base_offset


def group_segments(
    segments: Sequence[SegmentSizes], *, segment_bytes: int, segment_index_bytes: int
) -> list[tuple[SegmentSizes, ...]]:
    """Put neighbours together that will fit one segment, before anything of them is removed.

    A group keeps within the bytes of a segment and of each of its indexes, and its last offset
    within 2^31-1 of its first segment's base offset (KAFKA-2024, KAFKA-5413).
    """
    bytes_max = min(segment_bytes, SEGMENT_BYTES_MAX)
    groups: list[tuple[SegmentSizes, ...]] = []
    group: list[SegmentSizes] = []
    sums = (0, 0, 0)
    for segment in segments:
        sizes = (segment.log_bytes, segment.offset_index_bytes, segment.time_index_bytes)
        total = tuple(a + b for a, b in zip(sums, sizes, strict=True))
        fits = (
            total[0] <= bytes_max
            and max(total[1:]) <= segment_index_bytes
            and bool(group)
            and segment.next_base_offset - 1 - group[0].base_offset <= SEGMENT_OFFSET_SPAN_MAX
        )
        if fits:
            group.append(segment)
            sums = (total[0], total[1], total[2])
            continue
        if group:
            groups.append(tuple(group))
        group, sums = [segment], sizes
    if group:
        groups.append(tuple(group))
    return groups
