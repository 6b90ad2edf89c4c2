"""Stats: what is in topics, by partition and topic: rates, sizes, keys, codecs, gaps, lateness.

A task reads whole segments and returns sketches of them, which merge; no record leaves it. How
exact each figure is: `tidelog.segments.statistics.sketches`.
"""

from __future__ import annotations

import pickle
import time
import zlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec

from protocol.identifiers import TopicPartition
from protocol.limits import INT64_MAX
from tidelog.segments.errors import OptionError, SegmentError
from tidelog.segments.location import Location, locate
from tidelog.segments.log_files import list_partitions
from tidelog.segments.statistics.log_statistics import LogStatistics, StatisticsAim
from tidelog.segments.statistics.segment_statistics import StatisticsTask, segment_statistics
from tidelog.spark.jobs.job import Job
from tidelog.spark.jobs.stats_page import page_of
from tidelog.spark.jobs.stats_result import StatsResult, figures_of
from tidelog.spark.jobs.stats_tables import write_tables
from tidelog.spark.task_groups import run_grouped

__all__ = ["StatsOptions", "run"]


class StatsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at, how finely, and what to write."""

    path: str
    """A data directory, a partition's directory or a single segment; a URL, too."""
    topics: tuple[str, ...] = ()
    """These only; () is all."""
    start_timestamp_ms: int | None = None
    """Records of an earlier time are left out."""
    end_timestamp_ms: int | None = None
    """So are those of this time or a later one."""
    bucket_ms: int = 60_000
    late_ms: int = 60_000
    """A record is late if it is older than one before it by more than this."""
    parquet: str | None = None
    """A directory for the tables; those that are there are replaced."""
    html: str | None = None
    """A file for the report."""

    def __post_init__(self) -> None:
        if self.bucket_ms < 1:
            raise OptionError("the interval of rates must be at least a millisecond")
        if self.late_ms < 0:
            raise OptionError("what is late must not be below 0 ms")
        start, end = self.start_timestamp_ms, self.end_timestamp_ms
        if start is not None and end is not None and end <= start:
            raise OptionError("the end of the time range must be after its start")


class _Piece(NamedTuple):
    """What a task is given."""

    location: Location
    task: StatisticsTask


def run(options: StatsOptions, job: Job, *, clock: Callable[[], float] = time.time) -> StatsResult:
    """Read what the options name; write what they ask for.

    Args:
        clock: Seconds since the epoch; stands in the report.

    Raises:
        SegmentError: the path is not there, or holds no log; or none of a topic.
        OptionError: there is no directory for the report.
    """
    _check_page_place(options.html)
    location = locate(options.path)
    pieces = [_Piece(location, task) for task in _tasks(location, options.topics)]
    missing = set(options.topics) - {piece.task.topic for piece in pieces}
    if missing:
        raise SegmentError(f"{options.path} has no topic {', '.join(sorted(missing))}")
    result = StatsResult(
        segments=len(pieces), size_bytes=sum(map(_size_of, pieces)), is_dry_run=job.is_dry_run
    )
    if job.is_dry_run or not pieces:
        return result
    aim = StatisticsAim(
        options.bucket_ms, options.late_ms, options.start_timestamp_ms, options.end_timestamp_ms
    )
    on_done = partial(job.progress, "tasks")
    found = run_grouped(job.session, partial(read, aim=aim), pieces, _size_of, on_done)
    partitions = _partitions(found, aim)
    topics = _topics(partitions, aim)
    result.partitions = [figures_of(*key, each) for key, each in partitions.items()]
    result.topics = [figures_of(topic, None, each) for topic, each in topics.items()]
    if options.parquet is not None:
        result.written += write_tables(locate(options.parquet), result, partitions)
    if options.html is not None:
        now = datetime.fromtimestamp(clock(), UTC)
        result.written.append(_write_page(options.html, page_of(options.path, result, topics, now)))
    job.metric("records", sum(each.records for each in result.partitions), "Records read.")
    return result


def _tasks(location: Location, topics: tuple[str, ...]) -> list[StatisticsTask]:
    return [
        StatisticsTask(
            partition.topic, partition.partition, segment.path, segment.base_offset,
            segment.size_bytes, partition.log_start_offset,
            INT64_MAX if partition.high_watermark is None else partition.high_watermark,
        )
        for partition in list_partitions(location, topics or None)
        for segment in partition.segments
    ]  # fmt: skip


def _size_of(piece: _Piece) -> int:
    return piece.task.size_bytes


def read(piece: _Piece, *, aim: StatisticsAim) -> tuple[str, int, int, bytes]:
    """Read one segment in a task: topic, partition, base offset, and what was found.

    Compressed, for most of a sketch is zeros, and there may be thousands of them for the driver.
    """
    task = piece.task
    found = segment_statistics(piece.location, task, aim)
    return task.topic, task.partition, task.base_offset, zlib.compress(pickle.dumps(found), 1)


def _partitions(
    found: Iterable[tuple[str, int, int, bytes]], aim: StatisticsAim
) -> dict[TopicPartition, LogStatistics]:
    """Return what was found by partition, its segments put together in their order."""
    partitions: dict[TopicPartition, LogStatistics] = {}
    for topic, partition, _, packed in sorted(found, key=lambda each: each[:3]):
        whole = partitions.setdefault(TopicPartition(topic, partition), LogStatistics(aim))
        whole.append(pickle.loads(zlib.decompress(packed)))  # noqa: S301 - of a task of ours
    return partitions


def _topics(
    partitions: dict[TopicPartition, LogStatistics], aim: StatisticsAim
) -> dict[str, LogStatistics]:
    topics: dict[str, LogStatistics] = {}
    for topic, keys in groupby(partitions, key=lambda key: key.topic):
        topics[topic] = LogStatistics(aim)
        for key in keys:
            topics[topic].merge(partitions[key])
    return topics


def _check_page_place(path: str | None) -> None:
    """Say that a report has no place before hours of reading, rather than behind them."""
    if path is None or "://" in path:  # object stores have no directories
        return
    directory = Path(path).absolute().parent
    if not directory.is_dir():
        raise OptionError(f"{path} cannot be written: there is no directory {directory}")


def _write_page(path: str, page: str) -> str:
    location = locate(path)
    with location.filesystem.open_output_stream(location.path) as file:
        file.write(page.encode())
    return location.path
