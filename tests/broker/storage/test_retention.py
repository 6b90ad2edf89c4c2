"""Retention plans: which segments go, and why (R38). Pure, so no disk here."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.log_config import CleanupPolicy, LogConfig
from broker.storage.retention import (
    DeletionReason,
    KeepReason,
    RetentionPlan,
    SegmentFacts,
    plan_retention,
)

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def segments(*ages_ms: int, size_bytes: int = 100) -> list[SegmentFacts]:
    """Segments of ten offsets each, oldest first; the last one is active."""
    return [
        SegmentFacts(
            base_offset=10 * number,
            next_base_offset=10 * number + 10,
            size_bytes=size_bytes,
            largest_timestamp_ms=NOW_MS - age_ms,
            modified_at_ms=NOW_MS - age_ms,
            is_active=number == len(ages_ms) - 1,
        )
        for number, age_ms in enumerate(ages_ms)
    ]


def plan(
    facts: list[SegmentFacts],
    config: LogConfig,
    *,
    log_start_offset: int = 0,
    high_watermark: int | None = None,
    durable_offset: int | None = None,
) -> RetentionPlan:
    end = facts[-1].next_base_offset
    return plan_retention(
        facts,
        config,
        log_start_offset=log_start_offset,
        high_watermark=end if high_watermark is None else high_watermark,
        durable_offset=end if durable_offset is None else durable_offset,
        now_ms=NOW_MS,
    )


def deleted(found: RetentionPlan) -> list[tuple[int, DeletionReason | None]]:
    return [(verdict.base_offset, verdict.deletion) for verdict in found.deletions]


KEEP_ALL = LogConfig(retention_ms=-1)


def test_given_a_log_start_when_planned_then_a_segment_goes_if_the_next_one_begins_at_or_below_it():
    """R38: by log start, under every cleanup policy; never the active one."""
    facts = segments(0, 0, 0)

    for config in (KEEP_ALL, LogConfig(cleanup_policy=CleanupPolicy.COMPACT)):
        assert deleted(plan(facts, config, log_start_offset=9)) == []
        assert deleted(plan(facts, config, log_start_offset=10)) == [(0, DeletionReason.LOG_START)]
        assert len(plan(facts, config, log_start_offset=30).deletions) == 2


def test_given_old_segments_when_planned_then_those_past_retention_ms_go():
    """R38: now - largest timestamp > retention_ms, so exactly as old is not yet due."""
    found = plan(segments(HOUR_MS + 1, HOUR_MS, 0), LogConfig(retention_ms=HOUR_MS))

    assert deleted(found) == [(0, DeletionReason.TIME)]
    assert [verdict.keep for verdict in found.verdicts[1:]] == [KeepReason.NOT_DUE] * 2


def test_given_too_many_bytes_when_planned_then_the_oldest_go_while_enough_is_left():
    """R38: while total - its size >= retention_bytes."""
    config = LogConfig(retention_ms=-1, retention_bytes=200)

    assert deleted(plan(segments(0, 0, 0, 0), config)) == [
        (0, DeletionReason.SIZE),
        (10, DeletionReason.SIZE),
    ]
    assert deleted(plan(segments(0, 0), config)) == []
    assert deleted(plan(segments(0, 0), LogConfig(retention_ms=-1))) == []


def test_given_an_active_segment_whose_data_is_due_when_planned_then_it_is_to_be_rolled_first():
    """R38"""
    found = plan(segments(2 * HOUR_MS, 2 * HOUR_MS), LogConfig(retention_ms=HOUR_MS))
    empty = [*segments(2 * HOUR_MS)]
    empty[0] = SegmentFacts(0, 0, 0, NOW_MS - 2 * HOUR_MS, NOW_MS - 2 * HOUR_MS, is_active=True)

    assert found.roll_active
    assert len(found.deletions) == 2
    assert plan(empty, LogConfig(retention_ms=HOUR_MS)).verdicts[0].keep is KeepReason.EMPTY_ACTIVE
    assert not plan(empty, LogConfig(retention_ms=HOUR_MS)).roll_active


def test_given_uncommitted_or_unflushed_data_when_planned_then_it_stays_and_so_does_what_follows():
    """R38: never a segment above HW or with unflushed bytes."""
    facts = segments(*[2 * HOUR_MS] * 3)
    config = LogConfig(retention_ms=HOUR_MS)

    committed = plan(facts, config, high_watermark=15)
    flushed = plan(facts, config, durable_offset=19)

    for found, reason in (
        (committed, KeepReason.ABOVE_HIGH_WATERMARK),
        (flushed, KeepReason.UNFLUSHED),
    ):
        assert deleted(found) == [(0, DeletionReason.TIME)]
        assert found.verdicts[1].keep is reason
        assert not found.roll_active


def test_given_a_timestamp_from_the_future_when_planned_then_the_file_time_counts():
    """R38, B21: nanoseconds sent for milliseconds must not keep data for ever."""
    old = NOW_MS - 2 * HOUR_MS
    facts = [
        SegmentFacts(0, 10, 100, NOW_MS * 1_000_000, old),
        SegmentFacts(10, 20, 100, NOW_MS + 1, NOW_MS, is_active=True),
    ]

    found = plan(facts, LogConfig(retention_ms=HOUR_MS))

    assert deleted(found) == [(0, DeletionReason.TIME)]


@pytest.mark.parametrize("policy", [CleanupPolicy.COMPACT, CleanupPolicy.NONE])
def test_given_a_policy_without_delete_when_planned_then_neither_time_nor_size_deletes(policy):
    """R38"""
    config = LogConfig(cleanup_policy=policy, retention_ms=1, retention_bytes=1)

    assert deleted(plan(segments(HOUR_MS, HOUR_MS, HOUR_MS), config)) == []


@given(
    ages=st.lists(st.integers(-HOUR_MS, 3 * HOUR_MS), min_size=1, max_size=6),
    log_start_offset=st.integers(0, 60),
    high_watermark=st.integers(0, 60),
    durable_offset=st.integers(0, 60),
    retention_ms=st.sampled_from([-1, 0, HOUR_MS]),
    retention_bytes=st.sampled_from([-1, 0, 150, 1_000]),
)
def test_given_any_log_when_planned_then_what_goes_is_a_run_from_the_oldest_on_and_safe_to_lose(
    ages, log_start_offset, high_watermark, durable_offset, retention_ms, retention_bytes
):
    """R38"""
    facts = segments(*ages)
    config = LogConfig(retention_ms=retention_ms, retention_bytes=retention_bytes)

    found = plan(
        facts,
        config,
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
        durable_offset=durable_offset,
    )

    count = len(found.deletions)
    assert [verdict.deletion is not None for verdict in found.verdicts] == (
        [True] * count + [False] * (len(facts) - count)
    )
    assert all((each.deletion is None) != (each.keep is None) for each in found.verdicts)
    for fact in facts[:count]:
        assert fact.next_base_offset <= min(high_watermark, durable_offset)
    assert found.roll_active == (count == len(facts))
