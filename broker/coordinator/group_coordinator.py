"""GroupCoordinator: consumer groups on this broker: the machine, its clock, and what it keeps.

The one object that handlers know. Groups are loaded from `__consumer_offsets` once the broker has
started; until a group's partition is, requests for it answer COORDINATOR_LOAD_IN_PROGRESS, which
clients try again. Everything here happens on the event loop's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Final

import structlog

from broker.coordinator.group import Group
from broker.coordinator.group_loader import GroupLoader
from broker.coordinator.group_values import group_record
from broker.coordinator.groups import Groups
from broker.coordinator.membership import Membership
from broker.coordinator.offset_commits import OffsetCommits
from broker.coordinator.offsets_topic import OFFSETS_TOPIC, OffsetsTopic
from broker.coordinator.rebalance import Rebalance, join_refusal
from broker.coordinator.storage_errors import group_error
from broker.coordinator.timers import Timers
from broker.step_tasks import run_in_turns
from protocol.error_codes import ErrorCode
from protocol.errors import StoredFormatError, TidelogError

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.config_groups import GroupsConfig
    from broker.partition_manager import PartitionManager
    from broker.topic_registry import TopicEntry

__all__ = ["GroupCoordinator"]

_log = structlog.get_logger("tidelog.groups")

WORK_PER_TURN: Final = 500
"""Groups and topics that are looked at, and offsets that are deleted, about 10 us each."""


class GroupCoordinator:
    """Coordinates every group. `begin` it when partitions are open, `drain` it before they close.

    Attributes:
        membership: Joins, syncs, heartbeats, leaves.
        offsets: Commits, deletions.
        groups: Every group that is loaded.
    """

    def __init__(
        self,
        manager: PartitionManager,
        settings: GroupsConfig,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        executor: Executor,
    ) -> None:
        """Args:
        executor: Threads that read ahead what is to be loaded.
        """
        self._manager, self._settings = manager, settings
        self._loop, self._clock, self._executor = loop, clock, executor
        self._tasks: set[asyncio.Task[None]] = set()
        self._loading: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._timers = Timers(clock.monotonic, self._set_alarm)
        self.topic = OffsetsTopic(manager, settings, clock, self._spawn)
        self.groups = Groups(settings.groups_max, settings.kept_bytes_max)
        self._rebalance = Rebalance(settings, self._timers, self, clock.now_ms)
        self.membership = Membership(self.groups, self._rebalance, clock.now_ms)
        self.offsets = OffsetCommits(
            self.groups, self.membership, self.topic, settings, clock.now_ms, self.topic_id,
            loop.call_soon,
        )  # fmt: skip
        self._has_begun = self._is_draining = False
        self._unavailable: dict[int, ErrorCode] = {}
        """Partitions that are not loaded, and what requests for their groups answer."""
        self._topics_before: Mapping[str, TopicEntry] = {}
        """What there was when loading began: later ones are not meant by what is loaded."""

    # --- start and end --------------------------------------------------------------------------

    def begin(self) -> None:
        """Load the groups, and look for expired offsets from now on; once is enough."""
        if self._has_begun:
            return
        self._has_begun = True
        self._manager.on_topic_deleted = self._topic_deleted
        self._timers.after(self._settings.offsets_retention_check_interval_ms, self._expire)
        if self.topic.exists:
            numbers = range(self.topic.partition_count)
            self._unavailable = dict.fromkeys(numbers, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            self._topics_before = dict(self._manager.store.entries)
            self._loading = self._spawn(self._load())

    def drain(self) -> None:
        """Let go of all who wait: the broker is going to stop. Groups go on at the next start."""
        self._is_draining = True
        if self._loading is not None:
            self._loading.cancel()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for group in self.groups:
            for member in list(group.members.values()):
                refusal = join_refusal(ErrorCode.NOT_COORDINATOR, member.member_id)
                self._rebalance.answer_join(group, member, refusal)
                self._rebalance.answer_sync(group, member, ErrorCode.NOT_COORDINATOR)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            work.close()  # if it was cancelled before its first step
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.error("the coordinator has failed at a task", exc_info=error)

        task.add_done_callback(ended)
        return task

    # --- time -----------------------------------------------------------------------------------

    def _set_alarm(self) -> None:
        """Come back when the next timer is due."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        next_s = self._timers.next_s
        if next_s is not None and not self._is_draining:
            delay_s = max(0.0, next_s - self._clock.monotonic())
            self._alarm = self._loop.call_later(delay_s, self._wake)

    def _wake(self) -> None:
        self._alarm = None
        self._timers.fire()
        self._set_alarm()

    # --- whether it can answer ------------------------------------------------------------------

    def check(self, group_id: str) -> ErrorCode:
        """Return NONE if requests for a group can be handled, else what they answer."""
        if not self._has_begun:
            self.begin()
        if self._is_draining:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if self._unavailable:
            return self._unavailable.get(self.topic.number_of(group_id), ErrorCode.NONE)
        return ErrorCode.NONE

    def check_all(self) -> ErrorCode:
        """As `check`, for requests about every group."""
        if not self._has_begun:
            self.begin()
        if self._is_draining:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return next(iter(self._unavailable.values()), ErrorCode.NONE)

    def topic_id(self, name: str) -> bytes | None:
        """Return the id of the topic that bears a name now, None if there is none."""
        entry = self._manager.store.entries.get(name)
        return None if entry is None else entry.topic_id.bytes

    # --- GroupStore -----------------------------------------------------------------------------

    def save(
        self,
        group: Group,
        assignments: Mapping[str, bytes],
        done: Callable[[ErrorCode], object],
    ) -> None:
        """Write down a group; see `GroupStore`."""
        group.is_stored = True
        try:
            record = group_record(group, assignments)
        except StoredFormatError as error:
            _log.error("a group cannot be written down", group=group.group_id, error=str(error))
            done(ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        self.topic.append(group.group_id, [record], lambda error: done(group_error(error)))

    # --- loading --------------------------------------------------------------------------------

    async def _load(self) -> None:
        """Load every partition, and then delete what is left of topics that were deleted.

        Their tombstones were lost if the broker ended between their deletion and those.
        """
        started_s = self._clock.monotonic()
        for number in list(self._unavailable):
            try:
                await self._load_partition(number)
            except TidelogError as error:
                _log.error(
                    "groups cannot be loaded, and wait for the next start",
                    partition=f"{OFFSETS_TOPIC}-{number}",
                    error=str(error),
                )
                self._unavailable[number] = ErrorCode.COORDINATOR_NOT_AVAILABLE
            else:
                del self._unavailable[number]
        self._topics_before = {}
        seconds = round(self._clock.monotonic() - started_s, 3)
        _log.info("groups loaded", groups=len(self.groups), seconds=seconds)
        breaks = _Breaks()
        for group in self.groups:
            for topic in list(group.offsets.by_topic):
                await breaks.after(1 + self.offsets.forget_strangers(group, topic))

    async def _load_partition(self, number: int) -> None:
        """Load what is in a partition; nobody appends to it before.

        Raises:
            TidelogError: it cannot be read.
        """
        log = self._manager.partition(OFFSETS_TOPIC, number).log
        loader = GroupLoader(log, self._topic_id_before)
        await run_in_turns(loader.steps(), self._loop, self._executor)
        if loader.keys_unknown:
            _log.info(
                "records of other kinds of groups are left as they are",
                partition=f"{OFFSETS_TOPIC}-{number}",
                keys=loader.keys_unknown,
            )
        breaks = _Breaks()
        for group in loader.groups():
            self.groups.add(group)
            self.membership.resume(group)
            await breaks.after(1 + len(group.members))

    def _topic_id_before(self, name: str) -> bytes | None:
        """Return the id of a topic that there has been all the time since loading began."""
        topic_id = self.topic_id(name)
        before = self._topics_before.get(name)
        return topic_id if before is not None and before.topic_id.bytes == topic_id else None

    # --- expiry ---------------------------------------------------------------------------------

    def _topic_deleted(self, topic: str) -> None:
        self._spawn(self._forget_topic(topic))

    async def _forget_topic(self, topic: str) -> None:
        breaks = _Breaks()
        for group in self.groups:
            await breaks.after(1 + self.offsets.forget_strangers(group, topic))

    def _expire(self) -> None:
        self._spawn(self._expire_offsets())
        self._timers.after(self._settings.offsets_retention_check_interval_ms, self._expire)

    async def _expire_offsets(self) -> None:
        expired, breaks = 0, _Breaks()
        for group in self.groups:
            expired += await self._expire_group(group, breaks)
        if expired:
            _log.info("committed offsets have expired", offsets=expired)

    async def _expire_group(self, group: Group, breaks: _Breaks) -> int:
        generation, subscribed = group.generation, group.find_subscribed()
        await breaks.after(WORK_PER_TURN if group.members else 1)
        expired = 0
        for topic in list(group.offsets.by_topic):
            if group.generation != generation:
                break  # its members may read other topics now: next time
            deleted = self.offsets.expire(group, topic, subscribed)
            expired += deleted
            await breaks.after(1 + deleted)
        self.offsets.forget_if_unused(group)
        return expired


class _Breaks:
    """Lets others have their turn every now and then."""

    def __init__(self) -> None:
        self._done = 0

    async def after(self, work: int) -> None:
        """Take note of work that was done, and perhaps go on in a later turn."""
        self._done += work
        if self._done >= WORK_PER_TURN:
            self._done = 0
            await asyncio.sleep(0)
