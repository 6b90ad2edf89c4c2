"""Lag: how far groups are behind the ends of the partitions they read, now and over time.

Lag counts offsets, as Kafka's tools do: markers of transactions and what compaction has taken out
count, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from protocol.identifiers import TopicPartition
from tidelog.segments.errors import OptionError
from tidelog.segments.location import locate
from tidelog.spark.jobs.commit import Commit, PartitionEnds
from tidelog.spark.jobs.job import Job, JobError
from tidelog.spark.jobs.live_offsets import LiveOffsets
from tidelog.spark.jobs.stored_offsets import stored_commits, stored_ends

__all__ = ["Lag", "LagOptions", "LagResult", "run"]

ROWS_MAX: Final = 100_000
"""For each of the past an index is asked."""
TIME_TYPE: Final = pa.timestamp("ms", tz="UTC")
SCHEMA: Final = pa.schema(
    [
        ("time", TIME_TYPE),
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("committed", pa.int64()),
        ("end", pa.int64()),
        ("lag", pa.int64()),
        ("lost", pa.int64()),
        ("committed_at", TIME_TYPE),
    ]
)


class LagOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which groups, whose word, and what to do with it."""

    path: str | None = None
    """A data directory, here or in an object store."""
    broker: str | None = None
    """Or the address of a running broker's Kafka listener."""
    groups: tuple[str, ...] = ()
    """These only; so with topics."""
    topics: tuple[str, ...] = ()
    every_ms: int | None = None
    """Also at each whole multiple of this in the past."""
    since_ms: int = 0
    """As far back as this."""
    parquet: str | None = None
    """Where to write the table as a Parquet file, too; one that is there is replaced."""
    max_lag: int | None = None
    """The job is not well if a group is further behind now."""

    def __post_init__(self) -> None:
        if (self.path is None) == (self.broker is None):
            raise OptionError("name a data directory or a broker, and not both")
        if self.broker is not None and self.every_ms is not None:
            raise OptionError("a broker knows today's offsets only: for the past name a directory")
        if self.since_ms and self.every_ms is None:
            raise OptionError("a beginning of the past (since) needs an interval (every)")
        if self.every_ms is not None and self.every_ms < 1:
            raise OptionError("the interval must be longer than nothing")


class Lag(msgspec.Struct, frozen=True):
    """How far one group was behind in one partition at one time."""

    time: datetime
    group: str
    topic: str
    partition: int
    committed: int
    """The offset that the group will read next."""
    end: int | None
    """The offset that the next record will have; None: the partition is not there any more."""
    lag: int | None
    lost: int | None
    """Offsets that went, by retention or deletion, before the group came; only known of today."""
    committed_at: datetime | None


class LagResult(msgspec.Struct):
    """Lags by group, topic, partition and time; the last one of each is today's."""

    lags: list[Lag]
    max_lag: int | None
    behind_max: int
    """Of today's."""
    lost: int
    is_dry_run: bool

    def rows(self) -> list[dict[str, object]]:
        return [_row(lag) for lag in self.lags]

    def sentence(self) -> str:
        if not self.lags:
            return "no group has committed anything"
        groups = len({lag.group for lag in self.lags})
        text = f"{groups:,} group{'' if groups == 1 else 's'}, at most {self.behind_max:,} behind"
        if self.lost:
            text += f"; {self.lost:,} offsets went before they were read"
        if not self.is_ok:
            text += f"; {self.max_lag:,} would be well"
        return text

    @property
    def is_ok(self) -> bool:
        return self.max_lag is None or self.behind_max <= self.max_lag


def run(options: LagOptions, job: Job, *, clock: Callable[[], float] = time.time) -> LagResult:
    """Return the lags, and write them if that is asked for.

    Raises:
        JobError: the broker refuses to tell; or a group that is named has committed nothing.
        ConnectionLostError: it is not there.
        SegmentError: the data directory is not there, or cannot be read.
        OptionError: the past is too long for its interval.
    """
    now_ms = int(clock() * 1000)
    if options.broker is not None:
        commits, ends = _live(options)
    else:
        commits, ends = _stored(options, job, now_ms)
    _check_found(commits, options)
    lags = [
        lag
        for _, of_one in groupby(commits, key=lambda commit: commit[:3])
        for lag in _lags(list(of_one), ends, options, now_ms)
    ]
    today = [lag for lag in lags if lag.time == _moment(now_ms)]
    result = LagResult(
        lags,
        options.max_lag,
        max((lag.lag or 0 for lag in today), default=0),
        sum(lag.lost or 0 for lag in today),
        job.is_dry_run,
    )
    job.metric("behind_max", result.behind_max, "Offsets that the slowest group is behind.")
    job.metric("lost", result.lost, "Offsets that went before groups came.")
    if options.parquet is not None and not job.is_dry_run:
        _write_parquet(options.parquet, lags)
    return result


