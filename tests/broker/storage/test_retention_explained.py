"""Why each segment is kept, or when it goes: told as `retention` decides it (R38)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.log_config import CleanupPolicy, LogConfig
from broker.storage.retention import SegmentFacts, plan_retention
from broker.storage.retention_explained import SegmentExplanation, explain

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def segments(*ages_ms: int) -> list[SegmentFacts]:
    """Segments of ten offsets and 100 bytes each, oldest first; the last one is active."""
    return [
        SegmentFacts(
            base_offset=10 * number,
            next_base_offset=10 * number + 10,
            size_bytes=100,
            largest_timestamp_ms=NOW_MS - age_ms,
            modified_at_ms=NOW_MS - max(0, age_ms),
            is_active=number == len(ages_ms) - 1,
        )
        for number, age_ms in enumerate(ages_ms)
    ]


def explained(
    facts: list[SegmentFacts],
    config: LogConfig,
    *,
    log_start_offset: int = 0,
    high_watermark: int = 1_000,
    durable_offset: int = 1_000,
) -> list[SegmentExplanation]:
    return list(
        explain(
            facts,
            config,
            size_bytes=sum(each.size_bytes for each in facts),
            log_start_offset=log_start_offset,
            high_watermark=high_watermark,
            durable_offset=durable_offset,
            now_ms=NOW_MS,
        )
    )


def told(found: list[SegmentExplanation]) -> list[tuple[bool, str | None, str]]:
    return [(each.goes_next_round, each.rule, each.reason) for each in found]


def test_given_ages_when_explained_then_each_tells_when_it_goes_and_never_before_an_older_one():
    found = explained(segments(2 * HOUR_MS, 600, 700, 0), LogConfig(retention_ms=HOUR_MS))

    assert told(found) == [
        (True, "retention_ms", "is older than retention.ms"),
        *[(False, "retention_ms", "goes by retention.ms")] * 3,
    ]
    due = [None if each.due_at_ms is None else each.due_at_ms - NOW_MS for each in found]
    assert due == [None, HOUR_MS - 599, HOUR_MS - 599, HOUR_MS + 1]


def test_given_sizes_when_explained_then_what_is_missing_is_told():
    found = explained(segments(0, 0, 0, 0), LogConfig(retention_ms=-1, retention_bytes=250))

    assert told(found) == [
        (True, "retention_bytes", "the newer ones alone fill retention.bytes"),
        (False, "retention_bytes", "goes by retention.bytes after 50 more bytes"),
        (False, "retention_bytes", "goes by retention.bytes after 150 more bytes"),
        (False, "retention_bytes", "goes by retention.bytes after 250 more bytes"),
    ]
    assert all(each.due_at_ms is None for each in found)


def test_given_a_log_start_when_explained_then_what_lies_below_goes_under_every_policy():
    compacted = LogConfig(cleanup_policy=CleanupPolicy.COMPACT, retention_ms=1)
    stays = "cleanup.policy=compact: only delete-records removes segments"

    found = explained(segments(HOUR_MS, HOUR_MS), compacted, log_start_offset=12)

    assert told(found) == [
        (True, "log start offset", "lies below the log start"),
        (False, None, stays),
    ]


@pytest.mark.parametrize(
    ("offsets", "why"),
    [
        ({"high_watermark": 15}, "not all of it is committed"),
        ({"durable_offset": 15}, "not all of it is synced"),
    ],
)
def test_given_what_must_not_go_when_it_is_due_then_both_are_told(
    offsets: dict[str, int], why: str
):
    found = explained(segments(*[2 * HOUR_MS] * 3), LogConfig(retention_ms=HOUR_MS), **offsets)

    assert told(found) == [
        (True, "retention_ms", "is older than retention.ms"),
        *[(False, "retention_ms", f"is older than retention.ms, but {why}")] * 2,
    ]


def test_given_a_younger_one_in_between_when_explained_then_what_is_behind_it_waits_for_it():
    found = explained(segments(0, 2 * HOUR_MS), LogConfig(retention_ms=HOUR_MS))

    assert told(found)[1] == (
        False,
        "retention_ms",
        "is older than retention.ms, but an older segment stays",
    )
    assert found[1].due_at_ms == found[0].due_at_ms == NOW_MS + HOUR_MS + 1


def test_given_the_cleaner_at_it_when_due_then_it_is_left_alone():
    facts = [
        SegmentFacts(0, 10, 100, 0, 0, is_being_cleaned=True),
        SegmentFacts(10, 20, 100, 0, 0, is_active=True),
    ]

    found = explained(facts, LogConfig(retention_ms=HOUR_MS))

    assert not any(each.goes_next_round for each in found)
    assert found[0].reason == "is older than retention.ms, but the cleaner is at it"


def test_given_timestamps_from_the_future_when_explained_then_the_files_time_counts():
    """B21: they are told as they are, and keep nothing for ever."""
    found = explained(segments(-5 * HOUR_MS), LogConfig(retention_ms=HOUR_MS))

    assert found[0].largest_timestamp_ms == NOW_MS + 5 * HOUR_MS
    assert found[0].due_at_ms == NOW_MS + HOUR_MS + 1
    assert "from the future" in found[0].reason


def test_given_nothing_that_limits_it_when_explained_then_that_is_told():
    empty = [SegmentFacts(0, 0, 0, NOW_MS, NOW_MS, is_active=True)]

    assert told(explained(segments(0), LogConfig(retention_ms=-1))) == [
        (False, None, "neither retention.ms nor retention.bytes limits it")
    ]
    assert told(explained(empty, LogConfig())) == [(False, None, "active and empty")]
    assert explained(empty, LogConfig())[0].largest_timestamp_ms is None


@given(
    ages=st.lists(st.integers(-HOUR_MS, 3 * HOUR_MS), min_size=1, max_size=6),
    log_start_offset=st.integers(0, 60),
    high_watermark=st.integers(0, 60),
    durable_offset=st.integers(0, 60),
    retention_ms=st.sampled_from([-1, 0, HOUR_MS]),
    retention_bytes=st.sampled_from([-1, 0, 150, 1_000]),
    cleanup_policy=st.sampled_from(list(CleanupPolicy)),
)
def test_given_any_log_when_explained_then_it_tells_what_the_plan_does(
    ages, log_start_offset, high_watermark, durable_offset, retention_ms, retention_bytes,
    cleanup_policy,
):  # fmt: skip
    """And each segment has a reason, and a time where a rule of time may let it go."""
    facts = segments(*ages)
    config = LogConfig(
        retention_ms=retention_ms, retention_bytes=retention_bytes, cleanup_policy=cleanup_policy
    )
    offsets = {
        "log_start_offset": log_start_offset,
        "high_watermark": high_watermark,
        "durable_offset": durable_offset,
    }

    found = explained(facts, config, **offsets)
    plan = plan_retention(facts, config, now_ms=NOW_MS, **offsets)

    goes = [each.deletion is not None for each in plan.verdicts]
    assert [each.goes_next_round for each in found] == goes
    assert all(each.reason for each in found)
    for each in found:
        by_time = config.cleanup_policy.deletes and retention_ms >= 0 and not each.goes_next_round
        assert (each.due_at_ms is not None) == by_time
