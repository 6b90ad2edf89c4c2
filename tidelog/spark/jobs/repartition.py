"""Repartition: a topic goes to one with another number of partitions, each key to its own.

A key's partition is what Kafka's default partitioner says, murmur2 of its bytes; records without a
key are spread in runs. The order of records of a source partition stays, so that of each key does;
records of several are put together by time (`time_merge`).

Each target partition has one task, which reads all of the source and keeps what is its own: n
readings for n partitions, but no record passes through Spark, and what a task writes is the same
each time, so that `ExactAppend` writes each record once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.compression import Codec
from protocol.identifiers import TopicPartition
from tidelog.client import Client
from tidelog.segments.errors import DataLossError
from tidelog.segments.location import without_secrets
from tidelog.segments.murmur2 import key_partitions
from tidelog.segments.read_options import ReadOptions
from tidelog.spark.jobs.archive_source import ArchiveSource, BrokerSource, DirectorySource
from tidelog.spark.jobs.exact_append import COLUMNS, ExactAppend
from tidelog.spark.jobs.job import Job, JobError
from tidelog.spark.jobs.time_merge import merge_by_time
from tidelog.spark.jobs.transfer import Copied, TransferResult, transfer
from tidelog.spark.jobs.transfer_notes import Round
from tidelog.spark.tasks import run_tasks

__all__ = ["RepartitionOptions", "partitions_of", "run"]

KEYLESS_RUN: Final = 100
"""Records without a key change the partition after so many offsets: batches stay large."""
PIECE_BYTES: Final = 64 << 20
READ: Final = ReadOptions(columns=("offset", *COLUMNS))


class RepartitionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is copied, from where and to where."""

    topic: str
    broker: str
    """host:port of the target's native listener, as executors reach it."""
    target: str
    partitions: int
    path: str | None = None
    """A data directory with the source; None: it is a topic of the broker."""
    id: str | None = None
    """Tells transfers apart; None: made of source and target."""
    codec: Codec = Codec.NONE


def run(options: RepartitionOptions, job: Job) -> TransferResult:
    """Copy what was not copied yet.

    It may be killed at any moment and run again, or run twice at a time. What comes to the source
    meanwhile is for the next run.

    Raises:
        JobError: the target has another number of partitions, others write to it, or it was
            deleted meanwhile; see `ExactAppend`.
        SegmentError: the source is not there, or not any more.
        ConnectionLostError: the broker cannot be reached.
    """
    source = without_secrets(options.path or options.broker)
    if options.path is None and options.target == options.topic:
        raise JobError(f"{options.topic} cannot be copied to itself: name another --target")
    with Client(options.broker) as client:
        there = client.topics(options.target)[0]
        if not there.error and len(there.partitions) != options.partitions:
            raise JobError(
                f"{options.target} has {len(there.partitions)} partitions, not "
                f"{options.partitions}: name another topic, which is made then"
            )
        return transfer(
            job,
            client,
            options.id or f"repartition {source} {options.topic} {options.target}",
            source=f"{options.topic} of {source}",
            target=options.target,
            partitions=options.partitions,
            ends=lambda: _ends(options),
            copy=partial(_copy, options, job),
        )


def partitions_of(rows: pa.RecordBatch, source_partition: int, partitions: int) -> NDArray[Any]:
    """Return the target partition of each record; needs the columns `key` and `offset`."""
    found = key_partitions(rows["key"], partitions)
    if rows["key"].null_count:
        runs = rows["offset"].to_numpy() // KEYLESS_RUN + source_partition
        is_keyless = rows["key"].is_null().to_numpy(zero_copy_only=False)
        found = np.where(is_keyless, runs % partitions, found)
    return found


def _source(options: RepartitionOptions) -> ArchiveSource:
    """Return the source, of which what was aborted is left out, and what is undecided waits."""
    if options.path is not None:
        return DirectorySource(options.path, [options.topic])
    return BrokerSource(options.broker, [options.topic])


def _ends(options: RepartitionOptions) -> Mapping[int, tuple[int, int]]:
    """Return where each partition of the source begins and ends."""
    bounds = _source(options).bounds()
    return {key.partition: (each.earliest, each.end) for key, each in bounds.items()}


def _copy(options: RepartitionOptions, job: Job, round_: Round) -> Sequence[Copied]:
    work = partial(_fill, options, round_)
    numbers = range(options.partitions)
    return run_tasks(job.session, work, numbers, partial(job.progress, "partitions"))


def _fill(options: RepartitionOptions, round_: Round, partition: int) -> Copied:
    """Fill one partition of the target; a task."""
    source = _source(options)
    found = {key.partition: each for key, each in source.bounds().items()}
    streams = []
    for number, (start, end) in sorted(round_.ranges.items()):
        if start == end:
            continue
        if number not in found or found[number].earliest > start or found[number].end < end:
            raise DataLossError(
                f"offsets {start} to {end - 1} of {options.topic}-{number} are not all there any "
                "more: retention has deleted some of what was to be copied"
            )
        key = TopicPartition(options.topic, number)
        streams.append(_stream(source, key, start, end, partition, options.partitions))
    base_offset = round_.bases[partition]
    with Client(options.broker) as client:
        target = TopicPartition(options.target, partition)
        writer = ExactAppend(client, target, base_offset, codec=options.codec)
        for rows in merge_by_time(streams):
            writer.add(rows)
        writer.finish()
    return Copied(
        partition=partition,
        base_offset=base_offset,
        end_offset=writer.next_offset,
        appended=writer.appended,
    )


def _stream(
    source: ArchiveSource, key: TopicPartition, start: int, end: int, target: int, partitions: int
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a source partition that go to one of the target."""
    for piece in source.pieces(key, start, end, PIECE_BYTES):
        for rows in source.batches(piece, READ):
            is_ours = partitions_of(rows, key.partition, partitions) == target
            yield rows.filter(pa.array(is_ours)).select(COLUMNS)
