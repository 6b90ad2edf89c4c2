"""TopicStore: topics as they are kept: their rows in the registry, their logs in the directories.

What makes a topic exist is its row, durable before a directory of it is made; what makes it go is
the row's mark, durable before a directory of it is renamed. So a crash at any moment leaves
something that the next start finishes (`start_plan`). The registry is used by one thread of its
own; all else happens on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import errno
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

import msgspec
import structlog

from broker.collector import Collector
from broker.data_directories import (
    DataDirectories,
    check_first_directory,
    make_directory,
    missing_directories,
)
from broker.directory_opening import DirectoryOpening
from broker.kafka_topics import kafka_topics, settings_to_adopt
from broker.process_limits import IDLE_FILES_PART, PINNED_FILES_PART, files_fitting
from broker.start_plan import FoundPartition, StartPlan, plan_start
from broker.step_tasks import run_in_turns
from broker.steps import Steps
from broker.storage.log_config import LogConfig
from broker.storage.storage_options import StorageOptions
from broker.topic_logs import TopicLogs
from broker.topic_names import TopicNames
from broker.topic_registry import FILE_NAME, TopicEntry, TopicRegistry, is_failed_sync
from broker.topic_settings import log_config
from protocol.errors import (
    DataDirectoryError,
    InvalidConfigError,
    StorageError,
    TopicAlreadyExistsError,
)

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.config import Config, StorageConfig
    from broker.start_recovery import StartRecovery
    from broker.storage.disk import Disk
    from broker.storage.partition_log import PartitionLog

_log = structlog.get_logger("tidelog.topics")

T = TypeVar("T")


class TopicStore:
    """Topics on disk; what is done with their logs is the manager's business."""

    def __init__(
        self,
        config: Config,
        *,
        loop: asyncio.AbstractEventLoop,
        disk: Disk,
        clock: Clock,
        registry_executor: Executor,
        registry_path: Path | None = None,
        maps_files: bool = True,
        recovery: StartRecovery | None = None,
    ) -> None:
        """Args:
        registry_executor: Must have one thread.
        registry_path: Where the registry is, if not in the first data directory.
        maps_files: The event loop can send mapped files (uvloop).
        recovery: Recovers many logs at once; see `DirectoryOpening`.
        """
        storage = config.storage
        self._loop, self._disk, self._clock = loop, disk, clock
        self._executor = registry_executor
        self._node_id = config.daemon.node_id
        self.paths = [Path(path).absolute() for path in storage.data_dirs]
        self._allow_missing = {Path(path).absolute() for path in config.daemon.allow_missing_dirs}
        self._registry_path = registry_path or self.paths[0] / FILE_NAME
        self._options = _storage_options(storage, len(self.paths), maps_files=maps_files)
        self.defaults = config.topics.log_config()
        """Settings of topics that do not set their own."""
        self.entries: dict[str, TopicEntry] = {}
        """Every topic that exists, by name."""
        self.names = TopicNames()
        self._adoptable: dict[str, dict[str, str]] = {}  # settings that Kafka's controller knew
        self.directories = DataDirectories((), ())
        self._open_registry: TopicRegistry | None = None
        self._recovery = recovery
        self._collector = Collector()
        self.on_failed_sync: Callable[[OSError], object] = lambda error: None
        """Is told of a sync of the registry that failed: final."""

    # --- start and end --------------------------------------------------------------------------

    async def open(self) -> dict[str, list[PartitionLog | None]]:
        """Lock and load the data directories, agree them with the registry, return all logs.

        By topic and partition number; None: the partition exists and cannot be used.

        Raises:
            DataDirectoryError: the start is refused; the text says why.
            OSError: the disk refused; a failed sync among others.
        """
        check_first_directory(self._disk, self.paths)
        make_directory(self._disk, self.paths[0])
        opening = partial(TopicRegistry.open, self._registry_path)
        self._open_registry = await self._in_registry(opening)
        try:
            return await self._open_directories()
        except BaseException:
            await self.close(clean=False)
            raise

    @property
    def _logs(self) -> TopicLogs:
        return TopicLogs(self.directories)

    @property
    def _registry(self) -> TopicRegistry:
        assert self._open_registry is not None, "the store is not open"
        return self._open_registry

    async def _open_directories(self) -> dict[str, list[PartitionLog | None]]:
        registry = self._registry
        known = await self._in_registry(registry.data_directories)
        entries = await self._in_registry(registry.topics)
        deleted_ids = await self._in_registry(registry.deleted_topic_ids)
        missing = missing_directories(
            self._disk, self.paths, known=known, allow_missing=self._allow_missing
        )
        self.entries = {entry.name: entry for entry in entries if not entry.is_deleting}
        kafka = await self._in_registry(kafka_topics, self._disk, self.paths)
        for name, topic in kafka.items():
            self._adoptable[name], lost = settings_to_adopt(topic)
            if lost and name not in self.entries:
                _log.warning("settings of Kafka's are left out", topic=name, settings=lost)
        opening = DirectoryOpening(
            self._disk,
            self._clock,
            self._options,
            node_id=self._node_id,
            config_of=self.config_of,
            topic_ids={entry.name: entry.topic_id for entry in entries},
            executor=self._executor,
            recovery=self._recovery,
        )
        self.directories = await opening.open(self.paths, missing)
        plan = plan_start(
            entries,
            deleted_ids,
            self._found_partitions(),
            has_missing_directories=bool(missing),
            new_id=uuid4,
            settings_of=self._settings_to_adopt,
        )
        forgotten = known - {str(path) for path in self.paths}
        if forgotten and plan.create:
            raise DataDirectoryError(
                f"{len(plan.create)} partitions are missing, {plan.create[0][0]} for one, and data "
                f"directory {min(forgotten)}, in use before, is not configured any more: name it"
            )
        await self._carry_out(plan)
        for name in self.entries:
            self.names.add(name)
        await self._in_registry(registry.set_data_directories, [str(path) for path in self.paths])
        return self._logs_by_topic()

    def _found_partitions(self) -> list[FoundPartition]:
        found: list[FoundPartition] = []
        for number, directory in self.directories.numbered():
            for topic_partition, log in directory.logs.items():
                found.append(FoundPartition(topic_partition, log.topic_id, number))
            found += [FoundPartition(each, None, number) for each in directory.unavailable]
        return found

    async def _carry_out(self, plan: StartPlan) -> None:
        registry = self._registry
        for found in plan.delete:
            self.directories.number(found.directory).delete_log(found.topic_partition)
        for entry in plan.finish_delete:
            _log.info("deletion finished", topic=entry.name)
            finish = partial(registry.finish_delete, remember=entry.name in plan.remember)
            await self._in_registry(finish, entry.name)
        for entry in plan.adopt:
            adopted = {"topic": entry.name, "partitions": entry.partition_count, **entry.settings}
            if entry.name in self._adoptable:
                _log.info("topic adopted, with the settings that Kafka had", **adopted)
            else:
                _log.warning(
                    "topic adopted; its settings are not known: nothing is deleted", **adopted
                )
            await self._in_registry(registry.create, entry)
            self.entries[entry.name] = entry
        for entry in plan.grow:
            _log.info("partitions adopted", topic=entry.name, partitions=entry.partition_count)
            await self._in_registry(registry.set_partition_count, entry.name, entry.partition_count)
            self.entries[entry.name] = entry
        for topic_partition, entry in plan.create:
            refusals = (
                directory.refuse_lost_log(topic_partition, entry.topic_id)
                for directory in self.directories.present
            )
            if any(refusals):
                _log.error("partition not available", partition=str(topic_partition))
                continue
            _log.warning("partition made, empty: there was none", partition=str(topic_partition))
            numbers = [topic_partition.partition]
            await self._run(self._logs.create_steps(entry, self.config_of(entry.name), numbers))
        for topic_partition in plan.unavailable:
            _log.error("partition not available", partition=str(topic_partition))

    def _logs_by_topic(self) -> dict[str, list[PartitionLog | None]]:
        logs: dict[str, list[PartitionLog | None]] = {
            entry.name: [None] * entry.partition_count for entry in self.entries.values()
        }
        for directory in self.directories.present:
            for (topic, number), log in directory.logs.items():
                logs[topic][number] = log
        return logs

    async def close(self, *, clean: bool) -> None:
        """Close everything; with `clean`, what was flushed before is marked as whole.

        Raises:
            OSError, StorageError: something could not be saved; the next start recovers.
        """
        directories, self.directories = self.directories, DataDirectories((), ())
        registry, self._open_registry = self._open_registry, None
        failures: list[Exception] = []
        for directory in directories.present:
            try:
                await self._run(directory.close_steps(clean=clean))
            except (OSError, StorageError) as error:
                failures.append(error)
        if registry is not None:
            await self._in_registry(registry.close)
        if failures:
            raise failures[0]

    # --- topics ---------------------------------------------------------------------------------

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings of a topic, its own over the defaults; of an unknown one those."""
        entry = self.entries.get(topic)
        settings = self._settings_to_adopt(topic) if entry is None else entry.settings
        if not settings:
            return self.defaults
        try:
            return log_config(settings, self.defaults)
        except InvalidConfigError as error:  # written by a version that allowed it
            _log.error("settings of a topic are not used", topic=topic, error=str(error))
            return self.defaults

    def _settings_to_adopt(self, topic: str) -> dict[str, str]:
        """Return the settings of a topic that the registry does not know: Kafka's, or careful."""
        known = self._adoptable.get(topic)
        return settings_to_adopt(None)[0] if known is None else known

    async def create_topic(self, entry: TopicEntry) -> list[PartitionLog]:
        """Add a topic, durably, and make its logs.

        Raises:
            TopicAlreadyExistsError: the name is taken, be it by one whose deletion failed, or by a
                partition that cannot be read and so could not be deleted with its topic.
            StorageError: the disk refused; nothing is left of the topic.
            OSError: a sync failed: final.
        """
        await self._in_registry(self._registry.create, entry)
        self.entries[entry.name] = entry
        self.names.add(entry.name)
        numbers = range(entry.partition_count)
        creation = self._logs.create_steps(entry, self.config_of(entry.name), numbers)
        try:
            with self._collector.making(entry.partition_count):
                logs = await self._run(creation)
        except (StorageError, TopicAlreadyExistsError):
            await self._run(self._logs.removing_leftovers(entry))
            await self.finish_delete(await self.begin_delete(entry.name))
            raise
        return [logs[number] for number in numbers]

    async def grow_topic(self, name: str, partition_count: int) -> list[PartitionLog]:
        """Give a topic more partitions, durably, and make their logs; return those.

        Raises:
            StorageError, TopicAlreadyExistsError: as `create_topic`. The topic is as it was; or, if
                not even that could be saved, the next start makes what is missing.
            OSError: a sync failed: final.
        """
        entry = self.entries[name]
        first, grown = (
            entry.partition_count,
            msgspec.structs.replace(entry, partition_count=partition_count),
        )
        numbers = range(first, partition_count)
        await self._in_registry(self._registry.set_partition_count, name, partition_count)
        try:
            logs = await self._run(self._logs.create_steps(grown, self.config_of(name), numbers))
        except (StorageError, TopicAlreadyExistsError):
            await self._run(self._logs.removing_leftovers(grown, first))
            await self._run(self._logs.delete_steps(grown, first))
            await self._in_registry(self._registry.set_partition_count, name, first)
            raise
        self.entries[name] = grown
        return [logs[number] for number in numbers]

    async def set_settings(self, name: str, settings: Mapping[str, str]) -> None:
        """Replace the settings of a topic, durably; its logs are told by the caller.

        Raises:
            StorageError: the disk refused; nothing has changed.
        """
        await self._in_registry(self._registry.set_settings, name, settings)
        self.entries[name] = msgspec.structs.replace(self.entries[name], settings=settings)

    async def take_producer_ids(self, count: int, first_min: int) -> int:
        """Return the first of `count` producer ids that nobody was ever given, durably.

        The first ones of all begin at `first_min`.

        Raises:
            StorageError: the disk refused; none is taken.
        """
        taking = partial(self._registry.take_producer_ids, count)
        return await self._in_registry(taking, first_min)

    async def begin_delete(self, name: str) -> TopicEntry:
        """Decide, durably, that a topic goes: from here on a restart finishes its deletion.

        Raises:
            StorageError: the disk refused; nothing has changed.
        """
        await self._in_registry(self._registry.begin_delete, name)
        self.names.discard(name)
        return self.entries.pop(name)

    async def finish_delete(self, entry: TopicEntry) -> None:
        """Rename the directories of a topic whose deletion was begun; then its name is free.

        Raises:
            StorageError: the disk refused: the name is not free, and the next start finishes this.
        """
        remember = await self._run(self._logs.delete_steps(entry))
        self._collector.deleted(entry.partition_count)
        finish = partial(self._registry.finish_delete, remember=remember)
        await self._in_registry(finish, entry.name)

    async def _run(self, steps: Steps[T]) -> T:
        """Run steps over the logs of topics; their jobs in the registry's thread too."""
        return await run_in_turns(steps, self._loop, self._executor)

    async def _in_registry(self, call: Callable[..., T], *arguments: object) -> T:
        """Run a call in the registry's thread."""
        try:
            return await self._loop.run_in_executor(self._executor, partial(call, *arguments))
        except sqlite3.Error as error:
            if is_failed_sync(error):
                self.on_failed_sync(OSError(errno.EIO, f"the topic registry failed: {error}"))
            raise StorageError(f"the topic registry failed: {error}") from error


def _storage_options(
    storage: StorageConfig, directory_count: int, *, maps_files: bool
) -> StorageOptions:
    fitting = partial(files_fitting, directory_count=directory_count)
    return StorageOptions(
        open_files_max=fitting(IDLE_FILES_PART, wanted=storage.open_files_max),
        pinned_files_max=fitting(PINNED_FILES_PART),
        mapped_files_max=fitting(IDLE_FILES_PART, wanted=storage.mapped_files_max),
        map_files=maps_files,
        index_cache_bytes=storage.index_cache_bytes,
        retention_check_ms=storage.retention_check_ms,
        disk_reserve_bytes=storage.disk_reserve_bytes,
        producer_id_expiration_ms=storage.producer_id_expiration_ms,
        producers_per_partition_max=storage.producers_per_partition_max,
        producers_max=storage.producers_max,
        checkpoint_interval_ms=storage.checkpoint_interval_ms,
        unflushed_bytes_max=storage.unflushed_bytes_max,
    )
