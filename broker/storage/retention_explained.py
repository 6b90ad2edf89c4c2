"""RetentionExplained: why each segment of a log is kept, or when it goes and by which rule.

What `retention` decides, told: for `tidelog segments explain`, of an open log or of a stopped
broker's files. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from broker.storage.log_config import LogConfig
from broker.storage.retention import (
    DeletionReason,
    KeepReason,
    SegmentFacts,
    Verdict,
    needs_time,
    time_due_at_ms,
    verdicts,
)

GOES_TEXT: Final = {
    DeletionReason.LOG_START: "lies below the log start",
    DeletionReason.TIME: "is older than retention.ms",
    DeletionReason.SIZE: "the newer ones alone fill retention.bytes",
}
STAYS_TEXT: Final = {
    KeepReason.ABOVE_HIGH_WATERMARK: "not all of it is committed",
    KeepReason.UNFLUSHED: "not all of it is synced",
    KeepReason.OLDER_STAYS: "an older segment stays",
    KeepReason.EMPTY_ACTIVE: "active and empty",
    KeepReason.BEING_CLEANED: "the cleaner is at it",
}


class SegmentExplanation(msgspec.Struct, frozen=True):
    """One segment; its offsets are from `base_offset` to below `end_offset`."""

    base_offset: int
    end_offset: int
    size_bytes: int
    largest_timestamp_ms: int | None
    """Of its records; where none has one, or one from the future, the file's time counts."""
    is_active: bool
    goes_next_round: bool
    rule: str | None
    """`retention_ms`, `retention_bytes` or `log start offset`: what it goes or will go by."""
    due_at_ms: int | None
    """When `retention_ms` lets it go, at the earliest; None: that never happens by itself."""
    reason: str
    """A sentence for people."""


class PartitionExplanation(msgspec.Struct, frozen=True):
    """One partition; with an error, nothing else is known of it."""

    partition: int
    error: str | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    size_bytes: int = 0
    segments: tuple[SegmentExplanation, ...] = ()


class TopicExplanation(msgspec.Struct, frozen=True):
    """One topic, and the settings that retention goes by."""

    topic: str
    cleanup_policy: str
    retention_ms: int
    retention_bytes: int
    partitions: tuple[PartitionExplanation, ...] = ()


def explain(
    segments: Iterable[SegmentFacts],
    config: LogConfig,
    *,
    size_bytes: int,
    log_start_offset: int,
    high_watermark: int,
    durable_offset: int,
    now_ms: int,
) -> Iterator[SegmentExplanation]:
    """Explain one segment after the other; arguments as those of `retention.verdicts`.

    Each is looked at when it is asked for: there may be thousands.
    """
    newer_bytes = size_bytes
    older_due_at_ms = 0
    for verdict in verdicts(
        segments,
        config,
        size_bytes=size_bytes,
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
        durable_offset=durable_offset,
        now_ms=now_ms,
    ):
        segment = verdict.segment
        newer_bytes -= segment.size_bytes
        due_at_ms = None
        if verdict.deletion is None and needs_time(config) and segment.size_bytes:
            # Older ones go first: one that is due only later holds up those behind it.
            older_due_at_ms = max(older_due_at_ms, time_due_at_ms(segment, config, now_ms))
            due_at_ms = older_due_at_ms
        rule, reason = _reason(verdict, config, newer_bytes)
        largest = segment.largest_timestamp_ms
        yield SegmentExplanation(
            base_offset=segment.base_offset,
            end_offset=segment.next_base_offset,
            size_bytes=segment.size_bytes,
            largest_timestamp_ms=largest if largest >= 0 and segment.size_bytes else None,
            is_active=segment.is_active,
            goes_next_round=verdict.deletion is not None,
            rule=rule,
            due_at_ms=due_at_ms,
            reason=reason,
        )


def _reason(verdict: Verdict, config: LogConfig, newer_bytes: int) -> tuple[str | None, str]:
    """Return the rule that the segment goes by, now or some time, and a sentence."""
    if verdict.due_by is not None:
        rule, why = str(verdict.due_by), GOES_TEXT[verdict.due_by]
        return rule, why if verdict.keep is None else f"{why}, but {STAYS_TEXT[verdict.keep]}"
    segment = verdict.segment
    if segment.is_active and not segment.size_bytes:
        return None, "active and empty"
    if not config.cleanup_policy.deletes:
        policy = config.cleanup_policy
        return None, f"cleanup.policy={policy}: only delete-records removes segments"
    sentences = []
    if needs_time(config):
        sentences.append(_time_text(segment))
    if config.retention_bytes >= 0:
        missing_bytes = config.retention_bytes - newer_bytes
        sentences.append(f"by retention.bytes after {missing_bytes} more bytes")
    if not sentences:
        return None, "neither retention.ms nor retention.bytes limits it"
    rule = DeletionReason.TIME if needs_time(config) else DeletionReason.SIZE
    return str(rule), "goes " + ", or ".join(sentences)


def _time_text(segment: SegmentFacts) -> str:
    if segment.largest_timestamp_ms > segment.modified_at_ms:
        return "by retention.ms, from its file's time on: its records are from the future"
    return "by retention.ms"
