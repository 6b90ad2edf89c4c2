"""PartitionManager: every topic and partition over all data directories.

The one object that request handlers know: which partitions there are, who waits on them, what makes
their bytes durable (`flusher`) and keeps them in order (`housekeeping`). Everything here happens on
the event loop's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import structlog

from broker.clean_stop import flush_and_seal
from broker.disk_watch import DiskWatch
from broker.flusher import Flusher
from broker.housekeeper import Housekeeper
from broker.metrics import Metrics, PartitionSample
from broker.partition import CommitDeadlines, Partition
from broker.partition_report import partition_samples, problems
from broker.partition_table import PartitionTable, check_is_for_clients
from broker.topic_checks import check_new_topic, check_room
from broker.topic_growth import TopicGrowth
from broker.topic_locks import TopicLocks
from broker.topic_registry import TopicEntry
from broker.topic_settings import (
    SettingChanges,
    altered_settings,
    log_config,
)
from broker.topic_store import TopicStore
from protocol.error_codes import ErrorCode
from protocol.errors import (
    StorageError,
    UnknownTopicOrPartitionError,
)
from protocol.internal_topics import is_internal
from protocol.stored.file_names import is_topic_name

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.config import Config, TopicsConfig
    from broker.kernel_syncs import KernelSyncs
    from broker.start_recovery import StartRecovery
    from broker.storage.disk import Disk
    from broker.storage.log_directory import LogDirectory
    from broker.storage.partition_log import PartitionLog

_log = structlog.get_logger("tidelog.partitions")

PARTITIONS_PER_TURN: Final = 8
"""Of a topic that is deleted: some files of each are closed."""


class PartitionManager:
    """The partitions of one broker.

    Args:
        on_fatal: Called once after a failed sync: the process must end, and say so.
        maps_files: The event loop can send mapped files (uvloop).
        flush_executor: Threads for syncs; its own without it, as the configuration says.
        kernel_syncs: Does without threads what it can.
        registry_executor, watch_executor: Threads for the registry (one) and to look at disks.
        registry_path: Where the registry is, if not in the first data directory.
        recovery: Recovers many logs at once; without it they are recovered one by one.
    """

    def __init__(
        self,
        config: Config,
        *,
        loop: asyncio.AbstractEventLoop,
        disk: Disk,
        clock: Clock,
        metrics: Metrics,
        on_fatal: Callable[[OSError], object],
        maps_files: bool,
        flush_executor: Executor | None = None,
        kernel_syncs: KernelSyncs | None = None,
        registry_executor: Executor | None = None,
        registry_path: Path | None = None,
        recovery: StartRecovery | None = None,
        watch_executor: Executor | None = None,
    ) -> None:
        self._loop, self._clock, self._metrics, self._on_fatal = loop, clock, metrics, on_fatal
        self.topics_config, self._limits = config.topics, config.limits
        self._own_executors: list[Executor] = []
        self._threads = flush_executor or self._executor(config.flush.threads, "tidelog-flush")
        self.store = TopicStore(
            config,
            loop=loop,
            disk=disk,
            clock=clock,
            registry_executor=registry_executor or self._executor(1, "tidelog-registry"),
            registry_path=registry_path,
            maps_files=maps_files,
            recovery=recovery,
        )
        self.flusher = Flusher(
            loop, clock, self._threads, metrics=metrics.flush, on_fatal=self._fail,
            on_flushed=self._write_durable_offsets, threads_max=config.flush.threads,
            kernel=kernel_syncs,
        )  # fmt: skip
        self._deadlines = CommitDeadlines(loop, clock)
        self._table, self._locks = PartitionTable(), TopicLocks()
        self.is_draining = False
        """No request waits for anything new any more."""
        self.growth = TopicGrowth(
            self.store, self._table, self._locks, self.flusher, self._limits, self._partition
        )
        self._housekeeper = Housekeeper(loop, clock, self._threads, on_failure=self.flusher.fail)
        watchers = watch_executor or self._executor(len(config.storage.data_dirs), "tidelog-disk")
        self._watch_disks(watchers)
        self._bind_lookups()

    def _watch_disks(self, threads: Executor) -> None:
        self.store.on_failed_sync = self.flusher.fail
        self._disk_watch = DiskWatch(
            self._loop, threads, self._metrics.storage, on_resumed=self._appends_resumed
        )

    def _bind_lookups(self) -> None:
        """What requests look up, bound once: see `PartitionTable`."""
        self.partitions_by_topic = self._table.by_topic
        self.writable_partitions_by_topic = self._table.writable_by_topic
        self.topic_names_by_id = self._table.names_by_id
        self.largest_producer_id = self._table.largest_producer_id
        self.partition_of = self._table.partition
        self.writable_partition = self._table.writable_partition
        self.check_writable = self._table.check_writable
        self.on_topic_deleted: Callable[[str], object] = lambda name: None
        """Is told of each deletion, by name, before the name can be used again."""
        self.check_new_topic = partial(check_new_topic, self.store, self._limits)

    def _executor(self, threads: int, name: str) -> Executor:
        executor = ThreadPoolExecutor(threads, name)
        self._own_executors.append(executor)
        return executor

    # --- start and end --------------------------------------------------------------------------

    async def open(self) -> None:
        """Load everything; on return every partition can be used, or says why not.

        Raises:
            DataDirectoryError: the start is refused.
            OSError: the disk refused; a failed sync among others.
        """
        for topic, logs in (await self.store.open()).items():
            self._publish(topic, logs)
            self._warn_of_policy(topic)
        directories, storage = self.store.directories.present, self._metrics.storage
        storage.recovery_seconds += sum(each.summary.seconds for each in directories)
        storage.truncated_bytes = sum(each.summary.cut_bytes for each in directories)
        self._metrics.partition_samples = self.partition_samples
        self._housekeeper.start(directories)
        self._disk_watch.start(directories)

    def drain(self) -> None:
        """End all long polls, now and from now on: the broker is going to stop."""
        self.is_draining = True
        for partition in list(self._table):
            partition.wake_fetch_waiters()

    async def close(self) -> None:
        """Flush and close everything, and leave the clean marker.

        Raises:
            OSError, StorageError: something could not be saved, now or (a failed sync) before.
        """
        self.is_draining = True
        self._disk_watch.stop()
        try:
            clean = False
            try:
                await self._housekeeper.stop()
                for directory in self.store.directories.present:
                    directory.context.pause = "the broker is stopping"
                await flush_and_seal(self.flusher, [each.log for each in self._table])
                clean = True
            finally:
                self.flusher.stop()
                self._deadlines.stop()
                self._table.fail_all()
                await self.store.close(clean=clean)
        finally:
            for executor in self._own_executors:
                executor.shutdown(wait=True)

    def _fail(self, error: OSError) -> None:
        """A sync failed: nothing is acknowledged or served any more, and the process ends."""
        self._housekeeper.halt()
        self._table.fail_all()
        self._on_fatal(error)

    # --- topics ---------------------------------------------------------------------------------

    def topics(self) -> list[TopicEntry]:
        """Return every topic, by name."""
        return [self.store.entries[name] for name in sorted(self.store.entries)]

    def topic(self, name: str) -> TopicEntry:
        """Return a topic.

        Raises:
            UnknownTopicOrPartitionError: there is none of that name.
        """
        entry = self.store.entries.get(name)
        if entry is None:
            raise UnknownTopicOrPartitionError(f"there is no topic {name}")
        return entry

    def partition(self, topic: str, number: int) -> Partition:
        """Return a partition, by its topic's name as text; errors as `partition_of`."""
        return self._table.partition(topic.encode("utf-8"), number)

    def can_auto_create(self, topic: bytes) -> bool:
        """Whether producing to `topic` would create it."""
        return (
            self.topics_config.auto_create
            and topic not in self.partitions_by_topic
            and not is_internal(topic)
            and is_topic_name(topic.decode("latin-1"))
        )

    async def ensure_topic(self, name: str) -> None:
        """Create a topic with the defaults, unless it exists by now; for producing to it.

        Raises:
            StorageError, InvalidPartitionsError, InvalidTopicError: as `create_topic`.
        """
        if await self.ensure_own_topic(name, self.topics_config.default_partitions, {}):
            self._metrics.topics_auto_created += 1

    async def ensure_own_topic(
        self, name: str, partition_count: int, settings: Mapping[str, str]
    ) -> bool:
        """As `ensure_topic`, for the broker's own topics; return whether it was not there."""
        async with self._locks.changing(name):
            is_new = name not in self.store.entries
            if is_new:
                await self._create(name, partition_count, settings)
        return is_new

    async def create_topic(
        self, name: str, partition_count: int, settings: Mapping[str, str]
    ) -> None:
        """Create a topic: durable, and usable, on return.

        Args:
            settings: Kafka's topic settings by name, dotted or underscored, as text.

        Raises:
            InvalidTopicError: an illegal name, an internal topic's, or one that would be mistaken
                for another's (see `topic_names`).
            InvalidPartitionsError: the count is out of range, or there are too many topics.
            InvalidConfigError: an unknown setting, or a value it cannot have.
            TopicAlreadyExistsError: there is one of that name.
            StorageError: the disk refused; the topic does not exist.
        """
        async with self._locks.changing(name):
            checked = self.check_new_topic(name, partition_count, settings)
            await self._create(name, partition_count, checked)

    async def _create(self, name: str, partition_count: int, settings: Mapping[str, str]) -> None:
        check_room(self.store, self._limits, name, partition_count)
        if self.flusher.failure is not None:
            raise StorageError("the broker is stopping after a failed sync")
        entry = TopicEntry(name, uuid4(), partition_count, settings)
        try:
            logs = await self.store.create_topic(entry)
        except OSError as error:
            self.flusher.fail(error)
            raise StorageError(f"the disk failed: {error}") from error
        self._publish(name, logs)
        self._warn_of_policy(name)
        _log.info("topic created", topic=name, partitions=partition_count)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic; on return it is gone for good, and its name is free.

        Raises:
            InvalidTopicError: an illegal name, or an internal topic's.
            UnknownTopicOrPartitionError: there is none of that name.
            StorageError: the disk refused. The topic exists as before; or it is gone, and its name
                is not free before the next start.
        """
        check_is_for_clients(name)
        async with self._locks.changing(name):
            self.topic(name)
            entry = await self.store.begin_delete(name)
            partitions = [each for each in self._table.unpublish(name) if each is not None]
            for number, partition in enumerate(partitions, 1):
                partition.log.abandon()  # who still holds it appends no more; nor is it flushed
                partition.fail_waiters(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                if not number % PARTITIONS_PER_TURN:
                    await asyncio.sleep(0)
            await self.flusher.forget([partition.log for partition in partitions])
            await self.store.finish_delete(entry)
            self.on_topic_deleted(name)
        _log.info("topic deleted", topic=name)

    async def alter_topic(self, name: str, changes: SettingChanges) -> None:
        """Change settings of a topic: durable, and in effect, on return.

        Segments, flushes and appends follow at once, retention and the cleaner from their next
        round on.

        Args:
            changes: As in `create_topic`; None puts a setting back to the default. What is not
                named stays as it is. Or what makes them of the settings as they are.

        Raises:
            InvalidTopicError: an illegal name, or an internal topic's.
            UnknownTopicOrPartitionError: there is none of that name.
            InvalidConfigError: an unknown setting, a value it cannot have, or settings that would
                contradict each other; nothing has changed.
            StorageError: the disk refused; nothing has changed.
        """
        check_is_for_clients(name)
        async with self._locks.changing(name):
            entry = self.topic(name)
            settings = altered_settings(entry.settings, changes)
            log_config(settings, self.store.defaults)
            await self.store.set_settings(name, settings)
            self._use_config(name)
            self._warn_of_policy(name)
        _log.info("topic altered", topic=name, settings=settings)

    def _use_config(self, name: str) -> None:
        config = self.store.config_of(name)
        for partition in self._table.by_topic.get(name.encode("ascii"), ()):
            if partition is not None:
                partition.log.update_config(config)

    async def save_log_starts(self, partitions: Sequence[Partition]) -> None:
        """Return when log starts that were moved are durable; their segments go soon.

        Raises:
            StorageError: they could not be saved; they may hold all the same.
        """
        await self._housekeeper.save_log_starts([partition.log for partition in partitions])

    def use_topic_defaults(self, topics: TopicsConfig) -> None:
        """Take over a changed table [topics] of the configuration."""
        self.topics_config = topics
        self.store.defaults = topics.log_config()
        for name in self.store.entries:
            self._use_config(name)

    def _publish(self, topic: str, logs: Sequence[PartitionLog | None]) -> None:
        partitions = [None if log is None else self._partition(log) for log in logs]
        self._table.publish(topic, self.store.entries[topic].topic_id, partitions)

    def _partition(self, log: PartitionLog) -> Partition:
        partition = Partition(log, self.flusher, self._deadlines, self._loop.call_soon)
        log.listener = partition
        return partition

    def _warn_of_policy(self, topic: str) -> None:
        policy = self.store.config_of(topic).flush_policy
        if policy != "commit":
            _log.warning(
                "a power cut may take acknowledged messages", topic=topic, flush_policy=str(policy)
            )

    # --- beside requests ------------------------------------------------------------------------

    def _write_durable_offsets(self, logs: Sequence[PartitionLog]) -> None:
        for directory in self.store.directories.present:
            directory.durable_offsets.write()

    def partition_samples(self) -> Iterator[PartitionSample]:
        """Yield the numbers of every partition, topic by topic, for the metrics."""
        return partition_samples(self._table)

    def degraded(self) -> list[str]:
        """Return what does not work while the rest does, a sentence each."""
        return problems(self.store.directories, self._table)

    def spare_files(self) -> None:
        """Close files that need not be open: the process is out of descriptors."""
        for directory in self.store.directories.present:
            directory.context.handles.shrink()

    def _appends_resumed(self, directory: LogDirectory) -> None:
        """Flush what could not be while the directory was out of reach."""
        for log in directory.logs.values():
            log.unflushed.note()
