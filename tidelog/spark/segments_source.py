"""`tidelog_segments`: the records of a data directory, as a table or a stream, without a broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidelog.segments.errors import OptionError
from tidelog.spark import filters
from tidelog.spark.filters import Pushed
from tidelog.spark.offset_ranges import OffsetRange, Partitions, batch_ranges
from tidelog.spark.options import SEGMENTS_OPTIONS, SourceOptions, parse_options
from tidelog.spark.schema import spark_schema
from tidelog.spark.segment_rows import SegmentRows
from tidelog.spark.segment_splits import SegmentSplits
from tidelog.spark.topic_stream import TopicStream

__all__ = ["SegmentsSource"]


class SegmentsSource(DataSource):
    """`spark.read.format("tidelog_segments")`; the options are SEGMENTS_OPTIONS."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._parsed = parse_options(options, SEGMENTS_OPTIONS)
        if self._parsed.path is None:
            raise OptionError("option path is missing: the data directory to read")

    @classmethod
    def name(cls) -> str:
        return "tidelog_segments"

    def schema(self) -> str:
        return spark_schema(
            with_headers=self._parsed.include_headers,
            with_corrupt=self._parsed.on_corrupt == "tag",
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        kind = PushedSegmentsReader if filters.are_asked_for() else SegmentsReader
        return kind(self._parsed, schema)

    def streamReader(self, schema: StructType) -> TopicStream:
        return SegmentsStream(self._parsed, schema)


class SegmentsReader(DataSourceReader):
    """A batch query over a data directory as it is when the query is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._rows = SegmentRows(options, schema)
        self._pushed = Pushed()

    def partitions(self) -> list[InputPartition]:
        directory = SegmentSplits(self._rows.location, self._options)
        ranges = batch_ranges(self._options, directory)
        wanted = [
            narrowed
            for each in ranges
            if (narrowed := self._pushed.narrowed(each, directory)) is not None
        ]
        return [InputPartition(split) for split in directory.splits(wanted)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._rows.read(partition)


class PushedSegmentsReader(SegmentsReader):
    """The same for a query whose conditions on offset, partition and timestamp spare reads."""

    def pushFilters(self, filters_: list[Any]) -> Iterable[Any]:
        self._pushed = filters.pushed(filters_)
        self._rows = self._rows.between(
            self._pushed.start_timestamp_ms, self._pushed.end_timestamp_ms
        )
        return filters_  # Spark checks them all again: what is left out here is only spared


class SegmentsStream(TopicStream):
    """A stream over a data directory that a broker may be writing to."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options)
        self._rows = SegmentRows(options, schema)

    def partitions_now(self) -> SegmentSplits:
        return SegmentSplits(self._rows.location, self.options)

    def inputs(self, partitions: Partitions, ranges: list[OffsetRange]) -> list[InputPartition]:
        assert isinstance(partitions, SegmentSplits), "what `partitions_now` returned"
        return [InputPartition(split) for split in partitions.splits(ranges)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._rows.read(partition)
