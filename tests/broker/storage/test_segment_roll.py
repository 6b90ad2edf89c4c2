"""LogSegment.should_roll: when the next batch belongs into a new segment."""

from __future__ import annotations

import pytest

from broker.storage.log_config import CleanupPolicy, LogConfig
from tests.support.segments import Workbench, batch, fill, run

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000  # of a ManualClock


def with_config(**settings):
    return Workbench(config=LogConfig(**{"segment_index_bytes": 4096, **settings}))


def rolls(segment, *, size=100, last_offset=1_000, timestamp=-1, now_ms=NOW_MS):
    return segment.should_roll(size, last_offset, timestamp, now_ms)


def test_given_a_size_limit_when_a_batch_would_pass_it_then_roll():
    """R26: when the batch would pass `segment_bytes`; not when it just fits."""
    batches = run(2)
    size = len(batches[0].data)
    segment = with_config(segment_bytes=2 * size).create()
    empty_rolls = rolls(segment, size=3 * size)

    fill(segment, batches[:1])

    assert not empty_rolls  # a new segment would be as small
    assert not rolls(segment, size=size)
    assert rolls(segment, size=size + 1)


def test_given_a_segment_limit_above_2_gib_when_opened_then_it_is_capped():
    """R26, B15: `segment_bytes <= 2^31-1`: positions in the index are 31 bits."""
    segment = with_config(segment_bytes=2**40).create()
    fill(segment, run(1))

    at_the_limit = rolls(segment, size=2**31 - 1 - segment.size_bytes)

    assert not at_the_limit
    assert rolls(segment, size=2**31 - segment.size_bytes)


def test_given_records_of_another_hour_when_asked_then_record_time_decides():
    """R26: the batch's timestamp minus the first batch's exceeds `segment_ms`."""
    segment = with_config(segment_ms=HOUR_MS).create()
    fill(segment, [batch(0, [5_000]), batch(1, [9_000])])

    just_in_time = rolls(segment, timestamp=5_000 + HOUR_MS, now_ms=NOW_MS + 100 * HOUR_MS)

    assert not just_in_time
    assert rolls(segment, timestamp=5_001 + HOUR_MS)


@pytest.mark.parametrize("policy", CleanupPolicy)
def test_given_a_compaction_lag_when_asked_then_a_compacted_log_rolls_in_time_for_it(policy):
    """What is in the active segment is not cleaned; as Kafka's LogConfig.maxSegmentMs."""
    settings = {"cleanup_policy": policy, "max_compaction_lag_ms": 60_000}
    segment = with_config(segment_ms=HOUR_MS, **settings).create()
    fill(segment, [batch(0, [5_000])])

    assert not rolls(segment, timestamp=65_000)
    assert rolls(segment, timestamp=65_001) is policy.compacts


@pytest.mark.parametrize(("first", "new"), [(-1, -1), (-1, 7 * HOUR_MS), (5_000, -1)])
def test_given_no_timestamps_when_asked_then_the_clock_decides(first, new):
    """R26: now minus the creation time where either batch has no timestamp."""
    segment = with_config(segment_ms=HOUR_MS).create()
    fill(segment, [batch(0, [first])])

    just_in_time = rolls(segment, timestamp=new, now_ms=NOW_MS + HOUR_MS)

    assert not just_in_time
    assert rolls(segment, timestamp=new, now_ms=NOW_MS + HOUR_MS + 1)


def test_given_an_old_empty_segment_when_asked_then_it_does_not_roll():
    """R26: an empty segment does not roll for age."""
    bench = with_config(segment_ms=HOUR_MS)
    segment = bench.create()

    result = rolls(segment, timestamp=NOW_MS, now_ms=NOW_MS + 100 * HOUR_MS)

    assert not result


@pytest.mark.parametrize(
    ("share", "after_ms"), [(0.0, 1_000), (0.5, 900), (0.999_999, 800)], ids=["0", "half", "all"]
)
def test_given_jitter_when_opened_then_it_rolls_earlier_by_a_share_of_it(share, after_ms):
    """R26: `segment_ms - jitter`, jitter random in [0, `segment_jitter_ms`]."""
    bench = with_config(segment_ms=1_000, segment_jitter_ms=200)
    segment = bench.create(jitter=lambda: share)
    fill(segment, [batch(0, [5_000])])

    just_in_time = rolls(segment, timestamp=5_000 + after_ms)

    assert not just_in_time
    assert rolls(segment, timestamp=5_001 + after_ms)


def test_given_jitter_above_the_segments_time_when_opened_then_it_is_capped():
    """R26: a segment never rolls before it has any age."""
    segment = with_config(segment_ms=10, segment_jitter_ms=10**9).create(jitter=lambda: 0.99)
    fill(segment, [batch(0, [5_000])])

    result = rolls(segment, timestamp=5_000)

    assert not result


@pytest.mark.parametrize("timestamps", [range(100, 200), [5] * 100], ids=["time", "offset"])
def test_given_a_full_index_when_asked_then_roll(timestamps):
    """R26: when either index is full, the time index or (here with its larger room) the other."""
    bench = with_config(index_interval_bytes=0, segment_index_bytes=96)
    segment = bench.create()
    for number, timestamp in enumerate(timestamps):
        if rolls(segment, last_offset=number):
            break
        fill(segment, [batch(number, [timestamp])])

    fullness = segment.offset_index.is_full, segment.time_index.is_full

    assert fullness == ((False, True) if timestamps[1] > timestamps[0] else (True, False))


def test_given_an_offset_out_of_reach_when_asked_then_roll_even_if_empty():
    """R26: last offset less base offset would exceed 2^31-1."""
    segment = Workbench().create(7)

    just_in_reach = rolls(segment, last_offset=7 + 2**31 - 1)

    assert not just_in_reach
    assert rolls(segment, last_offset=7 + 2**31)


def test_given_changed_settings_when_asked_then_they_hold_at_once():
    """R26: with the settings of today."""
    bench = Workbench()
    segment = bench.create()
    fill(segment, run(3))
    before = rolls(segment)

    segment.update_config(LogConfig(segment_bytes=segment.size_bytes + 99))

    assert not before
    assert rolls(segment)


def test_given_a_loaded_segment_when_asked_then_the_first_batch_is_read_once():
    """R26: the first batch's timestamp comes from the file, and is kept."""
    bench = with_config(segment_ms=HOUR_MS)
    bench.closed([batch(0, [5_000]), batch(1, [5_000])])
    segment = bench.open(active=True)
    segment.next_offset()

    results = [rolls(segment, timestamp=each + HOUR_MS) for each in (5_000, 5_001)]

    assert results == [False, True]
    assert segment.first_batch_timestamp() == 5_000
