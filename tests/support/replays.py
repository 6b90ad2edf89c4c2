"""Lakes to replay, and what a topic has to have then."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.lakes import TOPIC, batch_of, change_of, stage
from tidelog.client import Client
from tidelog.lake.reader import open_topic
from tidelog.segments.location import locate

FILE_RECORDS = 10


def fill_lake(lake: Path, partitions: Iterable[int], start: int, end: int) -> None:
    """Commit records to a lake, ten a file."""
    log = open_topic(locate(lake), TOPIC)
    log.refresh()
    pieces = [
        piece
        for partition in partitions
        for first in range(start, end, FILE_RECORDS)
        for piece in stage(log.store, partition, first, min(first + FILE_RECORDS, end))
    ]
    log.commit(change_of(f"{start}-{end}", pieces))


def expected(partition: int, count: int) -> list[tuple[Any, ...]]:
    """Return what a partition must have whose first records are those of the lake."""
    return [
        (
            row["offset"],
            row["key"],
            row["value"],
            row["offset"] * 1_000,
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for row in batch_of(partition, range(count)).to_pylist()
    ]


def topic_of(options: Any) -> dict[int, list[tuple[Any, ...]]]:
    """Return what the target of a replay has, by partition."""
    with Client(options.broker) as client:
        return {
            info.partition: [
                (each.offset, each.key, each.value, each.timestamp_ms, each.headers)
                for each in client.messages(options.target, [info.partition])
            ]
            for info in client.topics(options.target)[0].partitions
        }
