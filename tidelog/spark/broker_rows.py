"""BrokerRows: what a task does with a range of offsets of a broker."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from typing import Any, Final, Self

import msgspec
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from tidelog.segments.errors import DataLossError
from tidelog.segments.read_options import ReadOptions
from tidelog.spark.broker_link import BrokerLink, checked_address
from tidelog.spark.filters import Pushed
from tidelog.spark.options import SourceOptions
from tidelog.spark.range_reader import RangeReader
from tidelog.spark.schema import arrow_schema_of, in_schema, read_options
from tidelog.spark.worker import freeze_modules

__all__ = ["BrokerRows"]

logger: Final = logging.getLogger(__name__)


class BrokerRows:
    """Reads ranges into the columns of a schema; pickled with the reader, for the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.address = checked_address(options.broker)
        self._fail_on_data_loss = options.fail_on_data_loss
        self._schema = arrow_schema_of(schema)
        self._read_options: ReadOptions = read_options(options, schema)

    def sparing(self, pushed: Pushed) -> Self:
        """Return the same, for a query that can do without some of the records."""
        other = copy.copy(self)
        other._read_options = msgspec.structs.replace(
            self._read_options,
            start_timestamp_ms=pushed.start_timestamp_ms,
            end_timestamp_ms=pushed.end_timestamp_ms,
        )
        return other

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the record batches of one task.

        Raises:
            SegmentError: there is damage, and onCorrupt=fail.
            DataLossError: offsets or the topic are gone, and failOnDataLoss=true.
            BrokerUnreachableError: the broker is gone for longer than a restart takes.
        """
        if partition.value is None:  # Spark's stand-in where there is nothing to read
            return
        with BrokerLink(self.address) as link:
            found = RangeReader(link, partition.value, self._read_options, self._lose).batches()
            for batch in in_schema(found, self._schema):
                freeze_modules()
                yield batch

    def _lose(self, what: str) -> None:
        if self._fail_on_data_loss:
            raise DataLossError(f"{what}; failOnDataLoss=false goes on with what there is")
        logger.warning("left out, for failOnDataLoss=false: %s", what)
