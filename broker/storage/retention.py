"""Retention: which segments of a log go, and why. Pure: facts in, a plan out (R38).

Segments go oldest first and without a gap, so that a log stays one run of offsets: the first one
that must stay keeps all that follow. Carrying it out is `log_trimmer`'s part.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence

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
    BEING_CLEANED = "being compacted"


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
    is_being_cleaned: bool = False
    """The cleaner is putting a new segment into the log: for some milliseconds."""


class Verdict(msgspec.Struct, frozen=True):
    """What becomes of one segment: exactly one of `deletion` and `keep` is set."""

    segment: SegmentFacts
    deletion: DeletionReason | None
    keep: KeepReason | None
    due_by: DeletionReason | None
    """The first rule under which it is due, even if it stays for another reason."""

    @property
    def base_offset(self) -> int:
        return self.segment.base_offset


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
    """Say for each segment of a log whether it goes; see `verdicts`."""
    found = tuple(
        verdicts(
            segments,
            config,
            size_bytes=sum(segment.size_bytes for segment in segments),
            log_start_offset=log_start_offset,
            high_watermark=high_watermark,
            durable_offset=durable_offset,
            now_ms=now_ms,
        )
    )
    return RetentionPlan(found, roll_active=all(each.deletion is not None for each in found))


def verdicts(
    segments: Iterable[SegmentFacts],
    config: LogConfig,
    *,
    size_bytes: int,
    log_start_offset: int,
    high_watermark: int,
    durable_offset: int,
    now_ms: int,
) -> Iterator[Verdict]:
    """Say for one segment after the other whether it goes (R38).

    By log start under every cleanup policy, by time and size only where the policy deletes. Never
    one above the high watermark, never one with unflushed bytes, never an empty active one, never
    one of a log that the cleaner is putting a segment into. Each segment is looked at when its
    verdict is asked for: who only wants those that go, stops at the first that stays.

    Args:
        segments: All segments of the log, oldest first; the last one is active.
        size_bytes: Of all of them.
        now_ms: The wall clock.
    """
    bytes_left = size_bytes
    older_stays = False
    for segment in segments:
        deletion = _deletion_reason(segment, config, log_start_offset, bytes_left, now_ms)
        keep = _keep_reason(segment, high_watermark, durable_offset) if deletion else None
        if deletion is None:
            keep = KeepReason.NOT_DUE
        elif keep is None and older_stays:
            keep = KeepReason.OLDER_STAYS
        if keep is None:
            bytes_left -= segment.size_bytes
            yield Verdict(segment, deletion, None, deletion)
        else:
            older_stays = True
            yield Verdict(segment, None, keep, deletion)


def needs_time(config: LogConfig) -> bool:
    """Whether a segment's age counts at all."""
    return config.cleanup_policy.deletes and config.retention_ms >= 0


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
    if needs_time(config) and now_ms >= time_due_at_ms(segment, config, now_ms):
        return DeletionReason.TIME
    if config.retention_bytes >= 0 and bytes_left - segment.size_bytes >= config.retention_bytes:
        return DeletionReason.SIZE
    return None


def time_due_at_ms(segment: SegmentFacts, config: LogConfig, now_ms: int) -> int:
    """Return when `retention_ms`, which must be set, makes the segment due."""
    return retention_time_ms(segment, now_ms) + config.retention_ms + 1


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
    if segment.is_being_cleaned:
        return KeepReason.BEING_CLEANED
    if segment.next_base_offset > high_watermark:
        return KeepReason.ABOVE_HIGH_WATERMARK
    if segment.next_base_offset > durable_offset:
        return KeepReason.UNFLUSHED
    return None
