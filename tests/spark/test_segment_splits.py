"""SegmentSplits: what is planned while retention deletes what was listed."""

from __future__ import annotations

import pytest

from protocol.identifiers import TopicPartition
from tests.support.spark_logs import some_records, write_partition, write_segment
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


def test_given_segments_merged_since_the_listing_when_planned_then_in_their_place(tmp_path):
    records = some_records(250)
    _, second, third = write_partition(tmp_path, "web", 0, records)
    strict = listed(tmp_path)

    write_segment(tmp_path / "web-0", records)
    second.unlink()
    third.unlink()

    (split,) = strict.splits([ALL])
    assert (split.start_offset, split.end_offset, split.base_offset) == (0, 250, 0)


def test_given_a_partition_gone_since_the_listing_when_planned_then_it_is_loss(tmp_path):
    paths = write_partition(tmp_path, "web", 0, some_records(50))
    write_partition(tmp_path, "web", 1, some_records(50))
    strict, lenient = listed(tmp_path), listed(tmp_path, fail_on_data_loss=False)

    for path in paths:
        path.unlink()
    paths[0].parent.rmdir()

    assert lenient.bounds([WEB]) == {}
    assert lenient.splits([ALL]) == []
    with pytest.raises(DataLossError, match="offsets 0 to 249 of web-0 are there no more"):
        strict.splits([ALL])
