"""BrokerRows: what a task does with a range of offsets: it fetches batches as they are stored."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from typing import Any, Final, Self

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from protocol.errors import BrokerError, ErrorCode
from protocol.identifiers import TopicPartition
from tidelog.client import EARLIEST, LATEST, StoredBatches
from tidelog.client.retrying import is_unknown_topic
from tidelog.segments.columns import HEADERS
from tidelog.segments.decoding import decode_batches
from tidelog.segments.errors import DataLossError, SegmentError
from tidelog.segments.read_options import CORRUPT, ReadOptions
from tidelog.segments.read_options import schema as schema_of
from tidelog.spark.broker_link import BrokerLink, checked_address
from tidelog.spark.filters import Pushed
from tidelog.spark.offset_ranges import OffsetRange
from tidelog.spark.options import SourceOptions
from tidelog.spark.schema import arrow_schema_of, in_schema, read_options
from tidelog.spark.worker import freeze_modules

__all__ = ["BrokerRows"]

logger: Final = logging.getLogger(__name__)

FETCH_BYTES_MIN: Final = 64 * 1024
FETCH_BYTES_MAX: Final = 4 * 1024 * 1024
RECORD_BYTES: Final = 1024
"""What a record is taken for, so that a short range does not fetch megabytes behind its end."""


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
            for batch in in_schema(self._batches(link, partition.value), self._schema):
                freeze_modules()
                yield batch

    def _batches(self, link: BrokerLink, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        partition, offset, end = wanted
        while offset < end:
            try:
                fetched = _fetched(link, partition, offset, end)
            except BrokerError as error:
                if error.number == ErrorCode.CORRUPT_MESSAGE:
                    behind = self._behind_damage(link, partition, offset, end)
                    if self._read_options.on_corrupt == "tag":
                        yield self._damage_row(partition, offset, behind)
                else:
                    behind = self._behind_loss(link, partition, offset, end, error)
                offset = behind
                continue
            if fetched.next_offset == offset:
                self._check_end(link, partition, offset, end)
                return
            rows, _ = decode_batches(
                fetched.data,
                topic=partition.topic,
                partition=partition.partition,
                options=self._read_options,
                start_offset=offset,
                end_offset=end,
                where=f"{partition} of {self.address}",
            )
            if rows is not None:
                yield rows
            offset = fetched.next_offset

    # --- what is not there ------------------------------------------------------------------

    def _behind_loss(
        self, link: BrokerLink, partition: TopicPartition, offset: int, end: int, error: BrokerError
    ) -> int:
        """Return where a range goes on if its next offset is gone: retention has overtaken it."""
        if is_unknown_topic(error):
            behind = end
        elif error.number == ErrorCode.OFFSET_OUT_OF_RANGE:
            earliest = _offset_at(link, partition, EARLIEST)
            behind = min(earliest, end) if earliest > offset else end  # else cut below it
        else:
            raise error
        self._lose(f"offsets {offset} to {behind - 1} of {partition} are there no more")
        return behind

    def _check_end(
        self, link: BrokerLink, partition: TopicPartition, offset: int, end: int
    ) -> None:
        """Say whether what was not found up to the end was compacted away, or is lost."""
        latest = _offset_at(link, partition, LATEST)
        if latest < end:
            self._lose(f"{partition} ends at {latest}, and was to be read from {offset} to {end}")

    def _lose(self, what: str) -> None:
        if self._fail_on_data_loss:
            raise DataLossError(f"{what}; failOnDataLoss=false goes on with what there is")
        logger.warning("left out, for failOnDataLoss=false: %s", what)

    # --- damage -----------------------------------------------------------------------------

    def _behind_damage(
        self, link: BrokerLink, partition: TopicPartition, offset: int, end: int
    ) -> int:
        """Return the first offset behind one that the broker cannot read; the end if there is none.

        One by one: only the broker knows where its damaged stretch ends, and does not tell.
        """
        if self._read_options.on_corrupt == "fail":
            raise SegmentError(
                f"{partition} of {self.address} is damaged from offset {offset} on; "
                "onCorrupt=skip or tag goes on behind it"
            )
        behind = offset + 1
        while behind < end:
            try:
                _fetched(link, partition, behind, behind + 1, bytes_min=1)
            except BrokerError as error:
                if error.number != ErrorCode.CORRUPT_MESSAGE:
                    raise
                behind += 1
            else:
                break
        logger.warning("left out: damaged offsets %d to %d of %s", offset, behind - 1, partition)
        return behind

    def _damage_row(self, partition: TopicPartition, offset: int, behind: int) -> pa.RecordBatch:
        known: dict[str, object] = {
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": offset,
            HEADERS: [],
            CORRUPT: f"offsets {offset} to {behind - 1} of {partition} are damaged",
        }
        fields = schema_of(self._read_options)
        arrays = [pa.array([known.get(field.name)], type=field.type) for field in fields]
        return pa.RecordBatch.from_arrays(arrays, schema=fields)


def _fetched(
    link: BrokerLink,
    partition: TopicPartition,
    offset: int,
    end: int,
    bytes_min: int = FETCH_BYTES_MIN,
) -> StoredBatches:
    max_bytes = min(max((end - offset) * RECORD_BYTES, bytes_min), FETCH_BYTES_MAX)
    return link.ask(lambda client: client.fetch_batches(*partition, offset, max_bytes=max_bytes))


def _offset_at(link: BrokerLink, partition: TopicPartition, time: int) -> int:
    return link.ask(lambda client: client.offsets(*partition, time_ms=time))[0]
