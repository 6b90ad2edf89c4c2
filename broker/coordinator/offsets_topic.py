"""OffsetsTopic: writes to `__consumer_offsets`, which is made when the first record is to be kept.

A group's records are in one partition, in the order in which they were written, and what is done
about them is done in that order too: when they are committed.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import structlog

from broker.storage.append_origin import AppendOrigin
from protocol.error_codes import ErrorCode
from protocol.errors import TidelogError
from protocol.record_batch_builder import RecordBatchBuilder
from protocol.stored.group_records import partition_of_group

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.config_groups import GroupsConfig
    from broker.partition_manager import PartitionManager

__all__ = ["OFFSETS_TOPIC", "Done", "GroupRecord", "OffsetsTopic"]

_log = structlog.get_logger("tidelog.groups")

OFFSETS_TOPIC: Final = "__consumer_offsets"
BATCH_RECORDS_MAX: Final = 500
"""Tombstones of a large group are written in batches of so many."""
NO_DEADLINE: Final = float("inf")

GroupRecord: TypeAlias = tuple[bytes, bytes | None]
"""Key and value; None is a tombstone."""
Done: TypeAlias = Callable[[ErrorCode], object]


class OffsetsTopic:
    """The topic. Everything happens on the event loop's thread."""

    def __init__(
        self,
        manager: PartitionManager,
        settings: GroupsConfig,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """Args:
        spawn: Runs a task to its end.
        """
        self._manager, self._settings, self._clock = manager, settings, clock
        self._spawn = spawn
        self._waiting: list[Callable[[ErrorCode], object]] | None = None

    @property
    def exists(self) -> bool:
        """Whether anything can be in it."""
        return OFFSETS_TOPIC in self._manager.store.entries

    @property
    def partition_count(self) -> int:
        """How many partitions it has, or will have."""
        entry = self._manager.store.entries.get(OFFSETS_TOPIC)
        return self._settings.offsets_topic_partitions if entry is None else entry.partition_count

    def number_of(self, group_id: str) -> int:
        """Return the partition that a group is in."""
        return partition_of_group(group_id, self.partition_count)

    def prepare(self) -> None:
        """Have the topic made, if it is not there: somebody is going to need it."""
        self._when_there(lambda error: None)

    def append(
        self,
        group_id: str,
        records: Sequence[GroupRecord],
        done: Done,
        *,
        late: Callable[[], object] | None = None,
    ) -> None:
        """Write records of a group as one batch.

        Args:
            done: Told NONE when they are committed, which may be at once, or why they are not.
            late: Called if that is not known after `offsets_commit_timeout_ms`; it will be, later.
        """
        if self._is_there:
            self._write(group_id, records, done, late)
            return

        def there(error: ErrorCode) -> None:
            if error:
                done(error)
            else:
                self._write(group_id, records, done, late)

        self._when_there(there)

    def append_all(self, group_id: str, records: Sequence[GroupRecord], done: Done) -> None:
        """As `append`, in as many batches as it takes; with the first error, if there is one."""
        starts = range(0, len(records), BATCH_RECORDS_MAX)
        left = len(starts)
        first_error = ErrorCode.NONE

        def part_done(error: ErrorCode) -> None:
            nonlocal left, first_error
            left -= 1
            first_error = first_error or error
            if not left:
                done(first_error)

        for start in starts:
            self.append(group_id, records[start : start + BATCH_RECORDS_MAX], part_done)

    @property
    def _is_there(self) -> bool:
        return self._waiting is None and self.exists

    def _when_there(self, call: Callable[[ErrorCode], object]) -> None:
        if self._waiting is not None:
            self._waiting.append(call)
        elif self.exists:
            call(ErrorCode.NONE)
        else:
            self._waiting = [call]
            self._spawn(self._make())

    async def _make(self) -> None:
        settings = {
            "cleanup.policy": "compact",
            "segment.bytes": str(self._settings.offsets_topic_segment_bytes),
            "compression.type": "producer",
        }
        error = ErrorCode.NONE
        try:
            await self._manager.ensure_own_topic(OFFSETS_TOPIC, self.partition_count, settings)
        except TidelogError as failure:
            _log.error("the topic of groups cannot be made", error=str(failure))
            error = failure.code
        waiting, self._waiting = self._waiting or [], None
        for call in waiting:
            call(error)

    def _write(
        self,
        group_id: str,
        records: Sequence[GroupRecord],
        done: Done,
        late: Callable[[], object] | None,
    ) -> None:
        now_ms = int(self._clock.now_ms())
        builder = RecordBatchBuilder()
        for key, value in records:
            builder.append(now_ms, key, value)
        batch = memoryview(bytearray(builder.build()))
        try:
            partition = self._manager.partition(OFFSETS_TOPIC, self.number_of(group_id))
            log = partition.log
            log.append(batch, origin=AppendOrigin.COORDINATOR)
        except TidelogError as error:
            _log.warning("a group is not written down", group=group_id, error=str(error))
            done(error.code)
            return
        partition.bytes_in += len(batch)
        partition.messages_in += len(records)
        end_offset = log.log_end_offset
        if log.high_watermark >= end_offset:
            done(ErrorCode.NONE)
            return
        partition.when_committed(end_offset, NO_DEADLINE, done)
        if late is not None:
            deadline_s = self._clock.monotonic() + self._settings.offsets_commit_timeout_ms / 1000
            is_late = late

            def told(error: ErrorCode) -> None:
                if error == ErrorCode.REQUEST_TIMED_OUT:
                    is_late()

            partition.when_committed(end_offset, deadline_s, told)
