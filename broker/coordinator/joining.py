"""Joining: what a JoinGroup does, in each state and for each kind of member."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.coordinator.group import Group, GroupState, generate_member_id
from broker.coordinator.kept_bytes import MEMBER_BYTES, PENDING_BYTES, text_bytes
from broker.coordinator.member import JoinAnswer, Member, Protocols, size_of_protocols
from broker.coordinator.rebalance import Rebalance, join_refusal, roster
from protocol.error_codes import ErrorCode
from protocol.limits import GROUP_PROTOCOLS_MAX

if TYPE_CHECKING:
    from broker.coordinator.groups import Groups
    from protocol.kafka.group_membership import JoinGroupRequest

__all__ = ["JoinCall", "Joining"]

MEMBER_ID_FROM_VERSION: Final = 4
"""From here on a new member is given its id first, and joins with it (KIP-394)."""
SKIP_ASSIGNMENT_FROM_VERSION: Final = 9


class JoinCall(NamedTuple):
    """A JoinGroup: what it says, who sends it, and who is to be answered."""

    request: JoinGroupRequest
    version: int
    client_id: str
    client_host: str
    answer: JoinAnswer

    @property
    def protocols(self) -> Protocols:
        return tuple((each.name, each.metadata) for each in self.request.protocols)

    @property
    def rebalance_timeout_ms(self) -> int:
        """Version 0 has none of its own."""
        timeout_ms = self.request.rebalance_timeout_ms
        return timeout_ms if timeout_ms >= 0 else self.request.session_timeout_ms

    def refuse(self, error: ErrorCode, member_id: str | None = None) -> None:
        named = self.request.member_id if member_id is None else member_id
        self.answer(join_refusal(error, named))


class Joining:
    """Handles JoinGroups."""

    def __init__(
        self,
        groups: Groups,
        rebalance: Rebalance,
        now_ms: Callable[[], int],
        new_member_id: Callable[[str, str | None], str] = generate_member_id,
    ) -> None:
        self._groups, self._rebalance, self._now_ms = groups, rebalance, now_ms
        self._settings = rebalance.settings
        self._new_member_id = new_member_id

    def join(self, call: JoinCall) -> None:
        """Handle a JoinGroup; `call.answer` is called now, or when the generation begins."""
        request, settings = call.request, self._settings
        lowest, highest = settings.min_session_timeout_ms, settings.max_session_timeout_ms
        if not lowest <= request.session_timeout_ms <= highest:
            call.refuse(ErrorCode.INVALID_SESSION_TIMEOUT)
            return
        if len(request.protocols) > GROUP_PROTOCOLS_MAX:
            call.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return
        if request.member_id:
            group = self._groups.get(request.group_id)
            if group is None:
                call.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
                return
        else:
            group = self._groups.get_or_create(request.group_id, self._now_ms())
            if group is None:
                call.refuse(ErrorCode.POLICY_VIOLATION)
                return
        if not self._accepts(group, call):
            self._remove_refused(group, request.member_id)
            call.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        elif not group.supports(request.protocol_type, (name for name, _ in call.protocols)):
            call.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif request.member_id:
            self._existing(group, call)
        else:
            self._new(group, call)
        self._groups.drop_if_unused(group)

    def _accepts(self, group: Group, call: JoinCall) -> bool:
        """Whether there is room, for what the member brings and for itself.

        In PreparingRebalance those count who wait: so if the maximum was lowered, the last ones to
        rejoin are those that must go.
        """
        size_max = self._settings.group_max_size
        member_id = call.request.member_id
        member = group.members.get(member_id)
        if not self._has_room(group, call):
            return False
        if not member_id and len(group.pending) >= size_max:
            return False
        if group.state is GroupState.PREPARING_REBALANCE:
            is_waiting = member is not None and member.join_answer is not None
            return is_waiting or group.awaiting_join < size_max
        return (
            group.state is GroupState.EMPTY or member is not None or len(group.members) < size_max
        )

    def _has_room(self, group: Group, call: JoinCall) -> bool:
        """Whether what a member says of itself can be kept, instead of what it said before."""
        request = call.request
        known_id = group.static_members.get(request.group_instance_id or "", request.member_id)
        member = group.members.get(known_id)
        bytes_max = self._settings.group_metadata_bytes_max
        size = size_of_protocols(call.protocols)
        if member is not None:
            growth = size - size_of_protocols(member.protocols)
            return group.metadata_bytes + growth <= bytes_max and group.kept.has_room(growth)
        texts = (request.group_instance_id or "", call.client_id, call.client_id)
        brought = MEMBER_BYTES + PENDING_BYTES + size + sum(map(text_bytes, texts))
        return group.metadata_bytes + size <= bytes_max and group.kept.has_room(brought)

    def _remove_refused(self, group: Group, member_id: str) -> None:
        """Who came with an id has no place any more, if it had one."""
        was_member = member_id in group.members
        self._rebalance.remove(group, member_id)
        if was_member:
            self._rebalance.members_removed(group)
        else:
            self._rebalance.maybe_complete_join(group)

    # --- new members ----------------------------------------------------------------------------

    def _new(self, group: Group, call: JoinCall) -> None:
        instance_id = call.request.group_instance_id
        member_id = self._new_member_id(call.client_id, instance_id)
        if instance_id is not None:
            if instance_id in group.static_members:
                self._replace(group, call, instance_id, member_id)
            else:
                self._add(group, call, member_id)
        elif call.version >= MEMBER_ID_FROM_VERSION:
            due = partial(self._pending_due, group, member_id)
            timer = self._rebalance.timers.after(call.request.session_timeout_ms, due)
            group.expect(member_id, timer)
            call.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        else:
            self._add(group, call, member_id)

    def _pending_due(self, group: Group, member_id: str) -> None:
        """Nobody came with an id that was given out."""
        self._rebalance.remove(group, member_id)
        self._rebalance.maybe_complete_join(group)
        self._groups.drop_if_unused(group)

    def _add(self, group: Group, call: JoinCall, member_id: str) -> None:
        request, rebalance = call.request, self._rebalance
        group.remove(member_id)  # it is pending no more
        if not group.members:
            group.protocol_type = request.protocol_type
        member = Member(
            member_id,
            instance_id=request.group_instance_id,
            client_id=call.client_id,
            client_host=call.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=call.rebalance_timeout_ms,
            protocols=call.protocols,
        )
        member.is_new = True
        group.add(member)
        if group.is_initial_delay:
            group.new_member_added = True
        rebalance.await_join(group, member, call.answer)
        rebalance.touch(group, member, self._settings.new_member_join_timeout_ms)
        rebalance.maybe_prepare(group)

    def _replace(self, group: Group, call: JoinCall, instance_id: str, new_id: str) -> None:
        """Let a static member that was started anew take its place again (KIP-345)."""
        rebalance = self._rebalance
        old_id = group.static_members[instance_id]
        member = group.members[old_id]
        rebalance.answer_join(group, member, join_refusal(ErrorCode.FENCED_INSTANCE_ID, old_id))
        rebalance.answer_sync(group, member, ErrorCode.FENCED_INSTANCE_ID)
        old_leader = group.leader_id
        group.replace_static(instance_id, new_id)
        member.is_new = False
        before = (member.protocols, member.session_timeout_ms, member.rebalance_timeout_ms)
        self._take_over(group, member, call)
        rebalance.touch(group, member)
        if group.state is not GroupState.STABLE or group.select_protocol() != group.protocol_name:
            rebalance.await_join(group, member, call.answer)
            rebalance.maybe_prepare(group)
            return
        self._keep_replacement(group, call, member, old_id, old_leader or "", before)

    def _keep_replacement(
        self,
        group: Group,
        call: JoinCall,
        member: Member,
        old_id: str,
        old_leader: str,
        before: tuple[Protocols, int, int],
    ) -> None:
        """Answer with the generation that there is, once the new id is written down."""
        generation, new_id = group.generation, member.member_id

        def done(error: ErrorCode) -> None:
            is_current = group.members.get(new_id) is member
            if error:
                if is_current:
                    protocols, member.session_timeout_ms, member.rebalance_timeout_ms = before
                    group.update(member, protocols)
                    group.replace_static(member.instance_id or "", old_id)
                    self._rebalance.touch(group, member)
                call.refuse(error, new_id)
            elif not is_current:
                call.refuse(ErrorCode.FENCED_INSTANCE_ID, new_id)
            elif group.generation != generation or group.state is not GroupState.STABLE:
                # It could not be told of the rebalance that has begun meanwhile: it joins again.
                call.refuse(ErrorCode.REBALANCE_IN_PROGRESS, new_id)
            else:
                self._answer_replaced(group, call, new_id, old_leader)

        assignments = {each.member_id: each.assignment for each in group.members.values()}
        self._rebalance.store.save(group, assignments, done)

    def _answer_replaced(self, group: Group, call: JoinCall, new_id: str, old_leader: str) -> None:
        """From version 9 on a leader that comes back is told that there is nothing to assign.

        An older one is told of the leader by its former name, lest it assigns (KIP-814).
        """
        is_leader = group.leader_id == new_id
        response = self._rebalance.join_response(group, new_id, [])
        if call.version >= SKIP_ASSIGNMENT_FROM_VERSION:
            response.skip_assignment = is_leader
            response.members = roster(group) if is_leader else []
        else:
            response.leader = old_leader
        call.answer(response)

    # --- members that there are ------------------------------------------------------------------

    def _existing(self, group: Group, call: JoinCall) -> None:
        request, rebalance = call.request, self._rebalance
        member_id, instance_id = request.member_id, request.group_instance_id
        if member_id in group.pending and instance_id is None:
            self._add(group, call, member_id)
            return
        error = group.check_member(member_id, instance_id)
        if error or group.state is GroupState.EMPTY:
            call.refuse(error or ErrorCode.UNKNOWN_MEMBER_ID)
            return
        member = group.members[member_id]
        is_leader = member_id == group.leader_id
        is_same = member.protocols == call.protocols
        if group.state is GroupState.STABLE and is_same and not is_leader:
            rebalance.touch(group, member)
            call.answer(rebalance.join_response(group, member_id, []))
        elif group.state is GroupState.COMPLETING_REBALANCE and is_same:
            # It missed the answer: here is what it said.
            rebalance.touch(group, member)
            members = roster(group) if is_leader else []
            call.answer(rebalance.join_response(group, member_id, members))
        else:
            self._take_over(group, member, call)
            rebalance.await_join(group, member, call.answer)
            rebalance.maybe_prepare(group)

    def _take_over(self, group: Group, member: Member, call: JoinCall) -> None:
        group.update(member, call.protocols)
        member.session_timeout_ms = call.request.session_timeout_ms
        member.rebalance_timeout_ms = call.rebalance_timeout_ms
