"""TopicLogs: the logs of topics over all data directories: where they go, made and deleted.

In steps of a millisecond or so on the event loop; syncs are their jobs, for a thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.storage.disk import Disk, storage_errors
from broker.storage.log_creation import NewPartition
from protocol.errors import StorageError
from protocol.identifiers import TopicPartition
from protocol.stored.file_names import directory_name

if TYPE_CHECKING:
    from broker.data_directories import DataDirectories
    from broker.steps import Steps
    from broker.storage.log_config import LogConfig
    from broker.storage.log_directory import LogDirectory
    from broker.storage.partition_log import PartitionLog
    from broker.topic_registry import TopicEntry

PARTITIONS_PER_STEP: Final = 16
"""Made or renamed in one: some system calls each."""


class TopicLogs:
    """In the data directories that are there; on the event loop's thread."""

    def __init__(self, directories: DataDirectories) -> None:
        self._directories = directories

    def create_steps(
        self, entry: TopicEntry, config: LogConfig, numbers: Iterable[int]
    ) -> Steps[dict[int, PartitionLog]]:
        """Make the logs of some partitions, in the directories with the fewest, by number.

        Raises:
            TopicAlreadyExistsError: there is such a partition.
            StorageError: the disk refused, or no directory has space; some may have been made.
            OSError: a sync failed: final.
        """
        logs: dict[int, PartitionLog] = {}
        listed = list(numbers)
        for start in range(0, len(listed), PARTITIONS_PER_STEP):
            chosen: dict[LogDirectory, list[int]] = {}
            for number in listed[start : start + PARTITIONS_PER_STEP]:
                chosen.setdefault(self._directories.least_used(chosen), []).append(number)
            for directory, its_numbers in chosen.items():
                made = yield from directory.create_steps(
                    [
                        NewPartition(TopicPartition(entry.name, n), entry.topic_id, config)
                        for n in its_numbers
                    ]
                )
                logs.update((log.topic_partition.partition, log) for log in made)
            yield None
        return logs

    def removing_leftovers(self, entry: TopicEntry, first: int = 0) -> Steps[None]:
        """Remove what a failed creation, from number `first` on, left beside the logs it made.

        Raises:
            StorageError: the disk refused; the next start finds the topic half made, and makes it.
        """
        for directory in self._directories.present:
            context = directory.context
            for number in range(first, entry.partition_count):
                topic_partition = TopicPartition(entry.name, number)
                path = directory.path / directory_name(topic_partition)
                is_in_use = topic_partition in directory.logs
                if is_in_use or topic_partition in directory.unavailable:
                    continue
                with storage_errors("remove", path):
                    removed: list[str] = []
                    yield partial(_remove_directory, context.disk, path, removed)
                for name in removed:
                    context.handles.forget(path / name)

    def delete_steps(self, entry: TopicEntry, first: int = 0) -> Steps[bool]:
        """Rename the directories of a topic, from number `first` on, away, durably.

        Returns:
            Whether some are left, because they cannot be used, or their data directory is missing.

        Raises:
            StorageError: the disk refused; some may have been renamed. The other directories went
                first: none is skipped for the failure of another.
        """
        left_some = bool(self._directories.missing)
        failure: StorageError | None = None
        partitions = [TopicPartition(entry.name, n) for n in range(first, entry.partition_count)]
        for directory in self._directories.present:
            left_some = left_some or any(each in directory.unavailable for each in partitions)
            there = [each for each in partitions if each in directory.logs]
            try:
                for start in range(0, len(there), PARTITIONS_PER_STEP):
                    yield from directory.delete_steps(there[start : start + PARTITIONS_PER_STEP])
                    yield None
            except StorageError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return left_some


def _remove_directory(disk: Disk, path: Path, removed: list[str]) -> None:
    """In a thread: remove a directory, if it is there, and add to `removed` what was in it."""
    if disk.is_directory(path):
        for name in disk.list_directory(path):
            disk.unlink(path / name)
            removed.append(name)
        disk.remove_directory(path)
