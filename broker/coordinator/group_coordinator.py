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

__all__ = ["GroupCoordinator"]

_log = structlog.get_logger("tidelog.groups")

GROUPS_PER_TURN: Final = 100
"""Looked through for expired offsets."""


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
        self.groups = Groups(settings.groups_max)
        self._rebalance = Rebalance(settings, self._timers, self, clock.now_ms)
        self.membership = Membership(self.groups, self._rebalance, clock.now_ms)
        self.offsets = OffsetCommits(
            self.groups, self.membership, self.topic, settings, clock.now_ms
        )
        self._has_begun = self._is_draining = False
        self._unavailable: dict[int, ErrorCode] = {}
        """Partitions that are not loaded, and what requests for their groups answer."""

    # --- start and end --------------------------------------------------------------------------

    def begin(self) -> None:
        """Load the groups, and look for expired offsets from now on; once is enough."""
        if self._has_begun:
            return
        self._has_begun = True
        self._manager.on_topic_deleted = self.offsets.forget_topic
        self._timers.after(self._settings.offsets_retention_check_interval_ms, self._expire)
        if self.topic.exists:
            numbers = range(self.topic.partition_count)
            self._unavailable = dict.fromkeys(numbers, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
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
        seconds = round(self._clock.monotonic() - started_s, 3)
        _log.info("groups loaded", groups=len(self.groups), seconds=seconds)

    async def _load_partition(self, number: int) -> None:
        """Load what is in a partition; nobody appends to it before.

        Raises:
            TidelogError: it cannot be read.
        """
        loader = GroupLoader(self._manager.partition(OFFSETS_TOPIC, number).log)
        await run_in_turns(loader.steps(), self._loop, self._executor)
        if loader.keys_unknown:
            _log.info(
                "records of other kinds of groups are left as they are",
                partition=f"{OFFSETS_TOPIC}-{number}",
                keys=loader.keys_unknown,
            )
        for count, group in enumerate(loader.groups(), 1):
            self.groups.add_loaded(group)
            self.membership.resume(group)
            if not count % GROUPS_PER_TURN:
                await asyncio.sleep(0)

    # --- expiry ---------------------------------------------------------------------------------

    def _expire(self) -> None:
        self._spawn(self._expire_offsets())
        self._timers.after(self._settings.offsets_retention_check_interval_ms, self._expire)

    async def _expire_offsets(self) -> None:
        entries = self._manager.store.entries
        expired = 0
        for count, group in enumerate(self.groups, 1):
            if not self.check(group.group_id):
                expired += self.offsets.expire(group, entries.__contains__)
            if not count % GROUPS_PER_TURN:
                await asyncio.sleep(0)
        if expired:
            _log.info("committed offsets have expired", offsets=expired)
