"""StoredOffsets: what groups committed, and where partitions ended then, from the files alone.

`__consumer_offsets` is compacted: of the commits of a group and partition older than its last
cleaning only the last one is left, so the past is as fine as the cleaner has left it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from protocol.errors import StoredFormatError
from protocol.identifiers import TopicPartition
from protocol.stored.group_records import OffsetKey, decode_key, decode_offset_commit
from tidelog.segments.errors import SegmentError
from tidelog.segments.location import Location, locate
from tidelog.segments.log_files import PartitionFiles, list_partitions
from tidelog.segments.plan import Split, bounds, offset_for_time, plan
from tidelog.segments.read_options import ReadOptions
from tidelog.segments.reader import read_split
from tidelog.spark.jobs.commit import Commit, PartitionEnds
from tidelog.spark.jobs.job import Job
from tidelog.spark.tasks import run_tasks

__all__ = ["stored_commits", "stored_ends"]

OFFSETS_TOPIC: Final = "__consumer_offsets"
READ: Final = ReadOptions(columns=("key", "value", "timestamp"), isolation="read_committed")
LOOKUPS_PER_TASK: Final = 256
"""Each costs about a millisecond."""


def stored_commits(job: Job, path: str, every_ms: int | None) -> list[Commit]:
    """Return the last commit of each group and partition in each interval, in order of time.

    Args:
        every_ms: Length of the intervals; None: one for all time.

    Raises:
        SegmentError: there is no data directory with committed offsets.
    """
    location = locate(path)
    partitions = list_partitions(location, [OFFSETS_TOPIC])
    if not partitions:
        raise SegmentError(f"{location} holds no {OFFSETS_TOPIC}: no group has committed there")
    splits = [
        split
        for files in partitions
        for split in plan(location, files, *bounds(location, files, isolation="read_committed"))
    ]
    # A group's commits are in one partition, whose splits are in the order of their offsets.
    work = partial(_commits, path, every_ms)
    last: dict[tuple[str, str, int, int], Commit] = {}
    for found in run_tasks(job.session, work, splits, partial(job.progress, "splits")):
        last |= {commit[:4]: commit for commit in found}
    return sorted(last.values(), key=lambda commit: commit[:4])


def stored_ends(
    job: Job, path: str, times: Mapping[TopicPartition, Sequence[int]]
) -> dict[TopicPartition, PartitionEnds]:
    """Return where partitions end today and ended at some times (ms); only those that are there.

    The end at a time is the offset of the first record that is later: what its producer says.
    """
    location = locate(path)
    asked = [
        _Asked(files, times[key])
        for files in list_partitions(location, {key.topic for key in times})
        if (key := TopicPartition(files.topic, files.partition)) in times
    ]
    done = partial(job.progress, "tasks")
    found = run_tasks(job.session, partial(_ends, path), _tasks(asked), done)
    return {key: ends for of_task in found for key, ends in of_task}


class _Asked(NamedTuple):
    """A partition, and the times for which its end is asked for."""

    files: PartitionFiles
    times: Sequence[int]


def _tasks(asked: Sequence[_Asked]) -> list[list[_Asked]]:
    tasks: list[list[_Asked]] = []
    lookups = LOOKUPS_PER_TASK
    for each in asked:
        if lookups >= LOOKUPS_PER_TASK:
            tasks.append([])
            lookups = 0
        tasks[-1].append(each)
        lookups += len(each.times) + 1
    return tasks


def _commits(path: str, every_ms: int | None, split: Split) -> list[Commit]:
    """Return the last commit of each group, partition and interval in a split."""
    last: dict[tuple[str, str, int, int], Commit] = {}
    for batch in read_split(locate(path), split, READ):
        for commit in map(_commit, *(column.to_pylist() for column in batch)):
            if commit is not None:
                interval = 0 if every_ms is None else -(-(commit.at_ms or 0) // every_ms)
                commit = commit._replace(interval=interval)
                last[commit[:4]] = commit
    return list(last.values())


def _commit(key: bytes | None, value: bytes | None, timestamp: Any) -> Commit | None:
    """Return what a record of `__consumer_offsets` commits; None if it is of another kind."""
    try:
        about = None if key is None else decode_key(key)
        if not isinstance(about, OffsetKey):
            return None
        if value is None:
            return Commit(*about, 0, None, round(timestamp.timestamp() * 1000))
        commit = decode_offset_commit(value)
    except StoredFormatError:  # of a newer broker
        return None
    return Commit(*about, 0, commit.offset, commit.commit_timestamp)


def _ends(path: str, asked: Sequence[_Asked]) -> list[tuple[TopicPartition, PartitionEnds]]:
    location = locate(path)
    return [
        (TopicPartition(files.topic, files.partition), _partition_ends(location, files, times))
        for files, times in asked
    ]


def _partition_ends(
    location: Location, files: PartitionFiles, times: Sequence[int]
) -> PartitionEnds:
    start, end = bounds(location, files)

    def end_at(when: int) -> int:
        later = offset_for_time(location, files, when + 1)
        return end if later is None else min(later, end)

    return PartitionEnds(start, end, {when: end_at(when) for when in times})
