"""The sink of `tidelog`: rows to topics of a running broker, each acknowledged as committed.

At least once, as with Spark's own Kafka sink: a task or a micro-batch that is repeated writes its
rows again, and so is a set of them whose answer was lost. Within a partition the rows of one task
keep their order.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from protocol.errors import ErrorCode
from tidelog.client.calls import check
from tidelog.spark.broker_link import BrokerLink
from tidelog.spark.broker_sender import BrokerSender
from tidelog.spark.errors import SinkError
from tidelog.spark.row_sender import RowSender
from tidelog.spark.schema import arrow_schema_of
from tidelog.spark.sink_options import SinkOptions, check_columns
from tidelog.spark.sink_rows import SinkRows
from tidelog.spark.worker import freeze_modules

__all__ = ["BrokerStreamWriter", "BrokerWriter"]

logger: Final = logging.getLogger(__name__)

ROWS_PER_BATCH: Final = 10_000
"""As many as Spark puts in a record batch of Arrow by default."""
HAS_ARROW_STREAMS: Final = hasattr(datasource, "DataSourceStreamArrowWriter")
"""Since Spark 4.1; before, a stream gives rows."""


class _TopicWriter:
    """What a task does with rows; pickled for it."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(options, schema)
        self._options, self._schema = options, schema

    def write_batches(self, batches: Iterable[pa.RecordBatch]) -> WriterCommitMessage:
        """Write record batches of Arrow.

        Raises:
            SinkError: a topic or partition is not there, or a row names none.
            BrokerError: the broker refuses a record, such as one that is too large.
            BrokerUnreachableError: there is no broker for longer than a restart takes.
        """
        context = TaskContext.get()
        turn = 0 if context is None else context.partitionId()
        address, codec = self._options.broker, self._options.codec
        with BrokerLink(address) as link, BrokerSender(address) as sender:

            def count(topic: str) -> int:
                return _partition_count(link, topic)

            sink_rows = SinkRows(self._options.topic, count, _now_us, turn)
            row_sender = RowSender(sender, codec)
            for batch in batches:
                row_sender.send(list(sink_rows.divided(batch)))
                freeze_modules()
        return WriterCommitMessage()

    def write_rows(self, rows: Iterable[Any]) -> WriterCommitMessage:
        """Write Spark's rows."""
        schema = arrow_schema_of(self._schema)
        dicts = (row.asDict(recursive=True) for row in rows)

        def batches() -> Iterator[pa.RecordBatch]:
            while piece := list(itertools.islice(dicts, ROWS_PER_BATCH)):
                yield pa.RecordBatch.from_pylist(piece, schema)

        return self.write_batches(batches())


class BrokerWriter(_TopicWriter, DataSourceArrowWriter):
    """`df.write.format("tidelog")`."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.write_batches(iterator)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        logger.warning("a write has failed: some of its rows are in their topics")


if HAS_ARROW_STREAMS:

    class BrokerStreamWriter(_TopicWriter, datasource.DataSourceStreamArrowWriter):
        """`df.writeStream.format("tidelog")`."""

        def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
            return self.write_batches(iterator)

        def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
            logger.warning("micro-batch %d has failed, and will be written again", batchId)

else:

    class BrokerStreamWriter(_TopicWriter, datasource.DataSourceStreamWriter):  # type: ignore[no-redef]
        """`df.writeStream.format("tidelog")`, row by row."""

        def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
            return self.write_rows(iterator)

        def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
            logger.warning("micro-batch %d has failed, and will be written again", batchId)


def _partition_count(link: BrokerLink, topic: str) -> int:
    (info,) = link.ask(lambda client: client.topics(topic))
    if info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise SinkError(
            f"there is no topic {topic} at {link.address}: make it first, as with "
            f"`tidelog topics create {topic}`"
        )
    check(info.error, topic)
    return len(info.partitions)


def _now_us() -> int:
    return time.time_ns() // 1_000
