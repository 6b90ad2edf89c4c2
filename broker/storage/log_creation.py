"""Making the logs of new partitions: files in a thread, then what the event loop knows of them.

Making a file waits for the file system's journal, and so for whoever is syncing something else: up
to hundreds of milliseconds, where opening one that is there takes microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from broker.storage.disk import Disk, Lock, storage_errors, write_whole
from broker.storage.leader_epochs import LeaderEpochs
from broker.storage.offset_index import OffsetIndex
from broker.storage.partition_log import PartitionLog
from broker.storage.producer_loader import new_producers
from broker.storage.segments import Segments
from broker.storage.time_index import TimeIndex
from protocol.errors import StorageError, TopicAlreadyExistsError
from protocol.identifiers import TopicPartition
from protocol.stored import partition_metadata
from protocol.stored.file_names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA,
    TIME_INDEX_SUFFIX,
    directory_name,
    segment_file_name,
)
from protocol.stored.leader_epoch_checkpoint import LeaderEpoch, encode

if TYPE_CHECKING:
    from broker.steps import Steps
    from broker.storage.log_config import LogConfig
    from broker.storage.log_context import LogContext
    from broker.storage.log_directory import LogDirectory

FIRST_EPOCHS: Final = (LeaderEpoch(0, 0),)
"""Epoch 0 from offset 0 on. A crash may leave the file empty: it says nothing, and 0 goes on."""
LOGS_PER_JOB: Final = 16
"""Whose files are made in one."""
LOGS_OPENED_PER_STEP: Final = 4
"""Some tenths of a millisecond each."""


class NewPartition(NamedTuple):
    """One that is to be made."""

    topic_partition: TopicPartition
    topic_id: UUID
    config: LogConfig


def make_files(disk: Disk, data_directory: Path, partition: NewPartition) -> Mapping[str, int]:
    """Make the directory of a new partition and all its files; may be called in a thread.

    Nothing of it is durable: files and directory entries are synced by the flush group that first
    holds a batch of it. Until then a crash may leave any part of it; whoever knows that the topic
    exists makes it again. A directory that such a crash has left is gone on with.

    Returns:
        The sizes of its files, by name.

    Raises:
        OSError: the disk refused.
    """
    topic_partition, topic_id, config = partition
    directory = data_directory / directory_name(topic_partition)
    if not disk.is_directory(directory):
        disk.make_directory(directory)
    for name, content in (
        (PARTITION_METADATA, partition_metadata.encode(topic_id)),
        (LEADER_EPOCH_CHECKPOINT, encode(FIRST_EPOCHS)),
    ):
        file = disk.open(directory / name, create=True)
        try:
            write_whole(file, [content], 0)
        finally:
            file.close()
    log_name = segment_file_name(0, LOG_SUFFIX)
    disk.open(directory / log_name, create=True).close()
    sizes = disk.file_sizes(directory)
    if sizes[log_name]:
        return sizes  # left by a crash, with something in it: looked at when it is opened
    index_bytes = config.segment_index_bytes
    for suffix, entry_bytes in (
        (OFFSET_INDEX_SUFFIX, OffsetIndex.ENTRY_BYTES),
        (TIME_INDEX_SUFFIX, TimeIndex.ENTRY_BYTES),
    ):
        name = segment_file_name(0, suffix)
        file = disk.open(directory / name, create=True)
        try:
            if sizes.get(name):
                file.truncate(0)  # nobody knows what is in there
            sizes[name] = index_bytes // entry_bytes * entry_bytes
            file.truncate(sizes[name])
        finally:
            file.close()
    return sizes


def open_new_log(
    context: LogContext, data_directory: Path, partition: NewPartition, sizes: Mapping[str, int]
) -> PartitionLog:
    """Return the log of a partition whose files `make_files` has made, with these sizes.

    Raises:
        StorageError: the disk refused.
    """
    topic_partition, topic_id, config = partition
    directory = data_directory / directory_name(topic_partition)
    is_left = bool(sizes[segment_file_name(0, LOG_SUFFIX)])
    segment = context.open_segment(
        directory, 0, config, create=True, active=True, sizes=None if is_left else sizes
    )
    epochs = LeaderEpochs(context.disk, directory)
    log = PartitionLog(
        context, topic_partition, topic_id, directory, config, Segments([segment]), epochs,
        new_producers(context, directory), log_start_offset=0, log_end_offset=0,
    )  # fmt: skip
    log.unflushed.add_file(directory / PARTITION_METADATA)
    log.unflushed.add_file(epochs.path)
    log.unflushed.add_directory(directory)
    log.unflushed.add_directory(data_directory)
    return log


def creation_steps(
    directory: LogDirectory, lock: Lock, partitions: Sequence[NewPartition]
) -> Steps[list[PartitionLog]]:
    """As `LogDirectory.create_steps`."""
    context, path = directory.context, directory.path
    for topic_partition, _, _ in partitions:
        if topic_partition in directory.logs or topic_partition in directory.unavailable:
            raise TopicAlreadyExistsError(f"{topic_partition} is in {path}")
    logs: list[PartitionLog] = []
    for start in range(0, len(partitions), LOGS_PER_JOB):
        some = partitions[start : start + LOGS_PER_JOB]
        files = _Files(context.disk, path, lock, some)
        with storage_errors("make logs in", path):
            yield files.make
        for each, sizes in zip(some, files.sizes, strict=True):
            logs.append(open_new_log(context, path, each, sizes))
            if not len(logs) % LOGS_OPENED_PER_STEP:
                yield None
    offsets = directory.durable_offsets
    for log in logs:
        log.keep_durable_offset_in(offsets)
    try:
        with storage_errors("write", offsets.path):
            offsets.write_or_fail()
    except StorageError:  # a full disk, say: nobody will know these logs
        for log in logs:
            offsets.remove(log.topic_id, log.topic_partition.partition)
        raise
    yield offsets.sync
    directory.logs.update((log.topic_partition, log) for log in logs)
    context.touched.update(dict.fromkeys(logs))
    return logs


class _Files:
    """The files of some new partitions."""

    def __init__(
        self, disk: Disk, path: Path, lock: Lock, partitions: Sequence[NewPartition]
    ) -> None:
        self._disk, self._path, self._lock, self._partitions = disk, path, lock, partitions
        self.sizes: list[Mapping[str, int]] = []
        """What `make_files` has returned for each."""

    def make(self) -> None:
        """In a thread; errors as of `make_files`."""
        self._lock.check()  # else they would be lost from sight in an unmounted directory
        self.sizes += [make_files(self._disk, self._path, each) for each in self._partitions]
