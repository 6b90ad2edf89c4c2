"""Topics of a broker for the tests of the source `tidelog`, and its readers without a Java."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from protocol.record import Record
from protocol.record_batch_builder import build_batch
from tidelog.client import Client
from tidelog.spark.broker_source import BrokerReader, BrokerSource, BrokerStream

HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
COLUMNS = {
    "key": BinaryType(), "value": BinaryType(), "topic": StringType(), "partition": IntegerType(),
    "offset": LongType(), "timestamp": TimestampType(), "timestampType": IntegerType(),
    "headers": HEADERS, "corrupt": StringType(),
}  # fmt: skip


def append(
    address: str, topic: str, partition: int, records: Sequence[Record], *, per_batch: int = 10
) -> None:
    """Append records, whose offsets have to go on from the log's end."""
    batches = [records[at : at + per_batch] for at in range(0, len(records), per_batch)]
    data = b"".join(build_batch(each, base_offset=each[0].offset) for each in batches)
    with Client(address) as client:
        client.append_at(topic, partition, records[0].offset, data)


def with_topic(address: str, topic: str, *partitions: Sequence[Record]) -> str:
    """Make a topic whose partitions hold these records; return its name."""
    with Client(address) as client:
        client.create_topic(topic, len(partitions), {"retention.ms": "-1"})  # records are old
    for number, records in enumerate(partitions):
        if records:
            append(address, topic, number, records)
    return topic


def reader(
    address: str, columns: Iterable[str] = ("offset", "value"), **options: str
) -> BrokerReader:
    """Return the reader of a batch query."""
    return BrokerSource({"broker": address, **options}).reader(schema_of(columns))


def stream(address: str, **options: str) -> BrokerStream:
    """Return the reader of a stream."""
    return BrokerSource({"broker": address, **options}).streamReader(schema_of(["offset"]))


def schema_of(columns: Iterable[str]) -> StructType:
    return StructType([StructField(name, COLUMNS[name]) for name in columns])


def planned(made: BrokerReader) -> list[tuple[str, int, int, int]]:
    """Return (topic, partition, start, end) of each task."""
    return [(*each.value.partition, each.value.start, each.value.end) for each in made.partitions()]


def read(
    made: BrokerReader, inputs: Iterable[InputPartition] | None = None
) -> list[dict[str, Any]]:
    """Return the rows of tasks, of all that are planned now if none are given."""
    inputs = made.partitions() if inputs is None else inputs
    batches: list[pa.RecordBatch] = [batch for each in inputs for batch in made.read(each)]
    return [row for batch in batches for row in batch.to_pylist()]
