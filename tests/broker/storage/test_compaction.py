"""Which part of a log is cleaned, when, in which pieces (design, "Retention and compaction")."""

import msgspec
import pytest

from broker.storage.compaction import (
    CompactionSegment,
    SegmentSizes,
    group_segments,
    plan_cleaning,
)
from broker.storage.log_config import CleanupPolicy, LogConfig

NOW_MS = 1_000_000
CONFIG = LogConfig(cleanup_policy=CleanupPolicy.COMPACT)
SEGMENTS = [CompactionSegment(base, base + 10, 100) for base in (0, 10, 20, 30)]
"""Four of ten offsets and 100 bytes; the last one is active."""


def plan(segments=SEGMENTS, config=CONFIG, **changes):
    facts = {"cleaned_offset": None, "log_start_offset": 0, "limit_offset": 40, "now_ms": NOW_MS}
    return plan_cleaning(segments, config, **facts | changes)


def with_settings(**settings):
    return msgspec.structs.replace(CONFIG, **settings)


def test_given_a_log_never_cleaned_when_planned_then_all_but_the_active_segment_is_dirty():
    found = plan()

    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (0, 30)
    assert (found.clean_bytes, found.cleanable_bytes) == (0, 300)
    assert found.dirty_ratio == 1.0
    assert found.is_due(0.99)


@pytest.mark.parametrize(
    ("cleaned_offset", "ratio", "is_due"), [(10, 2 / 3, True), (20, 1 / 3, False), (30, 0, False)]
)
def test_given_a_cleaned_part_when_planned_then_the_ratio_decides(cleaned_offset, ratio, is_due):
    found = plan(cleaned_offset=cleaned_offset)

    assert found.first_dirty_offset == cleaned_offset
    assert found.dirty_ratio == pytest.approx(ratio)
    assert found.is_due(0.5) is is_due


def test_given_a_ratio_of_zero_when_nothing_is_dirty_then_it_is_not_due():
    assert not plan(cleaned_offset=30).is_due(0.0)


def test_given_a_pass_that_ended_in_a_segment_when_planned_then_that_segment_is_dirty():
    found = plan(cleaned_offset=15)

    assert found.first_dirty_offset == 15
    assert (found.clean_bytes, found.cleanable_bytes) == (100, 200)


@pytest.mark.parametrize(("limit", "uncleanable"), [(40, 30), (29, 20), (20, 20), (9, 0), (0, 0)])
def test_given_a_limit_when_planned_then_its_segment_is_left_alone(limit, uncleanable):
    assert plan(limit_offset=limit).first_uncleanable_offset == uncleanable


@pytest.mark.parametrize("cleaned_offset", [5, 41])
def test_given_a_checkpoint_that_cannot_be_when_planned_then_it_begins_at_the_log_start(
    cleaned_offset,
):
    """The log was trimmed, or cut and written anew."""
    assert plan(cleaned_offset=cleaned_offset, log_start_offset=12).first_dirty_offset == 12


def test_given_a_lag_when_planned_then_the_first_young_dirty_segment_ends_it():
    segments = [
        msgspec.structs.replace(each, largest_timestamp_ms=NOW_MS - age)
        for each, age in zip(SEGMENTS, (5000, 500, 5000, 0), strict=True)
    ]

    config = with_settings(min_compaction_lag_ms=1000)

    assert plan(segments, config).first_uncleanable_offset == 10
    assert plan(segments, config, cleaned_offset=20).first_uncleanable_offset == 30
    assert plan(segments, with_settings()).first_uncleanable_offset == 30


def test_given_an_old_dirty_record_when_planned_then_it_is_due_whatever_the_ratio():
    segments = [
        msgspec.structs.replace(each, first_timestamp_ms=NOW_MS - age)
        for each, age in zip(SEGMENTS, (9000, 500, 1500, 0), strict=True)
    ]

    assert plan(segments, with_settings(max_compaction_lag_ms=1000), cleaned_offset=20).is_overdue
    assert not plan(segments, with_settings(max_compaction_lag_ms=2000), cleaned_offset=20).is_due(
        0.5
    )
    assert not plan(segments, with_settings(max_compaction_lag_ms=1000), cleaned_offset=30).is_due(
        0.5
    )


