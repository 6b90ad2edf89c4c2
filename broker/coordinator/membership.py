"""Membership: the classic group protocol, as a state machine without I/O.

What comes in are requests and the passing of time; what goes out are answers, and groups to be
saved. Time is an argument (`Timers`), and so is what saves (`GroupStore`).

    state                what it is            JoinGroup                SyncGroup
    -------------------  --------------------  -----------------------  ---------------------------
    Empty                no members, perhaps   begins a rebalance       UNKNOWN_MEMBER_ID
                         offsets
    PreparingRebalance   members are asked to  waits for the others     REBALANCE_IN_PROGRESS
                         join again
    CompletingRebalance  all know the new      same protocols: the      waits; the leader's is saved
                         generation; the       answer again; else       and then all are answered:
                         leader assigns        begins a rebalance       the group is Stable
    Stable               members have their    the leader's, or other   the assignment
                         assignments           protocols: rebalance;
                                               else the answer again
    Dead                 the group is gone     (nobody finds it: a request makes a new one)

    state                Heartbeat             a member leaves, is      commit by a member
                                               silent or is replaced
    -------------------  --------------------  -----------------------  ---------------------------
    Empty                UNKNOWN_MEMBER_ID     -                        without a generation: taken
    PreparingRebalance   REBALANCE_IN_PROGRESS may end the join phase   taken, in the old generation
    CompletingRebalance  NONE                  begins a rebalance       REBALANCE_IN_PROGRESS
    Stable               NONE                  begins a rebalance (not  taken
                                               for a replaced static
                                               member)

    PreparingRebalance ends when all members have joined and no id is pending, or after the largest
    rebalance timeout: then dynamic members that did not come are out. Without members the group is
    Empty, else CompletingRebalance with the next generation. Who does not ask for its assignment
    within the rebalance timeout is out too. A member that is silent for its session timeout is out,
    unless it waits for an answer. A generation that is not the group's is ILLEGAL_GENERATION.

A cooperative rebalance is the same to a broker: members that rejoin may go on with what they have.
Source: Kafka's `GroupMetadataManager` (classic groups), KIP-62, 345, 394, 559, 814.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.coordinator.group import Group, GroupState, generate_member_id
from broker.coordinator.joining import JoinCall, Joining
from broker.coordinator.member import SyncAnswer
from broker.coordinator.rebalance import Rebalance
from protocol.error_codes import ErrorCode
from protocol.kafka.group_membership import (
    HeartbeatRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from broker.coordinator.groups import Groups

__all__ = ["Membership"]

NO_GENERATION: Final = -1
_E = ErrorCode


class Membership:
    """The machine. It looks up groups by itself; ids that are empty are refused by the caller."""

    def __init__(
        self,
        groups: Groups,
        rebalance: Rebalance,
        now_ms: Callable[[], int],
        new_member_id: Callable[[str, str | None], str] = generate_member_id,
    ) -> None:
        self._groups, self._rebalance = groups, rebalance
        self._joining = Joining(groups, rebalance, now_ms, new_member_id)

    def join(self, call: JoinCall) -> None:
        """Handle a JoinGroup; the answer may come much later."""
        self._joining.join(call)

    def sync(self, request: SyncGroupRequest, answer: SyncAnswer) -> None:
        """Handle a SyncGroup; the answer may come later, when the leader has assigned."""
        rebalance = self._rebalance
        group = self._groups.get(request.group_id)
        error = self._check_sync(group, request)
        if error or group is None:
            answer(SyncGroupResponse(error_code=error or _E.UNKNOWN_MEMBER_ID))
            return
        member = group.members[request.member_id]
        if group.state is GroupState.STABLE:
            rebalance.synced(group, member.member_id)
            rebalance.touch(group, member)
            answer(rebalance.sync_response(group, member, _E.NONE))
            return
        rebalance.answer_sync(group, member, _E.REBALANCE_IN_PROGRESS)  # who asked before
        member.sync_answer = answer
        rebalance.synced(group, member.member_id)
        if member.member_id == group.leader_id:
            assignments = {each.member_id: each.assignment for each in request.assignments}
            rebalance.keep_assignments(group, assignments)

    def _check_sync(self, group: Group | None, request: SyncGroupRequest) -> ErrorCode:
        if group is None:
            return _E.UNKNOWN_MEMBER_ID
        error = group.check_member(request.member_id, request.group_instance_id)
        if error:
            return error
        if request.generation_id != group.generation:
            return _E.ILLEGAL_GENERATION
        named = (
            (request.protocol_type, group.protocol_type),
            (request.protocol_name, group.protocol_name),
        )
        if any(
            theirs is not None and ours is not None and theirs != ours for theirs, ours in named
        ):
            return _E.INCONSISTENT_GROUP_PROTOCOL
        if group.state is GroupState.PREPARING_REBALANCE:
            return _E.REBALANCE_IN_PROGRESS
        return _E.NONE

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Handle a Heartbeat."""
        group = self._groups.get(request.group_id)
        if group is None:
            return _E.UNKNOWN_MEMBER_ID
        error = group.check_member(request.member_id, request.group_instance_id)
        if error:
            return error
        if request.generation_id != group.generation:
            return _E.ILLEGAL_GENERATION
        self._rebalance.touch(group, group.members[request.member_id])
        if group.state is GroupState.PREPARING_REBALANCE:
            return _E.REBALANCE_IN_PROGRESS
        return _E.NONE

    def leave(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        """Handle a LeaveGroup: of several members, each has its own error (KIP-345)."""
        group = self._groups.get(request.group_id)
        before = 0 if group is None else len(group.members)
        members: list[MemberResponse] = []
        for identity in request.members:
            error = _E.UNKNOWN_MEMBER_ID if group is None else self._leave(group, identity)
            members.append(MemberResponse(identity.member_id, identity.group_instance_id, error))
        if group is not None:
            if len(group.members) < before:
                self._rebalance.members_removed(group)
            else:  # an id that was only given out is nobody's loss, but may have been waited for
                self._rebalance.maybe_complete_join(group)
            self._groups.drop_if_unused(group)
        return LeaveGroupResponse(members=members)

    def _leave(self, group: Group, identity: MemberIdentity) -> ErrorCode:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if not member_id and instance_id is not None:  # an operator, who knows no member ids
            member_id = group.static_members.get(instance_id, "")
        elif member_id not in group.pending:
            error = group.check_member(member_id, instance_id)
            if error:
                return error
        if not member_id:
            return _E.UNKNOWN_MEMBER_ID
        self._rebalance.remove(group, member_id)
        return _E.NONE

    def check_commit(
        self, group: Group, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Return NONE if offsets may be committed; that is a sign of life too.

        Without generation and ids it is an operator, or a consumer that assigns itself: for them
        the group has to be empty.
        """
        if generation < 0 and group.state is GroupState.EMPTY:
            return _E.NONE
        if generation < 0 and not member_id and instance_id is None:
            return _E.UNKNOWN_MEMBER_ID
        error = group.check_member(member_id, instance_id)
        if error:
            return error
        if generation != group.generation:
            return _E.ILLEGAL_GENERATION
        if group.state is GroupState.COMPLETING_REBALANCE:
            return _E.REBALANCE_IN_PROGRESS
        self._rebalance.touch(group, group.members[member_id])
        return _E.NONE

    def resume(self, group: Group) -> None:
        """Begin the sessions of the members of a group that was loaded."""
        for member in list(group.members.values()):
            self._rebalance.touch(group, member)
        if len(group.members) > self._rebalance.settings.group_max_size:
            self._rebalance.prepare(group)
