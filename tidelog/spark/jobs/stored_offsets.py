"""StoredOffsets: what groups committed, and where partitions ended then, from the files alone.

`__consumer_offsets` is compacted: of the commits of a group and partition older than its last
cleaning only the last one is left, so the past is as fine as the cleaner has left it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from protocol.errors import StoredFormatError
from protocol.identifiers import TopicPartition
from protocol.stored.group_records import OffsetKey, decode_key, decode_offset_commit
from tidelog.segments.location import locate
from tidelog.segments.log_files import list_partitions
from tidelog.segments.plan import bounds
from tidelog.segments.time_lookup import offset_for_time
from tidelog.spark.jobs.commit import Commit, PartitionEnds

__all__ = ["stored_commits", "stored_ends"]

OFFSETS_TOPIC: Final = "__consumer_offsets"
RECORD_COLUMNS: Final = "key binary, value binary, offset bigint, timestamp timestamp"
COMMIT_COLUMNS: Final = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("committed", pa.int64()),
        ("at_ms", pa.int64()),
        ("position", pa.int64()),
    ]
)
COMMIT_TYPES: Final = (
    "group string, topic string, partition int, committed bigint, at_ms bigint, position bigint"
)
ENDS_TYPES: Final = "topic string, partition int, start bigint, end bigint, ends array<bigint>"


def stored_commits(spark: Any, path: str, every_ms: int | None) -> list[Commit]:
    """Return the last commit of each group and partition in each interval, in order of time.

    Args:
        every_ms: Length of the intervals; None: one for all time.
    """
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

    records = (
        spark.read.format("tidelog_segments")
        .schema(RECORD_COLUMNS)
        .options(subscribe=OFFSETS_TOPIC, isolation="read_committed")
        .load(path)
    )
    interval = F.lit(0) if every_ms is None else F.ceil(F.col("at_ms") / F.lit(every_ms))
    last = (
        records.mapInArrow(_commits, COMMIT_TYPES)
        .withColumn("interval", interval.cast("bigint"))
        .groupBy("group", "topic", "partition", "interval")
        .agg(F.max_by(F.struct("committed", "at_ms"), "position").alias("last"))
        .select("group", "topic", "partition", "interval", "last.committed", "last.at_ms")
    )
    return sorted((Commit(*row) for row in last.collect()), key=lambda commit: commit[:4])


def stored_ends(
    spark: Any, path: str, times: Mapping[TopicPartition, Sequence[int]]
) -> dict[TopicPartition, PartitionEnds]:
    """Return where partitions end today and ended at some times (ms); only those that are there.

    The end at a time is the offset of the first record that is later: what its producer says.
    """
    if not times:
        return {}
    rows = [(key.topic, key.partition, list(when)) for key, when in times.items()]
    asked = spark.createDataFrame(rows, "topic string, partition int, times array<bigint>")
    found = asked.mapInArrow(partial(_ends, path), ENDS_TYPES).collect()
    return {
        (key := TopicPartition(topic, number)): PartitionEnds(
            start, end, dict(zip(times[key], ends, strict=True))
        )
        for topic, number, start, end, ends in found
    }


def _commits(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn records of `__consumer_offsets` into commits; all that is not one is left out."""
    for batch in batches:
        rows = [row for row in map(_commit, *(column.to_pylist() for column in batch)) if row]
        columns = list(zip(*rows, strict=True)) or [()] * len(COMMIT_COLUMNS)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(column, field.type)
                for column, field in zip(columns, COMMIT_COLUMNS, strict=True)
            ],
            schema=COMMIT_COLUMNS,
        )


def _commit(
    key: bytes | None, value: bytes | None, offset: int, timestamp: Any
) -> tuple[Any, ...] | None:
    try:
        about = None if key is None else decode_key(key)
        if not isinstance(about, OffsetKey):
            return None
        if value is None:
            return (*about, None, round(timestamp.timestamp() * 1000), offset)
        commit = decode_offset_commit(value)
    except StoredFormatError:  # a kind of record of a newer broker
        return None
    return (*about, commit.offset, commit.commit_timestamp, offset)


def _ends(path: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    location = locate(path)
    for batch in batches:
        rows = batch.to_pylist()
        topics = {row["topic"] for row in rows}
        there = {
            (files.topic, files.partition): files for files in list_partitions(location, topics)
        }
        found: list[dict[str, Any]] = []
        for row in rows:
            files = there.get((row["topic"], row["partition"]))
            if files is None:
                continue
            start, end = bounds(location, files)
            ends = [offset_for_time(location, files, when + 1) for when in row["times"]]
            found.append(
                {
                    "topic": row["topic"],
                    "partition": row["partition"],
                    "start": start,
                    "end": end,
                    "ends": [end if each is None else min(each, end) for each in ends],
                }
            )
        yield pa.RecordBatch.from_pylist(found, schema=_ENDS_SCHEMA)


_ENDS_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("ends", pa.list_(pa.int64())),
    ]
)
