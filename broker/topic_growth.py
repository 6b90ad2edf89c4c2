"""TopicGrowth: gives topics more partitions; never fewer, for that would delete records.

The count is durable in the registry before a directory is made, so a crash at any moment leaves a
topic with the old count, or one whose missing partitions the next start makes, empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from broker.partition_table import check_is_for_clients
from protocol.errors import InvalidPartitionsError, StorageError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from broker.config import LimitsConfig
    from broker.flusher import Flusher
    from broker.partition import Partition
    from broker.partition_table import PartitionTable
    from broker.storage.partition_log import PartitionLog
    from broker.topic_locks import TopicLocks
    from broker.topic_store import TopicStore

_log = structlog.get_logger("tidelog.partitions")


class TopicGrowth:
    """Of the topics of one broker; on the event loop's thread."""

    def __init__(
        self,
        store: TopicStore,
        table: PartitionTable,
        locks: TopicLocks,
        flusher: Flusher,
        limits: LimitsConfig,
        partition_of: Callable[[PartitionLog], Partition],
    ) -> None:
        """Args:
        partition_of: Makes what stands for a new log.
        """
        self._store, self._table, self._locks = store, table, locks
        self._flusher, self._limits, self._partition_of = flusher, limits, partition_of

    def check(self, name: str, partition_count: int) -> int:
        """Check that a topic could have so many partitions; return how many it has.

        Raises:
            InvalidTopicError: an illegal name, or an internal topic's.
            UnknownTopicOrPartitionError: there is none of that name.
            InvalidPartitionsError: the count is no increase, or above the limit.
        """
        check_is_for_clients(name)
        entry = self._store.entries.get(name)
        if entry is None:
            raise UnknownTopicOrPartitionError(f"there is no topic {name}")
        count, count_max = entry.partition_count, self._limits.partitions_per_topic_max
        if partition_count <= count:
            raise InvalidPartitionsError(
                f"topic {name} has {count} partitions: {partition_count} would not be an increase"
            )
        if partition_count > count_max:
            raise InvalidPartitionsError(f"a topic has at most {count_max} partitions")
        return count

    async def grow(self, name: str, partition_count: int) -> None:
        """Have a topic have `partition_count` partitions: durable, and usable, on return.

        Raises:
            InvalidTopicError, UnknownTopicOrPartitionError, InvalidPartitionsError: as `check`.
            TopicAlreadyExistsError: a directory of one of them is in the way.
            StorageError: the disk refused. The topic is as it was; or, if not even that could be
                saved, has the new partitions from the next start on.
        """
        async with self._locks.changing(name):
            count = self.check(name, partition_count)
            if self._flusher.failure is not None:
                raise StorageError("the broker is stopping after a failed sync")
            try:
                logs = await self._store.grow_topic(name, partition_count)
            except OSError as error:
                self._flusher.fail(error)
                raise StorageError(f"the disk failed: {error}") from error
            self._table.extend(name, [self._partition_of(log) for log in logs])
        _log.info("topic grown", topic=name, partitions=partition_count, before=count)