def _live(options: LagOptions) -> tuple[list[Commit], Mapping[TopicPartition, PartitionEnds]]:
    assert options.broker is not None
    broker = LiveOffsets(options.broker)
    try:
        commits = sorted(_wanted(broker.commits(options.groups), options))
        return commits, broker.ends(_partitions(commits))
    finally:
        broker.close()


def _stored(
    options: LagOptions, job: Job, now_ms: int
) -> tuple[list[Commit], Mapping[TopicPartition, PartitionEnds]]:
    assert options.path is not None
    commits = list(_wanted(stored_commits(job, options.path, options.every_ms), options))
    times: dict[TopicPartition, Sequence[int]] = dict.fromkeys(_partitions(commits), ())
    row_count = 0
    for key, of_one in groupby(commits, key=lambda commit: commit[:3]):
        past = _times(next(of_one), options, now_ms)
        row_count += len(past) + 1
        partition = TopicPartition(key[1], key[2])
        times[partition] = max(times[partition], past, key=len)
    if row_count > ROWS_MAX:
        raise OptionError(
            f"that would be {row_count:,} rows, and at most {ROWS_MAX:,} can be: take a longer "
            "interval, a later beginning, or fewer groups and topics"
        )
    return commits, stored_ends(job, options.path, times)


def _wanted(commits: Iterable[Commit], options: LagOptions) -> Iterator[Commit]:
    for commit in commits:
        if options.groups and commit.group not in options.groups:
            continue
        if not options.topics or commit.topic in options.topics:
            yield commit


def _check_found(commits: Sequence[Commit], options: LagOptions) -> None:
    """Refuse names that nobody has: that nobody of them is behind would be true, and no help."""
    for kind, named, there in (
        ("group", options.groups, {commit.group for commit in commits}),
        ("topic", options.topics, {commit.topic for commit in commits}),
    ):
        missing = sorted(set(named) - there)
        if missing:
            raise JobError(f"no committed offsets of the {kind} {', '.join(missing)} are there")


def _partitions(commits: Iterable[Commit]) -> set[TopicPartition]:
    return {TopicPartition(commit.topic, commit.partition) for commit in commits}


def _times(first: Commit, options: LagOptions, now_ms: int) -> range:
    """Return the times in the past to look at, from a group's first commit on."""
    every_ms = options.every_ms
    if every_ms is None:
        return range(0)
    begin = max(first.interval, -(-options.since_ms // every_ms))
    return range(begin * every_ms, now_ms, every_ms)


def _lags(
    commits: Sequence[Commit],
    ends: Mapping[TopicPartition, PartitionEnds],
    options: LagOptions,
    now_ms: int,
) -> Iterator[Lag]:
    """Yield the lags of one group in one partition, whose commits are in order of time."""
    key = TopicPartition(commits[0].topic, commits[0].partition)
    found = ends.get(key)
    every_ms = options.every_ms or 0
    position, last = 0, commits[0]
    for when in _times(commits[0], options, now_ms):
        while position < len(commits) and commits[position].interval * every_ms <= when:
            last = commits[position]
            position += 1
        if last.offset is not None:
            yield _lag(last, when, None if found is None else found.past[when], None)
    last = commits[-1]
    if last.offset is not None:
        lost = None if found is None else max(0, found.start - last.offset)
        yield _lag(last, now_ms, None if found is None else found.end, lost)


def _lag(commit: Commit, when_ms: int, end: int | None, lost: int | None) -> Lag:
    assert commit.offset is not None
    return Lag(
        _moment(when_ms),
        commit.group,
        commit.topic,
        commit.partition,
        commit.offset,
        end,
        None if end is None else max(0, end - commit.offset),
        lost,
        None if commit.at_ms is None else _moment(commit.at_ms),
    )


def _moment(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)


def _row(lag: Lag) -> dict[str, Any]:
    row = msgspec.structs.asdict(lag)
    for name in ("time", "committed_at"):
        row[name] = row[name] and f"{row[name]:%Y-%m-%d %H:%M:%S}"
    return row


def _write_parquet(path: str, lags: Sequence[Lag]) -> None:
    """Write the file under another name first, so that a reader finds the old one or the new."""
    location = locate(path)
    unfinished = f"{location.path}.partial"
    table = pa.Table.from_pylist([msgspec.structs.asdict(lag) for lag in lags], SCHEMA)
    pq.write_table(table, unfinished, filesystem=location.filesystem)
    location.filesystem.move(unfinished, location.path)
