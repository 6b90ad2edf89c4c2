"""GroupAdminHandler: ListGroups, DescribeGroups, DeleteGroups: groups as an operator sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.coordinator.group import Group, GroupState
from broker.kafka_api.authorized import GROUP_OPERATIONS
from broker.kafka_api.call import Call
from broker.kafka_api.group_answer import answer_when_told
from broker.network.answers import PendingResponse
from broker.steps import Steps
from protocol.error_codes import ErrorCode
from protocol.kafka.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from protocol.kafka.message import Struct

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi

GROUP_TYPE: Final = "classic"
"""There are no others yet; Kafka's further ones are "consumer", "share" and "streams"."""
NOT_FOUND_FROM_VERSION: Final = 6
"""DescribeGroups: before, a group that is not there is described as dead, without an error."""
GROUPS_PER_STEP: Final = 500
MEMBERS_PER_STEP: Final = 1_000


class GroupAdminHandler:
    """Shows groups, and deletes them; one for all connections."""

    def __init__(self, server: KafkaApi) -> None:
        self._coordinator = server.coordinator
        self._response_bytes_max = server.limits.fetch_response_bytes_max

    # --- ListGroups -----------------------------------------------------------------------------

    def list_groups(self, request: ListGroupsRequest, call: Call) -> Struct | PendingResponse:
        """Handle a ListGroups; filters are compared without regard to case, as in Kafka."""
        return call.answer(self._list_steps(request, call))

    def _list_steps(self, request: ListGroupsRequest, call: Call) -> Steps[ListGroupsResponse]:
        error = call.count_error(self._coordinator.check_all())
        response = ListGroupsResponse(error_code=error)
        states = {state.lower() for state in request.states_filter}
        types = {kind.lower() for kind in request.types_filter}
        if types and GROUP_TYPE not in types:
            return response
        for count, group in enumerate(self._coordinator.groups, 1):
            state = str(group.state)
            if group.state is not GroupState.DEAD and (not states or state.lower() in states):
                kind = group.protocol_type or ""
                response.groups.append(ListedGroup(group.group_id, kind, state, GROUP_TYPE))
            if not count % GROUPS_PER_STEP:
                yield None
        return response

    # --- DescribeGroups -------------------------------------------------------------------------

    def describe_groups(
        self, request: DescribeGroupsRequest, call: Call
    ) -> Struct | PendingResponse:
        """Handle a DescribeGroups; one answer for each group that is asked for, however often."""
        return call.answer(self._describe_steps(request, call))

    def _describe_steps(
        self, request: DescribeGroupsRequest, call: Call
    ) -> Steps[DescribeGroupsResponse]:
        response = DescribeGroupsResponse()
        described_members = 0
        left_bytes = self._response_bytes_max
        for count, group_id in enumerate(dict.fromkeys(request.groups), 1):
            described = self._described(group_id, call)
            left_bytes -= sum(map(_size_bytes, described.members))
            if left_bytes < 0:
                error = call.count_error(ErrorCode.INVALID_REQUEST)
                reason = "the answer gets too large: ask for less at a time"
                described = DescribedGroup(error, reason, group_id)
            if request.include_authorized_operations and not described.error_code:
                described.authorized_operations = GROUP_OPERATIONS
            response.groups.append(described)
            described_members += len(described.members)
            if not count % GROUPS_PER_STEP or described_members >= MEMBERS_PER_STEP:
                described_members = 0
                yield None
        return response

    def _described(self, group_id: str, call: Call) -> DescribedGroup:
        error = self._coordinator.check(group_id)
        if error:
            return DescribedGroup(call.count_error(error), error.text, group_id)
        group = self._coordinator.groups.get(group_id)
        if group is not None:
            return _description(group)
        dead = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if call.version >= NOT_FOUND_FROM_VERSION:
            dead.error_code = call.count_error(ErrorCode.GROUP_ID_NOT_FOUND)
            dead.error_message = f"there is no group {group_id}"
        return dead

    # --- DeleteGroups ---------------------------------------------------------------------------

    def delete_groups(self, request: DeleteGroupsRequest, call: Call) -> Struct | PendingResponse:
        """Handle a DeleteGroups: it is answered when all that can go are gone for good."""
        results = {group_id: DeletableGroupResult(group_id) for group_id in request.groups_names}
        response = DeleteGroupsResponse(results=list(results.values()))
        left = len(results)

        def start(tell: Callable[[DeleteGroupsResponse], None]) -> None:
            if not results:
                tell(response)
            for result in results.values():
                self._delete(result, call, lambda: ended(tell))

        def ended(tell: Callable[[DeleteGroupsResponse], None]) -> None:
            nonlocal left
            left -= 1
            if not left:
                tell(response)

        return answer_when_told(call, start, is_ordered=True)

    def _delete(self, result: DeletableGroupResult, call: Call, ended: Callable[[], None]) -> None:
        def done(error: ErrorCode) -> None:
            result.error_code = call.count_error(error)
            ended()

        error = self._coordinator.check(result.group_id)
        if error:
            done(error)
        else:
            self._coordinator.offsets.delete_group(result.group_id, done)


def _size_bytes(member: DescribedGroupMember) -> int:
    """Return about what a member makes of an answer."""
    texts = (member.member_id, member.group_instance_id or "", member.client_id)
    return len(member.member_metadata) + len(member.member_assignment) + sum(map(len, texts))


def _description(group: Group) -> DescribedGroup:
    """Describe a group; what members said and were assigned is of a stable group's generation."""
    is_stable = group.state is GroupState.STABLE
    protocol = group.protocol_name if is_stable else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=str(group.state),
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[
            DescribedGroupMember(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                each.metadata_for(protocol) if is_stable else b"",
                each.assignment,
            )
            for each in group.members.values()
        ],
    )
