"""Replay: a topic of a lake goes back to a topic of a broker, in its order, with its timestamps.

Each partition has one task, which reads its Parquet files in order and appends them with
`ExactAppend`. Offsets are given anew, without gaps: record n of a round lies at the round's base
offset + n. A run that dies is run again, and appends what is missing; one after it appends what the
lake has got since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from protocol.compression import Codec
from protocol.identifiers import TopicPartition
from tidelog.client import Client
from tidelog.lake.entry import DataFile
from tidelog.lake.errors import LakeError
from tidelog.lake.log import location_of
from tidelog.lake.reader import open_topic
from tidelog.lake.store import locate_lake
from tidelog.segments.errors import DataLossError
from tidelog.segments.location import without_secrets
from tidelog.spark.jobs.exact_append import CHECKED_RECORDS, COLUMNS, ExactAppend
from tidelog.spark.jobs.job import Job
from tidelog.spark.jobs.transfer import Copied, TransferResult, transfer
from tidelog.spark.jobs.transfer_notes import Round
from tidelog.spark.tasks import run_tasks

__all__ = ["ReplayOptions", "run"]

ROWS_PER_READ: Final = 16_384
TRIES: Final = 5
"""A compaction of the lake may take a file away between its log and the read of it."""


class ReplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is replayed, and to where."""

    lake: str
    """Of this machine, or a URL; tasks must find the same there."""
    topic: str
    """In the lake."""
    broker: str
    """host:port of the native listener, as executors reach it."""
    target: str
    id: str | None = None
    """Tells transfers apart; None: made of lake, topic and target."""
    codec: Codec = Codec.NONE


class _Stretch(NamedTuple):
    """What one task replays."""

    partition: int
    start_offset: int
    end_offset: int
    base_offset: int


def run(options: ReplayOptions, job: Job) -> TransferResult:
    """Replay what was not replayed yet.

    It may be killed at any moment and run again, or run twice at a time.

    Raises:
        LakeError: the lake has no such topic, or is damaged.
        JobError: others write to the target, or it was deleted meanwhile; see `ExactAppend`.
        ConnectionLostError: the broker cannot be reached.
    """
    ends = _ends(options)
    location = locate_lake(options.lake)
    with Client(options.broker) as client:
        return transfer(
            job,
            client,
            options.id or f"replay {location.path} {options.topic} {options.target}",
            source=f"{options.topic} of {without_secrets(options.lake)}",
            target=options.target,
            partitions=max(ends, default=0) + 1,
            ends=lambda: _ends(options),
            copy=partial(_copy, options, job),
        )


def _ends(options: ReplayOptions) -> Mapping[int, tuple[int, int]]:
    """Return where each partition begins and ends in the lake."""
    log = open_topic(locate_lake(options.lake), options.topic)
    log.refresh()
    if log.last is None:
        raise LakeError(f"{without_secrets(options.lake)} has no topic {options.topic!r}")
    return {
        partition: (log.state.pieces(partition)[0].start_offset, end)
        for partition, end in log.state.ends.items()
    }


def _copy(options: ReplayOptions, job: Job, round_: Round) -> Sequence[Copied]:
    stretches = [
        _Stretch(partition, start, end, round_.bases[partition])
        for partition, (start, end) in round_.ranges.items()
        if start < end
    ]
    work = partial(_replay, options)
    return run_tasks(job.session, work, stretches, partial(job.progress, "partitions"))


def _replay(options: ReplayOptions, stretch: _Stretch) -> Copied:
    """Replay one partition; a task."""
    for attempt in range(1, TRIES + 1):
        try:
            return _replay_once(options, stretch)
        except FileNotFoundError:
            if attempt == TRIES:
                raise
    raise AssertionError("the last try returns or raises")


def _replay_once(options: ReplayOptions, stretch: _Stretch) -> Copied:
    with Client(options.broker) as client:
        target = TopicPartition(options.target, stretch.partition)
        writer = ExactAppend(client, target, stretch.base_offset, codec=options.codec)
        for path, file in _files(options, stretch):
            is_whole = (
                stretch.start_offset <= file.start_offset and file.end_offset <= stretch.end_offset
            )
            if is_whole and file.rows + CHECKED_RECORDS <= writer.present:
                writer.skip(file.rows)
                continue
            for rows in _rows(options, path, stretch):
                writer.add(rows)
        writer.finish()
        return Copied(
            partition=stretch.partition,
            base_offset=stretch.base_offset,
            end_offset=writer.next_offset,
            appended=writer.appended,
        )


def _files(options: ReplayOptions, stretch: _Stretch) -> list[tuple[str, DataFile]]:
    """Return the files with records of a stretch, in their order.

    Raises:
        DataLossError: the lake has lost some since the round was planned.
    """
    log = open_topic(locate_lake(options.lake), options.topic)
    log.refresh()
    found, offset = [], stretch.start_offset
    for piece in log.state.pieces(stretch.partition):
        if piece.end_offset <= stretch.start_offset or piece.start_offset >= stretch.end_offset:
            continue
        if piece.start_offset > offset:
            break
        offset = piece.end_offset
        if isinstance(piece, DataFile):
            found.append((log.store.location(location_of(log, piece)).path, piece))
    if offset < stretch.end_offset:
        raise DataLossError(
            f"{without_secrets(options.lake)} has offset {offset} of "
            f"{options.topic}-{stretch.partition} no more, which was to be replayed"
        )
    return found


def _rows(options: ReplayOptions, path: str, stretch: _Stretch) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path, filesystem=locate_lake(options.lake).filesystem) as parquet:
        for rows in parquet.iter_batches(ROWS_PER_READ, columns=["offset", *COLUMNS]):
            offset = rows["offset"]
            keep = pc.and_(
                pc.greater_equal(offset, stretch.start_offset), pc.less(offset, stretch.end_offset)
            )
            yield rows.filter(keep)
