"""`tidelog`: topics of a running broker, as a table or a stream, and to write to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidelog.segments.errors import OptionError
from tidelog.spark import filters
from tidelog.spark.broker_link import BrokerLink
from tidelog.spark.broker_partitions import BrokerPartitions
from tidelog.spark.broker_rows import BrokerRows
from tidelog.spark.filters import Pushed
from tidelog.spark.offset_ranges import OffsetRange, Partitions, batch_ranges, divide
from tidelog.spark.options import BROKER_OPTIONS, SourceOptions, parse_options
from tidelog.spark.schema import spark_schema
from tidelog.spark.topic_stream import TopicStream

if TYPE_CHECKING:
    from tidelog.spark.broker_sink import BrokerStreamWriter, BrokerWriter

__all__ = ["BrokerSource"]


class BrokerSource(DataSource):
    """`spark.read.format("tidelog")`, with BROKER_OPTIONS, and `df.write`, with SINK_OPTIONS."""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> str:
        options = self._parsed()
        return spark_schema(
            with_headers=options.include_headers, with_corrupt=options.on_corrupt == "tag"
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        kind = PushedBrokerReader if filters.are_asked_for() else BrokerReader
        return kind(self._parsed(), schema)

    def streamReader(self, schema: StructType) -> TopicStream:
        return BrokerStream(self._parsed(), schema)

    # What reads does without what writes: each query of Spark's imports this anew, in a process
    # or two.

    def writer(self, schema: StructType, overwrite: bool) -> BrokerWriter:
        from tidelog.spark.broker_sink import BrokerWriter
        from tidelog.spark.sink_options import parse_sink_options

        if overwrite:
            raise OptionError("a topic cannot be overwritten: write with mode append")
        return BrokerWriter(parse_sink_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> BrokerStreamWriter:
        from tidelog.spark.broker_sink import BrokerStreamWriter
        from tidelog.spark.sink_options import parse_sink_options

        return BrokerStreamWriter(parse_sink_options(self.options), schema)

    def _parsed(self) -> SourceOptions:
        return parse_options(self.options, BROKER_OPTIONS, required="broker")


class BrokerReader(DataSourceReader):
    """A batch query over topics as they are when the query is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._rows = BrokerRows(options, schema)
        self._pushed = Pushed()

    def partitions(self) -> list[InputPartition]:
        with BrokerLink(self._rows.address) as link:
            topics = BrokerPartitions(link, self._options)
            ranges = batch_ranges(self._options, topics)
            wanted = [self._pushed.narrowed(each, topics) for each in ranges]
        return _inputs([each for each in wanted if each is not None], self._options)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._rows.read(partition)


class PushedBrokerReader(BrokerReader):
    """The same, for a query that Spark has filters of to push."""

    def pushFilters(self, pushed: list[Any]) -> Iterable[Any]:
        self._pushed = filters.pushed(pushed, with_offsets=self._options.on_corrupt != "tag")
        self._rows = self._rows.sparing(self._pushed)
        return pushed  # Spark checks them all again: what they tell here only spares reads


class BrokerStream(TopicStream):
    """A stream over topics; one connection serves the driver's side of it."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options)
        self._rows = BrokerRows(options, schema)
        self._link: BrokerLink | None = None  # not before this is pickled for the tasks

    def stop(self) -> None:
        if self._link is not None:
            self._link.close()

    def partitions_now(self) -> BrokerPartitions:
        if self._link is None:
            self._link = BrokerLink(self._rows.address)
        return BrokerPartitions(self._link, self.options)

    def inputs(self, partitions: Partitions, ranges: list[OffsetRange]) -> list[InputPartition]:
        return _inputs(ranges, self.options)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._rows.read(partition)


def _inputs(ranges: list[OffsetRange], options: SourceOptions) -> list[InputPartition]:
    """Return a task for each range; more where minPartitions asks for them."""
    if ranges and len(ranges) < (options.min_partitions or 0):
        ranges = divide(ranges, options.min_partitions or 1)
    return [InputPartition(each) for each in ranges]
