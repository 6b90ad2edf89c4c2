"""SegmentSplits: what is planned while retention deletes what was listed."""

from __future__ import annotations

import pytest

from protocol.identifiers import TopicPartition
from tests.support.spark_logs import some_records, write_partition
from tidelog.segments.errors import DataLossError
from tidelog.segments.location import locate
from tidelog.spark.offset_ranges import Bounds, OffsetRange
from tidelog.spark.options import SourceOptions
from tidelog.spark.segment_splits import SegmentSplits

WEB = TopicPartition("web", 0)
ALL = OffsetRange(WEB, 0, 250)


def listed(root, **options) -> SegmentSplits:
    return SegmentSplits(locate(root), SourceOptions(**options))


def test_given_segments_when_split_then_each_offset_is_in_one_split(tmp_path):
    write_partition(tmp_path, "web", 0, some_records(250))

    plain = listed(tmp_path).splits([ALL])
    many = listed(tmp_path, min_partitions=10).splits([ALL])

    assert [(each.start_offset, each.end_offset) for each in plain] == [
        (0, 100), (100, 200), (200, 250),
    ]  # fmt: skip
    assert len(many) >= 10
    assert [n for each in many for n in range(each.start_offset, each.end_offset)] == list(
        range(250)
    )


def test_given_a_segment_gone_since_the_listing_when_planned_then_it_fails_or_is_left_out(tmp_path):
    first, *_ = write_partition(tmp_path, "web", 0, some_records(250))
    strict, lenient = listed(tmp_path), listed(tmp_path, fail_on_data_loss=False)

    first.unlink()

    with pytest.raises(DataLossError):
        strict.splits([ALL])
    assert [each.start_offset for each in lenient.splits([ALL])] == [100, 200]
    assert lenient.bounds([WEB]) == {WEB: Bounds(100, 250)}


def test_given_a_partition_gone_since_the_listing_when_planned_then_it_fails(tmp_path):
    paths = write_partition(tmp_path, "web", 0, some_records(50))
    write_partition(tmp_path, "web", 1, some_records(50))
    lenient = listed(tmp_path, fail_on_data_loss=False)

    for path in paths:
        path.unlink()
    paths[0].parent.rmdir()

    with pytest.raises(DataLossError):
        lenient.bounds([WEB])
