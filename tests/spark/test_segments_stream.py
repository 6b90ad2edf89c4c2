"""`tidelog_segments` as a stream: each offset once, whatever the limits, restarts and growth."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import StreamingQueryException

from protocol.identifiers import TopicPartition
from tests.support.spark_logs import (
    collected,
    rows_of,
    some_records,
    write_checkpoint,
    write_partition,
    write_segment,
)
from tidelog.segments.errors import DataLossError
from tidelog.spark.options import SEGMENTS_OPTIONS, parse_options
from tidelog.spark.schema import spark_schema
from tidelog.spark.segments_source import SegmentsStream

RECORDS = some_records(200)

pytestmark = pytest.mark.usefixtures("spark")  # what parses a schema is in its Java


class Stream:
    """A query that copies a directory's records to Parquet; runs to the end of what is there."""

    def __init__(self, spark, root, home, **options):
        self.spark, self.root, self.home, self.options = spark, root, home, options

    def run(self):
        """Return the rows of each batch and the offsets it ended at."""
        reader = self.spark.readStream.format("tidelog_segments").options(**self.options)
        query = (
            reader.load(str(self.root))
            .writeStream.format("parquet")
            .option("path", str(self.home / "out"))
            .option("checkpointLocation", str(self.home / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        progress = [each for each in query.recentProgress if each["numInputRows"]]
        return [
            (each["numInputRows"], json.loads(each["sources"][0]["endOffset"])) for each in progress
        ]

    def rows(self):
        return collected(self.spark.read.parquet(str(self.home / "out")))


def test_given_a_limit_restarts_and_growth_when_streamed_then_each_offset_once(spark, tmp_path):
    root = tmp_path / "logs"
    write_partition(root, "web", 0, RECORDS[:90], per_segment=40)
    write_partition(root, "web", 1, RECORDS[:30])
    stream = Stream(
        spark, root, tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger="60",
        minPartitions="3",
    )  # fmt: skip

    first = stream.run()
    again = stream.run()
    write_segment(root / "web-0", RECORDS[90:100])
    write_partition(root, "web", 2, RECORDS[:20])
    grown = stream.run()

    assert first == [
        (60, {"web": {"0": 45, "1": 15}}),
        (60, {"web": {"0": 90, "1": 30}}),
    ]
    assert again == []
    assert grown == [(30, {"web": {"0": 100, "1": 30, "2": 20}})]
    assert stream.rows() == sorted(
        rows_of(RECORDS[:100], "web", 0)
        + rows_of(RECORDS[:30], "web", 1)
        + rows_of(RECORDS[:20], "web", 2)
    )


def test_given_retention_between_two_runs_when_streamed_then_it_fails_or_goes_on(spark, tmp_path):
    root = tmp_path / "logs"
    write_partition(root, "web", 0, RECORDS[:50])
    strict = Stream(spark, root, tmp_path, startingOffsets="earliest")
    strict.run()
    write_segment(root / "web-0", RECORDS[100:120])
    (root / "web-0" / f"{0:020}.log").unlink()

    with pytest.raises(
        StreamingQueryException,
        match="offsets 50 to 119 of web-0 were asked for, it has 100 to 119",
    ):
        strict.run()
    lenient = Stream(spark, root, tmp_path, startingOffsets="earliest", failOnDataLoss="false")
    lenient.run()

    assert lenient.rows() == rows_of(RECORDS[:50] + RECORDS[100:120], "web", 0)


def made_stream(root, **options):
    from pyspark.sql.types import StructType

    parsed = parse_options({"path": str(root), **options}, SEGMENTS_OPTIONS)
    return SegmentsStream(parsed, StructType.fromDDL(spark_schema()))


def test_given_a_live_directory_when_asked_for_its_end_then_the_high_watermark(tmp_path):
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    write_partition(tmp_path, "web", 0, RECORDS)
    write_checkpoint(tmp_path, "replication-offset-checkpoint", {("web", 0): 70})
    stream = made_stream(tmp_path, maxOffsetsPerTrigger="50")

    start = stream.initialOffset()
    assert start == {"web": {"0": 70}}
    assert stream.partitions(start, start) == []
    assert stream.latestOffset(start, ReadAllAvailable()) == start

    write_checkpoint(tmp_path, "replication-offset-checkpoint", {("web", 0): 150})
    assert stream.latestOffset(start, ReadAllAvailable()) == {"web": {"0": 150}}
    assert stream.latestOffset(start, stream.getDefaultReadLimit()) == {"web": {"0": 120}}
    assert stream.getDefaultReadLimit() == ReadMaxRows(50)
    assert stream.reportLatestOffset() == {"web": {"0": 150}}

    stream.prepareForTriggerAvailableNow()
    write_checkpoint(tmp_path, "replication-offset-checkpoint", {("web", 0): 200})
    write_partition(tmp_path, "web", 1, RECORDS)
    assert stream.latestOffset(start, ReadAllAvailable()) == {"web": {"0": 150}}


def test_given_segments_merged_under_a_task_when_read_then_nothing_is_missed_or_doubled(tmp_path):
    first, second = write_partition(tmp_path, "web", 0, RECORDS)
    stream = made_stream(tmp_path)
    tasks = stream.partitions({"web": {"0": 30}}, {"web": {"0": 180}})
    assert len(tasks) == 2

    write_segment(tmp_path / "web-0", RECORDS)
    second.unlink()

    found = [row for task in tasks for batch in stream.read(task) for row in batch.to_pylist()]
    assert [row["offset"] for row in found] == list(range(30, 180))
    first.unlink()
    with pytest.raises(DataLossError):
        list(stream.read(tasks[0]))


def test_given_the_same_offsets_when_planned_again_then_the_same_splits_though_it_grew(tmp_path):
    write_partition(tmp_path, "web", 0, RECORDS[:100])
    stream = made_stream(tmp_path)
    ends = {"web": {"0": 40}}, {"web": {"0": 90}}

    before = [each.value for each in stream.partitions(*ends)]
    write_segment(tmp_path / "web-0", RECORDS[100:])
    after = [each.value for each in stream.partitions(*ends)]

    assert [(each.start_offset, each.end_offset) for each in before] == [(40, 90)]
    assert [each[:8] for each in after] == [each[:8] for each in before]
    assert TopicPartition(before[0].topic, before[0].partition) == TopicPartition("web", 0)
