"""Rebalance: how a group gets from one generation to the next; the machine's common steps.

`membership` has the table of states and events. Nobody who is answered may call back in here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from broker.coordinator.group import Group, GroupState
from broker.coordinator.member import JoinAnswer, Member
from protocol.error_codes import ErrorCode
from protocol.kafka.group_membership import (
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupResponse,
)
from protocol.limits import INT32_MAX

if TYPE_CHECKING:
    from broker.config_groups import GroupsConfig
    from broker.coordinator.timers import Timers

__all__ = ["GroupStore", "Rebalance", "join_refusal", "roster"]

UNKNOWN_GENERATION = -1


class GroupStore(Protocol):
    """Where groups are kept."""

    def save(
        self,
        group: Group,
        assignments: Mapping[str, bytes],
        done: Callable[[ErrorCode], object],
    ) -> None:
        """Write down a group as it is now, with these assignments by member id.

        `group.is_stored` from then on. `done` is told NONE when that is committed, perhaps at once,
        else the error for members.
        """
        ...


def join_refusal(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """Return the answer to a JoinGroup that led to nothing."""
    return JoinGroupResponse(
        error_code=error, generation_id=UNKNOWN_GENERATION, member_id=member_id
    )


def roster(group: Group) -> list[JoinGroupResponseMember]:
    """Return what the leader is told of the members."""
    return [
        JoinGroupResponseMember(
            each.member_id, each.instance_id, each.metadata_for(group.protocol_name)
        )
        for each in group.members.values()
    ]


class Rebalance:
    """Moves groups from state to state. `now_ms` is the wall clock."""

    def __init__(
        self,
        settings: GroupsConfig,
        timers: Timers,
        store: GroupStore,
        now_ms: Callable[[], int],
    ) -> None:
        self.settings, self.timers, self.store = settings, timers, store
        self._now_ms = now_ms

    def enter(self, group: Group, state: GroupState) -> None:
        """Let a group be in a state from now on."""
        group.state, group.state_since_ms = state, self._now_ms()

    # --- sessions -------------------------------------------------------------------------------

    def touch(self, group: Group, member: Member, timeout_ms: int | None = None) -> None:
        """A member gave a sign of life: it may be silent for its session timeout again.

        Its timer is left as it is and looks again when it is due: heartbeats are many.
        """
        delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.session_deadline_s = self.timers.monotonic() + delay_ms / 1000
        session = member.session
        if session is not None and session.is_pending:
            if session.when_s <= member.session_deadline_s:
                return
            session.cancel()
        self._watch(group, member, delay_ms)

    def _watch(self, group: Group, member: Member, delay_ms: float) -> None:
        member.session = self.timers.after(delay_ms, partial(self._session_due, group, member))

    def _session_due(self, group: Group, member: Member) -> None:
        left_s = member.session_deadline_s - self.timers.monotonic()
        if left_s > 0:
            self._watch(group, member, left_s * 1000)
            return
        is_waiting = member.join_answer is not None or member.sync_answer is not None
        if is_waiting and not member.is_new:
            return  # it can say nothing before it is answered; then its session begins anew
        self.remove(group, member.member_id)
        self.members_removed(group)

    # --- answers --------------------------------------------------------------------------------

    def await_join(self, group: Group, member: Member, answer: JoinAnswer) -> None:
        """Keep who waits for the next generation; whoever did for this member before, need not."""
        self.answer_join(
            group, member, join_refusal(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        )
        member.join_answer = answer
        group.awaiting_join += 1

    def answer_join(self, group: Group, member: Member, response: JoinGroupResponse) -> None:
        """Answer the JoinGroup that a member waits with, if it does."""
        answer, member.join_answer = member.join_answer, None
        if answer is not None:
            group.awaiting_join -= 1
            answer(response)

    def answer_sync(self, group: Group, member: Member, error: ErrorCode) -> None:
        """Answer the SyncGroup that a member waits with, if it does."""
        answer, member.sync_answer = member.sync_answer, None
        if answer is not None:
            answer(self.sync_response(group, member, error))

    def sync_response(self, group: Group, member: Member, error: ErrorCode) -> SyncGroupResponse:
        """Return a member's assignment, or an error."""
        if error:
            return SyncGroupResponse(error_code=error)
        return SyncGroupResponse(
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            assignment=member.assignment,
        )

    def propagate(self, group: Group, error: ErrorCode) -> None:
        """Answer all who wait for their assignments."""
        for member in list(group.members.values()):
            if member.sync_answer is not None:
                self.answer_sync(group, member, error)
                self.touch(group, member)

    # --- members that go ------------------------------------------------------------------------

    def remove(self, group: Group, member_id: str) -> None:
        """Take a member, or an id that was only given out, out of a group."""
        member = group.members.get(member_id)
        if member is not None:
            refusal = join_refusal(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
            self.answer_join(group, member, refusal)
            self.answer_sync(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        group.remove(member_id)

    def members_removed(self, group: Group) -> None:
        """Have those who are left share the work anew."""
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare(group)
        else:
            self.maybe_complete_join(group)

    # --- the join phase -------------------------------------------------------------------------

    def maybe_prepare(self, group: Group) -> None:
        """Begin a rebalance; if one has begun, end its join phase if nobody is missing."""
        if group.state is GroupState.PREPARING_REBALANCE:
            self.maybe_complete_join(group)
        else:
            self.prepare(group)

    def prepare(self, group: Group) -> None:
        """Begin a rebalance: wait until all members have joined again, or their time is up."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                group.assign(member, b"")
            self.propagate(group, ErrorCode.REBALANCE_IN_PROGRESS)
        self.cancel_sync_timer(group)
        was_empty = group.state is GroupState.EMPTY
        self.enter(group, GroupState.PREPARING_REBALANCE)
        delay_ms = self.settings.initial_rebalance_delay_ms
        if was_empty and delay_ms:
            left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._delay(group, delay_ms, left_ms)
        else:
            self.maybe_complete_join(group)

    def _delay(self, group: Group, delay_ms: int, left_ms: int) -> None:
        group.is_initial_delay, group.new_member_added = True, False
        due = partial(self._delay_due, group, delay_ms, left_ms)
        group.join_timer = self.timers.after(delay_ms, due)

    def _delay_due(self, group: Group, delay_ms: int, left_ms: int) -> None:
        if group.new_member_added and left_ms:
            again_ms = min(self.settings.initial_rebalance_delay_ms, left_ms)
            self._delay(group, again_ms, max(left_ms - delay_ms, 0))
        else:
            self.complete_join(group)

    def maybe_complete_join(self, group: Group) -> None:
        """End the join phase if nobody is missing; else see that it ends some time."""
        if group.state is not GroupState.PREPARING_REBALANCE or group.is_initial_delay:
            return
        if group.has_all_joined:
            self.complete_join(group)
        elif group.join_timer is None or not group.join_timer.is_pending:
            self._end_join_later(group)

    def _end_join_later(self, group: Group) -> None:
        due = partial(self.complete_join, group)
        group.join_timer = self.timers.after(group.rebalance_timeout_ms, due)

    def complete_join(self, group: Group) -> None:
        """End the join phase: who has not come is out, but for static members."""
        assert group.state is GroupState.PREPARING_REBALANCE, group.state
        if group.join_timer is not None:
            group.join_timer.cancel()
        group.is_initial_delay = False
        for member in list(group.members.values()):
            if member.join_answer is None and member.instance_id is None:
                group.remove(member.member_id)
        if group.members and not group.elect_joined_leader():
            self._end_join_later(group)  # static members all, and silent: until sessions end
            return
        group.generation = group.generation + 1 if group.generation < INT32_MAX else 1
        group.pending_sync.clear()
        if group.members:
            self._begin_generation(group)
            return
        group.protocol_name = group.leader_id = None
        self.enter(group, GroupState.EMPTY)
        # If this is not kept, a restart brings back members that then expire: no harm.
        self.store.save(group, {}, lambda error: None)

    def _begin_generation(self, group: Group) -> None:
        group.protocol_name = group.select_protocol()
        self.enter(group, GroupState.COMPLETING_REBALANCE)
        members = roster(group)
        for member in list(group.members.values()):
            is_leader = member.member_id == group.leader_id
            response = self.join_response(group, member.member_id, members if is_leader else [])
            self.answer_join(group, member, response)
            member.is_new = False
            self.touch(group, member)
            group.pending_sync.add(member.member_id)
        due = partial(self._sync_due, group, group.generation)
        group.sync_timer = self.timers.after(group.rebalance_timeout_ms, due)

    def join_response(
        self, group: Group, member_id: str, members: list[JoinGroupResponseMember]
    ) -> JoinGroupResponse:
        """Return the answer to a JoinGroup that is in the group's generation."""
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id or "",
            member_id=member_id,
            members=members,
        )

    # --- the sync phase -------------------------------------------------------------------------

    def synced(self, group: Group, member_id: str) -> None:
        """A member has asked for its assignment; when all have, nobody is watched for it."""
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self.cancel_sync_timer(group)

    def cancel_sync_timer(self, group: Group) -> None:
        """Wait for no SyncGroup any more."""
        if group.sync_timer is not None:
            group.sync_timer.cancel()
            group.sync_timer = None

    def _sync_due(self, group: Group, generation: int) -> None:
        if generation != group.generation or not group.pending_sync:
            return
        for member_id in sorted(group.pending_sync):
            self.remove(group, member_id)
        self.members_removed(group)

    def keep_assignments(self, group: Group, assignments: Mapping[str, bytes]) -> None:
        """Write down what the leader has decided; when it is committed, members get it."""
        generation, members = group.generation, group.members.values()
        named = {name: assignments.get(name, b"") for name in group.members}

        def done(error: ErrorCode) -> None:
            is_current = (
                group.state is GroupState.COMPLETING_REBALANCE and group.generation == generation
            )
            if not is_current:
                return
            for member in group.members.values():
                group.assign(member, b"" if error else named.get(member.member_id, b""))
            if not error:
                self.enter(group, GroupState.STABLE)
            self.propagate(group, error)
            if error:
                self.prepare(group)

        growth = sum(map(len, named.values())) - sum(len(m.assignment) for m in members)
        is_small = group.metadata_bytes + growth <= self.settings.group_metadata_bytes_max
        if is_small and group.kept.has_room(growth):
            self.store.save(group, named, done)
        else:
            done(ErrorCode.GROUP_MAX_SIZE_REACHED)
