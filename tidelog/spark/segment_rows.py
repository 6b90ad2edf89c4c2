"""SegmentRows: what a task does with a split of a data directory."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from typing import Any, Final, Self

import msgspec
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from tidelog.segments.errors import DataLossError
from tidelog.segments.location import locate
from tidelog.segments.read_options import ReadOptions
from tidelog.segments.reader import read_split
from tidelog.spark.options import SourceOptions
from tidelog.spark.schema import arrow_schema_of, in_schema, read_options
from tidelog.spark.worker import freeze_modules

__all__ = ["SegmentRows"]

logger: Final = logging.getLogger(__name__)


class SegmentRows:
    """Reads splits into the columns of a schema; pickled with the reader, for the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        assert options.path is not None, "the source has checked that"
        self.location = locate(options.path)
        self._fail_on_data_loss = options.fail_on_data_loss
        self._schema = arrow_schema_of(schema)
        self._read_options: ReadOptions = read_options(options, schema)

    def between(self, start_timestamp_ms: int | None, end_timestamp_ms: int | None) -> Self:
        """Return the same for records from one time to before another."""
        other = copy.copy(self)
        other._read_options = msgspec.structs.replace(
            self._read_options,
            start_timestamp_ms=start_timestamp_ms,
            end_timestamp_ms=end_timestamp_ms,
        )
        return other

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the record batches of one task.

        Raises:
            DamagedError: there is damage, and onCorrupt=fail.
            DataLossError: the file is gone, and failOnDataLoss=true.
        """
        split = partition.value
        if split is None:  # Spark's stand-in where there is nothing to read
            return
        try:
            batches = read_split(self.location, split, self._read_options)
            for batch in in_schema(batches, self._schema):
                freeze_modules()
                yield batch
        except DataLossError as error:
            if self._fail_on_data_loss:
                raise
            logger.warning("left out, for failOnDataLoss=false: %s", error)
