"""SplitRows: what a task does with a split of a data directory."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import msgspec
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from protocol.identifiers import TopicPartition
from tidelog.segments.batch_rows import batch_rows
from tidelog.segments.errors import DataLossError, SegmentError
from tidelog.segments.location import locate
from tidelog.segments.plan import Split
from tidelog.segments.reader import read_split
from tidelog.spark.filters import Pushed
from tidelog.spark.offset_ranges import OffsetRange, report_loss
from tidelog.spark.options import SourceOptions
from tidelog.spark.schema import arrow_schema_of, in_schema, read_options
from tidelog.spark.segment_splits import SegmentSplits
from tidelog.spark.worker import freeze_modules

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BatchRows", "RecordRows", "SplitRows"]


class SplitRows(ABC):
    """Reads splits into the columns of a schema; pickled with the reader, for the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        assert options.path is not None, "the source has checked that"
        self.location = locate(options.path)
        self._options = options
        self._schema = arrow_schema_of(schema)

    @abstractmethod
    def _read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the columns of the schema, and perhaps others."""

    def sparing(self, pushed: Pushed) -> Self:
        """Return the same, for a query that can do without some of the records."""
        return self

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the record batches of one task.

        Raises:
            DamagedError: there is damage, and onCorrupt=fail.
            DataLossError: some of it is gone, and failOnDataLoss=true.
        """
        if partition.value is None:  # Spark's stand-in where there is nothing to read
            return
        for batch in in_schema(self._found(partition.value), self._schema):
            freeze_modules()
            yield batch

    def _found(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield what is in a split; if its file has gone, what is in those that have its offsets.

        It is the cleaner that puts another file in the place of some.
        """
        is_begun = False
        try:
            for batch in self._read(split):
                is_begun = True
                yield batch
        except DataLossError as error:
            lost = str(error)
        else:
            return
        if is_begun:
            report_loss(self._options, lost)
            return
        partition = TopicPartition(split.topic, split.partition)
        wanted = OffsetRange(partition, split.start_offset, split.end_offset)
        options = msgspec.structs.replace(self._options, min_partitions=None)
        try:
            others = SegmentSplits(self.location, options).splits([wanted])
        except DataLossError:
            raise
        except SegmentError:  # there is nothing at the path any more
            report_loss(self._options, lost)
            return
        for other in others:
            yield from self._found(other)


class RecordRows(SplitRows):
    """A row a record."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._read_options = read_options(options, schema)

    def sparing(self, pushed: Pushed) -> Self:
        other = copy.copy(self)
        other._read_options = msgspec.structs.replace(
            self._read_options,
            start_timestamp_ms=pushed.start_timestamp_ms,
            end_timestamp_ms=pushed.end_timestamp_ms,
        )
        return other

    def _read(self, split: Split) -> Iterator[pa.RecordBatch]:
        return read_split(self.location, split, self._read_options)


class BatchRows(SplitRows):
    """A row a batch."""

    def _read(self, split: Split) -> Iterator[pa.RecordBatch]:
        return batch_rows(self.location, split, check_crc=self._options.check_crc)
