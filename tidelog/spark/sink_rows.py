"""SinkRows: rows to write, by the partition that each goes to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.identifiers import TopicPartition
from tidelog.segments.murmur2 import key_partitions
from tidelog.spark.errors import SinkError

__all__ = ["PartitionRows", "SinkRows"]

RECORD_COLUMNS: Final = ("key", "value", "timestamp", "headers")
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


class PartitionRows(NamedTuple):
    """Rows of one partition, in the order in which they came: `encode`'s columns."""

    partition: TopicPartition
    rows: pa.RecordBatch


class SinkRows:
    """Gives rows their topic, partition and time, by the rules of Kafka's producers.

    Args:
        topic: Of all rows; None: that of the column.
        partitions: Returns how many a topic has.
        now_us: The time, in microseconds since 1970, for rows without one.
        turn: Where to begin with rows that have neither partition nor key: those of one batch go
            to one partition, those of the next to the next.
    """

    def __init__(
        self,
        topic: str | None,
        partitions: Callable[[str], int],
        now_us: Callable[[], int],
        turn: int = 0,
    ) -> None:
        self._topic, self._partitions, self._now_us = topic, partitions, now_us
        self._turns = itertools.count(turn)
        self._counts: dict[str, int] = {}

    def divided(self, rows: pa.RecordBatch) -> Iterator[PartitionRows]:
        """Yield the rows of each partition. SinkError for a row that has no place."""
        if not rows.num_rows:
            return
        turn = next(self._turns)
        for topic, part in self._by_topic(rows):
            records = self._records(part)
            partitions = self._chosen(topic, part, turn)
            order = np.argsort(partitions, kind="stable")
            firsts = np.flatnonzero(np.diff(partitions[order], prepend=-1))
            if len(firsts) > 1:
                records = records.take(pa.array(order))
            ends = [*firsts[1:].tolist(), len(order)]
            for first, end in zip(firsts.tolist(), ends, strict=True):
                partition = TopicPartition(topic, int(partitions[order[first]]))
                yield PartitionRows(partition, records.slice(first, end - first))

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._topic is not None:
            yield self._topic, rows
            return
        topics = rows.column("topic").dictionary_encode()
        if topics.null_count:
            raise SinkError("a row has no topic: its column is null, and there is no option topic")
        for number, topic in enumerate(topics.dictionary.to_pylist()):
            chosen = np.asarray(topics.indices) == number
            yield topic, rows if chosen.all() else rows.filter(pa.array(chosen))

    def _records(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return what of the rows is stored, each with a time."""
        now = pa.scalar(self._now_us(), pa.int64()).cast(TIMESTAMP)
        if "timestamp" not in rows.schema.names:
            rows = rows.append_column("timestamp", pa.repeat(now, rows.num_rows))
        columns = {name: rows.column(name) for name in RECORD_COLUMNS if name in rows.schema.names}
        # Spark gives times in the session's zone.
        columns["timestamp"] = columns["timestamp"].cast(TIMESTAMP).fill_null(now)
        return pa.RecordBatch.from_pydict(columns)

    def _chosen(self, topic: str, rows: pa.RecordBatch, turn: int) -> NDArray[Any]:
        """Return the partition of each row: its own, else by its key, else the one in turn."""
        count = self._count(topic)
        names = rows.schema.names
        partitions = np.full(rows.num_rows, turn % count, dtype=np.int32)
        if "key" in names:
            keys = rows.column("key").cast(pa.binary())
            hashed = key_partitions(keys, count)
            partitions = np.where(np.asarray(keys.is_null()), partitions, hashed)
        if "partition" in names:
            given = rows.column("partition")
            numbers = np.asarray(given.fill_null(0))
            wrong = (numbers < 0) | (numbers >= count)
            if wrong.any():
                raise SinkError(
                    f"there is no partition {numbers[wrong][0]} of topic {topic}: it has 0 to "
                    f"{count - 1}"
                )
            partitions = np.where(np.asarray(given.is_null()), partitions, numbers)
        return partitions

    def _count(self, topic: str) -> int:
        if topic not in self._counts:
            self._counts[topic] = self._partitions(topic)
        return self._counts[topic]
