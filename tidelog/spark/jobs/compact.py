"""Compact: topics of a data directory by key, written as segments of another directory.

A task for each partition: it reads and writes with `tidelog.segments.compaction`, and Spark has
nothing to do with a record. The source is only read, so that it may be that of a running broker:
what is written then ends at the high watermark that was last written down.

The output is a data directory to start a broker on, Tidelog's or Kafka's: segments with their
indexes, leader epochs and topic ids, and the checkpoints without which recovery would take the gaps
for a torn tail. Producer snapshots are not copied: recovery makes them anew from the last batch of
each producer, which stays.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from pyarrow.fs import FileSelector, FileType, LocalFileSystem

from protocol.identifiers import TopicPartition
from protocol.stored.checkpoint import offset_checkpoint_decode, offset_checkpoint_encode
from protocol.stored.file_names import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    directory_name,
)
from tidelog.segments.compaction.partition_compaction import (
    DAY_MS,
    MEMORY_BYTES,
    CompactedPartition,
    CompactionRules,
    compact_partition,
)
from tidelog.segments.compaction.segment_output import SEGMENT_BYTES, write_file
from tidelog.segments.location import Location, locate
from tidelog.segments.log_files import PartitionFiles, list_partitions
from tidelog.spark.jobs.job import Job, JobError
from tidelog.spark.tasks import run_tasks

__all__ = ["CompactOptions", "CompactResult", "run"]

COPIED: Final = (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA)
UNFINISHED: Final = ".compacting-"
"""In the name of a directory that a task has not done: no broker takes it for a partition."""


class CompactOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be compacted."""

    path: str
    """A data directory, or a partition's; of this machine, or a URL."""
    output: str
    """A directory for partitions' directories; made if missing."""
    topics: tuple[str, ...]
    delete_retention_ms: int = DAY_MS
    segment_bytes: int = SEGMENT_BYTES
    memory_bytes: int = MEMORY_BYTES
    """Of the table of keys, of each task."""


class CompactResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    output: str
    partitions: tuple[CompactedPartition, ...]
    planned: tuple[str, ...] = ()
    """With a dry run: the partitions that would be compacted."""

    @property
    def is_ok(self) -> bool:
        return True

    def rows(self) -> Sequence[Mapping[str, object]]:
        return [
            {
                "topic": each.topic,
                "partition": each.partition,
                "offsets": f"{each.log_start_offset} to {each.end_offset}",
                "records": each.records_read,
                "kept": each.records_kept,
                "without_key": each.keyless,
                "bytes": each.bytes_read,
                "written": each.bytes_written,
            }
            for each in self.partitions
        ]

    def sentence(self) -> str:
        if self.planned:
            return f"would compact {', '.join(self.planned)} into {self.output}"
        read = sum(each.records_read for each in self.partitions)
        kept = sum(each.records_kept for each in self.partitions)
        return f"{self.output}: {kept:,} of {read:,} records are the last ones of their keys"


def run(
    options: CompactOptions, job: Job, *, clock: Callable[[], float] = time.time
) -> CompactResult:
    """Compact all partitions of some topics.

    A run that dies leaves whole partitions, and directories that are in nobody's way; the next one
    wants an output without these partitions.

    Args:
        clock: Seconds since 1970: tombstones get their delete horizon from it.

    Raises:
        JobError: a topic is not there, or the output has it already.
        SegmentError: the source cannot be read, or is damaged; nothing is left out silently.
    """
    found = list_partitions(locate(options.path), options.topics)
    missing = sorted(set(options.topics) - {files.topic for files in found})
    if missing:
        raise JobError(f"{options.path} has no topic {missing[0]!r}")
    output = locate(options.output)
    keys = [TopicPartition(files.topic, files.partition) for files in found]
    _check_free(output, keys)
    if job.is_dry_run:
        planned = tuple(map(directory_name, keys))
        return CompactResult(output=options.output, partitions=(), planned=planned)
    output.filesystem.create_dir(output.path, recursive=True)
    rules = CompactionRules(
        now_ms=int(clock() * 1000),
        delete_retention_ms=options.delete_retention_ms,
        segment_bytes=options.segment_bytes,
        memory_bytes=options.memory_bytes,
    )
    work = partial(_compact, options.path, options.output, rules)
    done = run_tasks(job.session, work, found, partial(job.progress, "partitions"))
    _write_checkpoints(output, done)
    job.metric("records_read", sum(each.records_read for each in done), "Records looked at.")
    job.metric("records_kept", sum(each.records_kept for each in done), "Records that stay.")
    return CompactResult(output=options.output, partitions=tuple(done))


def _check_free(output: Location, keys: Sequence[TopicPartition]) -> None:
    if output.filesystem.get_file_info(output.path).type is FileType.File:
        raise JobError(f"{output.path} is a file: name a directory to write into")
    places = [output.child(directory_name(key)) for key in keys]
    if not places:
        return
    for info in output.filesystem.get_file_info([place.path for place in places]):
        if info.type is not FileType.NotFound:
            raise JobError(f"{info.path} is there already: name an output without it, or remove it")


def _compact(
    path: str, output: str, rules: CompactionRules, files: PartitionFiles
) -> CompactedPartition:
    """Compact one partition; a task.

    On this machine it becomes visible whole, by a rename, whichever try comes first. An object
    store has no renames: there each file becomes visible whole, and tries write the same files.
    """
    source, parent = locate(path), locate(output)
    final = parent.child(directory_name(TopicPartition(files.topic, files.partition)))
    is_local = isinstance(final.filesystem, LocalFileSystem)
    made = parent.child(f"{files.topic}-{files.partition}{UNFINISHED}{uuid.uuid4().hex}")
    made = made if is_local else final
    made.filesystem.create_dir(made.path)
    try:
        done = compact_partition(source, files, made, rules)
        _copy_small_files(source, files, made)
        if is_local:
            made.filesystem.move(made.path, final.path)
    except BaseException:
        if is_local:
            made.filesystem.delete_dir(made.path)
        raise
    return done


def _copy_small_files(source: Location, files: PartitionFiles, target: Location) -> None:
    if not files.segments:
        return
    directory = files.segments[0].path.rpartition("/")[0]
    for info in source.filesystem.get_file_info(FileSelector(directory)):
        if info.base_name in COPIED:
            with source.filesystem.open_input_stream(info.path) as file:
                write_file(target.child(info.base_name), file.read())


def _write_checkpoints(output: Location, done: Sequence[CompactedPartition]) -> None:
    """Tell who starts on the output that all is durable, and that gaps are a cleaner's."""
    keys = [TopicPartition(each.topic, each.partition) for each in done]
    ends = dict(zip(keys, (each.end_offset for each in done), strict=True))
    starts = dict(zip(keys, (each.log_start_offset for each in done), strict=True))
    cleaned = dict(zip(keys, (each.cleaned_offset for each in done), strict=True))
    for name, offsets in (
        (RECOVERY_POINT_CHECKPOINT, ends),
        (HIGH_WATERMARK_CHECKPOINT, ends),
        (LOG_START_CHECKPOINT, starts),
        (CLEANER_CHECKPOINT, cleaned),
    ):
        place = output.child(name)
        before: dict[TopicPartition, int] = {}
        if output.filesystem.get_file_info(place.path).type is FileType.File:
            with output.filesystem.open_input_stream(place.path) as file:
                before = offset_checkpoint_decode(file.read())
        write_file(place, offset_checkpoint_encode(before | offsets))
