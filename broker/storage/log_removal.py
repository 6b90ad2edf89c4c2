"""Removing the logs of partitions: their directories are renamed away, in a thread."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.storage.disk import Disk, storage_errors
from protocol.errors import StorageError
from protocol.identifiers import TopicPartition
from protocol.stored.file_names import deleted_directory_name

if TYPE_CHECKING:
    from broker.steps import Steps
    from broker.storage.log_directory import LogDirectory
    from broker.storage.partition_log import PartitionLog

LOGS_PER_JOB: Final = 16
"""Renamed in one."""
LOGS_CLOSED_PER_STEP: Final = 4
"""Some tenths of a millisecond each, where many files are open."""


def removal_steps(
    directory: LogDirectory, doomed: list[Path], topic_partitions: Iterable[TopicPartition]
) -> Steps[None]:
    """As `LogDirectory.delete_steps`.

    Args:
        doomed: What is to be unlinked is added to it.
    """
    context, path = directory.context, directory.path
    wanted = [directory.logs[each] for each in topic_partitions]
    for start in range(0, len(wanted), LOGS_PER_JOB):
        some = wanted[start : start + LOGS_PER_JOB]
        for number, log in enumerate(some, 1):
            log.abandon()
            if not number % LOGS_CLOSED_PER_STEP:
                yield None
        renamed: list[Path] = []
        failure: StorageError | None = None
        try:
            with storage_errors("delete logs in", path):
                yield partial(_rename_away, context.disk, path, some, renamed)
        except StorageError as error:
            failure = error
        for number, (log, new_path) in enumerate(zip(some, renamed, strict=False), 1):
            del directory.logs[log.topic_partition]
            directory.checkpoints.forget(log.topic_partition)
            # What a running flush still has open must not be taken for a new log's files.
            context.handles.renamed(log.directory, new_path)
            doomed.append(new_path)
            if not number % LOGS_CLOSED_PER_STEP:
                yield None
        if failure is not None:
            raise failure
    with storage_errors("delete logs in", path):
        yield partial(context.disk.sync_directory, path)
    for log in wanted:
        directory.durable_offsets.remove(log.topic_id, log.topic_partition.partition)
    context.is_checkpoint_due = True


def _rename_away(disk: Disk, path: Path, logs: Sequence[PartitionLog], renamed: list[Path]) -> None:
    """In a thread: add to `renamed` where each has gone."""
    for log in logs:
        new_path = path / deleted_directory_name(log.topic_partition, uuid.uuid4())
        disk.rename(log.directory, new_path)
        renamed.append(new_path)