def sizes(*rows):
    return [SegmentSizes(*row) for row in rows]


def bases(groups):
    return [[each.base_offset for each in group] for group in groups]


def test_given_small_segments_when_grouped_then_neighbours_share_up_to_the_size():
    segments = sizes(*((base, base + 10, 40, 8, 12) for base in range(0, 60, 10)))

    found = group_segments(segments, segment_bytes=100, segment_index_bytes=1000)

    assert bases(found) == [[0, 10], [20, 30], [40, 50]]


def test_given_large_indexes_when_grouped_then_they_bound_a_group_too():
    segments = sizes(*((base, base + 10, 40, 8, 12) for base in range(0, 40, 10)))

    found = group_segments(segments, segment_bytes=1000, segment_index_bytes=24)

    assert bases(found) == [[0, 10], [20, 30]]


def test_given_far_offsets_when_grouped_then_none_is_out_of_reach():
    """Segments with gaps: KAFKA-2024, KAFKA-5413, KAFKA-6264 (B14)."""
    far = 2**31
    segments = sizes((0, 10, 1, 0, 0), (10, far, 1, 0, 0), (far, far + 1, 1, 0, 0))

    found = group_segments(segments, segment_bytes=100, segment_index_bytes=100)

    assert bases(found) == [[0, 10], [far]]


def test_given_a_segment_over_the_size_when_grouped_then_it_is_alone():
    segments = sizes((0, 10, 500, 0, 0), (10, 20, 10, 0, 0), (20, 30, 10, 0, 0))

    found = group_segments(segments, segment_bytes=100, segment_index_bytes=100)

    assert bases(found) == [[0], [10, 20]]


# --- exactly at a limit ---------------------------------------------------------------------------


def test_given_exactly_the_wanted_ratio_when_planned_then_it_is_not_due():
    """As in Kafka: the ratio must be above it."""
    assert plan(cleaned_offset=20).dirty_ratio == 1 / 3
    assert not plan(cleaned_offset=20).is_due(1 / 3)


@pytest.mark.parametrize(("age_ms", "uncleanable"), [(999, 0), (1000, 30)])
def test_given_a_record_as_old_as_the_lag_when_planned_then_it_can_be_cleaned(age_ms, uncleanable):
    segments = [
        msgspec.structs.replace(each, largest_timestamp_ms=NOW_MS - age_ms) for each in SEGMENTS
    ]

    found = plan(segments, with_settings(min_compaction_lag_ms=1000))

    assert found.first_uncleanable_offset == uncleanable


@pytest.mark.parametrize(
    ("first_timestamp_ms", "is_overdue"),
    [(NOW_MS - 1000, False), (NOW_MS - 1001, True), (0, False), (-1, False)],
)
def test_given_a_first_record_when_planned_then_it_is_overdue_past_the_lag_and_if_its_time_is_known(
    first_timestamp_ms, is_overdue
):
    segments = [
        msgspec.structs.replace(each, first_timestamp_ms=first_timestamp_ms) for each in SEGMENTS
    ]

    assert plan(segments, with_settings(max_compaction_lag_ms=1000)).is_overdue is is_overdue


def test_given_segments_that_fill_one_exactly_when_grouped_then_they_are_together():
    segments = sizes(*((base, base + 10, 50, 8, 12) for base in range(0, 40, 10)))

    assert bases(group_segments(segments, segment_bytes=100, segment_index_bytes=24)) == [
        [0, 10], [20, 30],
    ]  # fmt: skip
    assert len(group_segments(segments, segment_bytes=99, segment_index_bytes=24)) == 4
    assert len(group_segments(segments, segment_bytes=100, segment_index_bytes=23)) == 4


@pytest.mark.parametrize(("last_offset", "groups"), [(2**31 - 1, 1), (2**31, 2)])
def test_given_the_furthest_offset_when_grouped_then_it_may_be_in_the_group(last_offset, groups):
    segments = sizes((0, 10, 1, 0, 0), (10, last_offset + 1, 1, 0, 0))

    assert len(group_segments(segments, segment_bytes=100, segment_index_bytes=100)) == groups
