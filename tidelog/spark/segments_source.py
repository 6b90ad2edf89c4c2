"""`tidelog_segments`: the records of a data directory, as a table or a stream, without a broker."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidelog.spark.directory_reader import directory_reader
from tidelog.spark.offset_ranges import OffsetRange, Partitions
from tidelog.spark.options import SEGMENTS_OPTIONS, SourceOptions, parse_options
from tidelog.spark.schema import spark_schema
from tidelog.spark.segment_splits import SegmentSplits
from tidelog.spark.split_rows import RecordRows
from tidelog.spark.topic_stream import TopicStream

__all__ = ["SegmentsSource"]


class SegmentsSource(DataSource):
    """`spark.read.format("tidelog_segments")`; the options are SEGMENTS_OPTIONS."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._parsed = parse_options(options, SEGMENTS_OPTIONS, required="path")

    @classmethod
    def name(cls) -> str:
        return "tidelog_segments"

    def schema(self) -> str:
        return spark_schema(
            with_headers=self._parsed.include_headers,
            with_corrupt=self._parsed.on_corrupt == "tag",
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        return directory_reader(self._parsed, RecordRows(self._parsed, schema))

    def streamReader(self, schema: StructType) -> TopicStream:
        return SegmentsStream(self._parsed, schema)


class SegmentsStream(TopicStream):
    """A stream over a data directory that a broker may be writing to."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options)
        self._rows = RecordRows(options, schema)

    def partitions_now(self) -> SegmentSplits:
        return SegmentSplits(self._rows.location, self.options)

    def inputs(self, partitions: Partitions, ranges: list[OffsetRange]) -> list[InputPartition]:
        assert isinstance(partitions, SegmentSplits), "what `partitions_now` returned"
        return [InputPartition(split) for split in partitions.splits(ranges)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._rows.read(partition)
