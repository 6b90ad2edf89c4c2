"""Data directories for the tests of Spark and of `tidelog.segments`, written without a broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from protocol.identifiers import TopicPartition
from protocol.record import Record
from protocol.record_batch_builder import BatchOptions, build_batch
from protocol.stored.checkpoint import offset_checkpoint_encode

EPOCH_MS = 1_790_000_000_000
"""The time of record 0 of `some_records`; each next one is a second later."""


def some_records(count: int, *, start: int = 0, value_bytes: int = 0) -> list[Record]:
    """Return records that can be told apart; every third has no key, every seventh no value."""
    return [
        Record(
            offset,
            EPOCH_MS + 1_000 * offset,
            None if offset % 3 == 2 else b"key %d" % (offset % 10),
            None if offset % 7 == 6 else (b"value %d" % offset).ljust(value_bytes, b"."),
            (("n", b"%d" % offset), ("null", None)) if offset % 2 else (),
        )
        for offset in range(start, start + count)
    ]


def write_segment(
    directory: Path,
    records: Sequence[Record],
    *,
    per_batch: int = 10,
    base_offset: int | None = None,
    **options: Unpack[BatchOptions],
) -> Path:
    """Write records as one `.log` file without indexes; return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    base = records[0].offset if base_offset is None else base_offset
    path = directory / f"{base:020}.log"
    batches = [records[at : at + per_batch] for at in range(0, len(records), per_batch)]
    path.write_bytes(
        b"".join(build_batch(each, base_offset=each[0].offset, **options) for each in batches)
    )
    return path


def write_partition(
    root: Path,
    topic: str,
    partition: int,
    records: Sequence[Record],
    *,
    per_segment: int = 100,
    per_batch: int = 10,
    **options: Unpack[BatchOptions],
) -> list[Path]:
    """Write records as the segments of one partition under a data directory; return their paths."""
    directory = root / f"{topic}-{partition}"
    return [
        write_segment(directory, records[at : at + per_segment], per_batch=per_batch, **options)
        for at in range(0, len(records), per_segment)
    ]


def write_checkpoint(root: Path, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Write `replication-offset-checkpoint` (high watermarks) or `log-start-offset-checkpoint`."""
    entries = {TopicPartition(*key): offset for key, offset in offsets.items()}
    (root / name).write_bytes(offset_checkpoint_encode(entries))


def rows_of(records: Iterable[Record], topic: str, partition: int) -> list[tuple[object, ...]]:
    """Return (topic, partition, offset, time in ms, key, value) of each, to compare with a read."""
    return [
        (topic, partition, record.offset, record.timestamp, record.key, record.value)
        for record in records
    ]


def collected(frame: object) -> list[tuple[object, ...]]:
    """Return the same of a data frame with Kafka's columns, by topic, partition and offset."""
    rows = frame.selectExpr(  # type: ignore[attr-defined]
        "topic", "partition", "offset", "unix_millis(timestamp) AS ms", "key", "value"
    ).collect()
    return sorted(
        (
            row.topic, row.partition, row.offset, row.ms,
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
        )
        for row in rows
    )  # fmt: skip
