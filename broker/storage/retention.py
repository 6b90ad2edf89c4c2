"""Retention: which segments of a log go, and why. Pure: facts in, a plan out (R38).

Segments go oldest first and without a gap, so that a log stays one run of offsets: the first one
that must stay keeps all that follow. Carrying a plan out is `partition_log`'s part.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from broker.storage.log_config import LogConfig
from protocol.identifiers import NO_TIMESTAMP


class DeletionReason(enum.StrEnum):
    """Why a segment goes."""

    LOG_START = "log start offset"
    TIME = "retention_ms"
    SIZE = "retention_bytes"


class KeepReason(enum.StrEnum):
    """Why a segment that nothing else keeps, or that is due, stays."""

    NOT_DUE = "not due"
    ABOVE_HIGH_WATERMARK = "not committed"
    UNFLUSHED = "not flushed"
    OLDER_STAYS = "an older segment stays"
    EMPTY_ACTIVE = "active and empty"


class SegmentFacts(msgspec.Struct, frozen=True):
    """What retention must know of one segment."""

    base_offset: int
    next_base_offset: int
    """Of the segment after it; of the active one the log end offset."""
    size_bytes: int
    largest_timestamp_ms: int
    """Of its records; the file's modification time where they have none (R20)."""
    modified_at_ms: int
    is_active: bool = False


class Verdict(msgspec.Struct, frozen=True):
    """What becomes of one segment: exactly one of the two reasons is set."""

    base_offset: int
    deletion: DeletionReason | None
    keep: KeepReason | None


class RetentionPlan(msgspec.Struct, frozen=True):
    """A verdict for each segment, oldest first."""

    verdicts: tuple[Verdict, ...]
    roll_active: bool
    """The active segment is among those that go: roll it first."""

    @property
    def deletions(self) -> tuple[Verdict, ...]:
        """The segments that go: the oldest ones, without a gap."""
        return tuple(verdict for verdict in self.verdicts if verdict.deletion is not None)


def plan_retention(
    segments: Sequence[SegmentFacts],
    config: LogConfig,
    *,
    log_start_offset: int,
    high_watermark: int,
    durable_offset: int,
    now_ms: int,
) -> RetentionPlan:
    """Say for each segment whether it goes (R38).

    By log start under every cleanup policy, by time and size only where the policy deletes. Never
    one above the high watermark, never one with unflushed bytes, never an empty active one.

    Args:
        segments: All segments of the log, oldest first; the last one is active.
        now_ms: The wall clock.
    """
    verdicts: list[Verdict] = []
    bytes_left = sum(segment.size_bytes for segment in segments)
    older_stays = False
    roll_active = False
    for segment in segments:
        deletion = _deletion_reason(segment, config, log_start_offset, bytes_left, now_ms)
        keep = _keep_reason(segment, high_watermark, durable_offset) if deletion else None
        if deletion is None:
            keep = KeepReason.NOT_DUE
        elif keep is None and older_stays:
            keep = KeepReason.OLDER_STAYS
        if keep is None:
            bytes_left -= segment.size_bytes
            roll_active = segment.is_active
            verdicts.append(Verdict(segment.base_offset, deletion, None))
        else:
            older_stays = True
            verdicts.append(Verdict(segment.base_offset, None, keep))
    return RetentionPlan(tuple(verdicts), roll_active)


def _deletion_reason(
    segment: SegmentFacts,
    config: LogConfig,
    log_start_offset: int,
    bytes_left: int,
    now_ms: int,
) -> DeletionReason | None:
    """Return the first rule under which the segment is due (KAFKA-12177: log start first)."""
    if not segment.is_active and segment.next_base_offset <= log_start_offset:
        return DeletionReason.LOG_START
    if not config.cleanup_policy.deletes:
        return None
    if config.retention_ms >= 0 and now_ms - retention_time_ms(segment, now_ms) > (
        config.retention_ms
    ):
        return DeletionReason.TIME
    if config.retention_bytes >= 0 and bytes_left - segment.size_bytes >= config.retention_bytes:
        return DeletionReason.SIZE
    return None


def retention_time_ms(segment: SegmentFacts, now_ms: int) -> int:
    """Return the time from which a segment ages: its largest timestamp.

    One from the future (nanoseconds sent for milliseconds, a wrong clock) must not keep data for
    ever: as long as it lies ahead, the segment ages by its file's modification time.
    """
    largest = segment.largest_timestamp_ms
    if largest == NO_TIMESTAMP or largest > now_ms:
        return segment.modified_at_ms
    return largest


def _keep_reason(
    segment: SegmentFacts, high_watermark: int, durable_offset: int
) -> KeepReason | None:
    """Return what forbids the deletion of a segment that is due."""
    if segment.is_active and segment.size_bytes == 0:
        return KeepReason.EMPTY_ACTIVE
    if segment.next_base_offset > high_watermark:
        return KeepReason.ABOVE_HIGH_WATERMARK
    if segment.next_base_offset > durable_offset:
        return KeepReason.UNFLUSHED
    return None
