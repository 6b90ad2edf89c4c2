"""Filters: what Spark's filters say of offsets, partitions and times, and what they do not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.sql import datasource as spark

from protocol.errors import BrokerError, ErrorCode
from protocol.identifiers import TopicPartition
from tidelog.spark import filters
from tidelog.spark.offset_ranges import OffsetRange

WEB2 = TopicPartition("web", 2)
NOON = datetime(2026, 11, 22, 12, 0, 0, 500, tzinfo=UTC)
NOON_MS = int(NOON.timestamp()) * 1_000


class Times:
    """Its records of offset n have the time NOON + n seconds, up to offset 99."""

    def offset_for_time(self, partition, timestamp_ms):
        offset = max(0, -(-(timestamp_ms - NOON_MS) // 1_000))
        return offset if offset < 100 else None


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ([], (0, 100)),
        ([spark.IsNotNull(("offset",)), spark.IsNotNull(("partition",))], (0, 100)),
        ([spark.EqualTo(("offset",), 7)], (7, 8)),
        ([spark.EqualNullSafe(("offset",), 7)], (7, 8)),
        ([spark.EqualNullSafe(("offset",), None)], (0, 100)),
        ([spark.GreaterThan(("offset",), 7), spark.LessThan(("offset",), 12)], (8, 12)),
        ([spark.GreaterThanOrEqual(("offset",), 7)], (7, 100)),
        ([spark.LessThanOrEqual(("offset",), 12)], (0, 13)),
        ([spark.In(("offset",), (9, 3, 5))], (3, 10)),
        ([spark.Not(spark.EqualTo(("offset",), 7))], (0, 100)),
        ([spark.LessThan(("offset",), 0)], None),
        ([spark.EqualTo(("partition",), 2)], (0, 100)),
        ([spark.In(("partition",), (1, 3))], None),
        ([spark.In(("partition",), (1, 2)), spark.EqualTo(("partition",), 1)], None),
        ([spark.GreaterThan(("partition",), 2)], None),
        ([spark.EqualTo(("topic",), "ssh")], None),
        ([spark.In(("topic",), ("ssh", "web"))], (0, 100)),
        ([spark.In(("topic",), ("ssh", "web")), spark.EqualTo(("topic",), "ssh")], None),
        ([spark.EqualTo(("value",), b"x"), spark.StringContains(("topic",), "x")], (0, 100)),
        ([spark.GreaterThanOrEqual(("timestamp",), NOON)], (1, 100)),
        ([spark.GreaterThanOrEqual(("timestamp",), NOON + timedelta(days=1))], None),
        ([spark.LessThan(("timestamp",), NOON)], (0, 100)),
        ([spark.GreaterThan(("timestamp",), NOON.replace(tzinfo=None))], (0, 100)),
    ],
)  # fmt: skip
def test_given_filters_when_pushed_then_these_offsets_are_left_of_0_to_99(given, left):
    narrowed = filters.pushed(given).narrowed(OffsetRange(WEB2, 0, 100), Times())

    assert narrowed == (None if left is None else OffsetRange(WEB2, *left))


@pytest.mark.parametrize(
    ("kind", "start_ms", "end_ms"),
    [
        (spark.GreaterThan, 1, None),
        (spark.GreaterThanOrEqual, 1, None),
        (spark.LessThan, None, 1),
        (spark.LessThanOrEqual, None, 1),
        (spark.EqualTo, 1, 1),
    ],
)
def test_given_a_time_between_milliseconds_when_pushed_then_those_that_can_meet_it(
    kind, start_ms, end_ms
):
    east = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))

    pushed = filters.pushed([kind(("timestamp",), east)])

    assert pushed.start_timestamp_ms == (None if start_ms is None else NOON_MS + start_ms)
    assert pushed.end_timestamp_ms == (None if end_ms is None else NOON_MS + end_ms)


class Damaged:
    """A broker that meets damage when it looks for a time."""

    def offset_for_time(self, partition, timestamp_ms):
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE)


def test_given_damage_on_the_way_to_a_time_when_narrowed_then_the_read_meets_it():
    pushed = filters.pushed([spark.GreaterThan(("timestamp",), NOON)])

    assert pushed.narrowed(OffsetRange(WEB2, 3, 9), Damaged()) == OffsetRange(WEB2, 3, 9)


def test_given_rows_of_damage_when_pushed_then_offsets_are_left_to_spark():
    given = [spark.GreaterThan(("offset",), 7), spark.EqualTo(("partition",), 2)]

    pushed = filters.pushed(given, with_offsets=False)

    assert pushed == filters.pushed(given[1:])


def test_given_a_whole_millisecond_when_pushed_then_its_records_are_in_or_out():
    whole = NOON.replace(microsecond=0)

    after = filters.pushed([spark.GreaterThan(("timestamp",), whole)])
    upto = filters.pushed([spark.LessThanOrEqual(("timestamp",), whole)])

    assert after.start_timestamp_ms == NOON_MS + 1
    assert upto.end_timestamp_ms == NOON_MS + 1
    assert not filters.are_asked_for()
