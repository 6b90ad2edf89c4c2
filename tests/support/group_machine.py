"""The group machine alone: a clock that moves when told to, and a store that the test answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from broker.clock import ManualClock
from broker.config_groups import GroupsConfig
from broker.coordinator.group import Group
from broker.coordinator.groups import Groups
from broker.coordinator.joining import JoinCall
from broker.coordinator.membership import Membership
from broker.coordinator.rebalance import Rebalance
from broker.coordinator.timers import Timers
from protocol.error_codes import ErrorCode
from protocol.kafka.group_membership import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

GROUP = "group"
SESSION_MS, REBALANCE_MS = 10_000, 60_000
E = ErrorCode


class FakeStore:
    """Commits at once, or when the test says so; keeps what it was given."""

    def __init__(self) -> None:
        self.is_held = False
        self.error = E.NONE
        self.saved: list[tuple[str, int, dict[str, bytes]]] = []
        self._waiting: deque[Callable[[ErrorCode], object]] = deque()

    def save(
        self,
        group: Group,
        assignments: Mapping[str, bytes],
        done: Callable[[ErrorCode], object],
    ) -> None:
        group.is_stored = True
        self.saved.append((str(group.state), group.generation, dict(assignments)))
        if self.is_held:
            self._waiting.append(done)
        else:
            done(self.error)

    def release(self, error: ErrorCode = E.NONE) -> None:
        """End the oldest save."""
        self._waiting.popleft()(error)

    @property
    def waiting(self) -> int:
        return len(self._waiting)


class Joined:
    """A JoinGroup under way; `response` once there is one, and there is only one."""

    def __init__(self) -> None:
        self.responses: list[JoinGroupResponse] = []

    @property
    def is_waiting(self) -> bool:
        return not self.responses

    @property
    def response(self) -> JoinGroupResponse:
        (response,) = self.responses
        return response

    @property
    def error(self) -> int:
        return self.response.error_code

    @property
    def member_id(self) -> str:
        return self.response.member_id

    @property
    def roster(self) -> list[str]:
        return [member.member_id for member in self.response.members]


class Synced:
    """A SyncGroup under way; what the group was when it was answered."""

    def __init__(self) -> None:
        self.responses: list[SyncGroupResponse] = []
        self.generation = -1
        self.members: frozenset[str] = frozenset()

    @property
    def is_waiting(self) -> bool:
        return not self.responses

    @property
    def response(self) -> SyncGroupResponse:
        (response,) = self.responses
        return response

    @property
    def error(self) -> int:
        return self.response.error_code


class GroupMachine:
    """The machine with everything that it needs. Settings as of table [groups]."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.settings = msgspec.structs.replace(GroupsConfig(), **settings)
        self.timers = Timers(self.clock.monotonic)
        self.store = FakeStore()
        self.groups = Groups(self.settings.groups_max, self.settings.kept_bytes_max)
        rebalance = Rebalance(self.settings, self.timers, self.store, self.clock.now_ms)
        self.given_out = 0
        self.membership = Membership(self.groups, rebalance, self.clock.now_ms, self._new_id)

    def _new_id(self, client_id: str, instance_id: str | None) -> str:
        self.given_out += 1
        return f"{instance_id or client_id}-{self.given_out}"

    @property
    def group(self) -> Group:
        group = self.groups.get(GROUP)
        assert group is not None
        return group

    def advance(self, ms: int) -> None:
        """Let time pass, stopping wherever the machine wants to be called."""
        target_s = self.clock.monotonic() + ms / 1000
        while (next_s := self.timers.next_s) is not None and next_s <= target_s:
            self.clock.advance(ms=max(0, round((next_s - self.clock.monotonic()) * 1000)))
            self.timers.fire()
        self.clock.advance(ms=round((target_s - self.clock.monotonic()) * 1000))

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Mapping[str, bytes] | None = None,
        version: int = 9,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        protocol_type: str = "consumer",
        client: str = "client",
        group: str = GROUP,
    ) -> Joined:
        named = {"range": b"topics"} if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(*each) for each in named.items()],
        )
        joined = Joined()
        self.membership.join(
            JoinCall(request, version, client, "/127.0.0.1", joined.responses.append)
        )
        return joined

    def join_new(self, **options: Any) -> Joined:
        """Join as a client does that has to ask for its id first; the second JoinGroup."""
        first = self.join(**options)
        assert first.error == E.MEMBER_ID_REQUIRED
        return self.join(first.member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int | None = None,
        assignments: Mapping[str, bytes] | None = None,
        **fields: Any,
    ) -> Synced:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.group.generation if generation is None else generation,
            member_id=member_id,
            assignments=[SyncGroupRequestAssignment(*each) for each in (assignments or {}).items()],
            **fields,
        )
        synced = Synced()

        def answer(response: SyncGroupResponse) -> None:
            group = self.groups.get(GROUP)
            if group is not None:
                synced.generation, synced.members = group.generation, frozenset(group.members)
            synced.responses.append(response)

        self.membership.sync(request, answer)
        return synced

    def heartbeat(
        self, member_id: str, generation: int | None = None, instance: str | None = None
    ) -> ErrorCode:
        current = self.group.generation if generation is None else generation
        return self.membership.heartbeat(HeartbeatRequest(GROUP, current, member_id, instance))

    def leave(self, *member_ids: str) -> list[int]:
        members = self.leave_as(*(MemberIdentity(member_id) for member_id in member_ids))
        return [member.error_code for member in members]

    def leave_as(self, *identities: MemberIdentity) -> list[MemberResponse]:
        return self.membership.leave(LeaveGroupRequest(GROUP, members=list(identities))).members

    def stable(self, count: int = 1, **options: Any) -> list[str]:
        """Bring together a stable group; return the members' ids, the leader's first."""
        firsts = [self.join(**options) for _ in range(count)]
        joined = [self.join(first.member_id, **options) for first in firsts]
        ids = [each.member_id for each in joined]
        leader = joined[0].response.leader
        assignments = {member_id: f"of {member_id}".encode() for member_id in ids}
        for member_id in sorted(ids, key=lambda member_id: member_id != leader):
            assert self.sync(member_id, assignments=assignments).error == E.NONE
        assert self.group.state == "Stable"
        return sorted(ids, key=lambda member_id: member_id != leader)
