"""GroupMembershipHandler: FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.coordinator.joining import JoinCall
from broker.coordinator.rebalance import join_refusal
from broker.kafka_api.call import Call
from broker.kafka_api.group_answer import answer_when_told, client_host, client_name
from broker.network.answers import PendingResponse
from protocol.error_codes import ErrorCode
from protocol.kafka.group_membership import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from protocol.kafka.message import Struct

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi

GROUP_KEY, TRANSACTION_KEY = 0, 1
"""Types of keys that FindCoordinator may ask about."""
SEVERAL_KEYS_FROM_VERSION: Final = 4
NULL_PROTOCOL_FROM_VERSION: Final = 7
"""JoinGroup: from here on "none" is null, before the empty text."""
PROTOCOLS_IN_SYNC_FROM_VERSION: Final = 5
SEVERAL_LEAVE_FROM_VERSION: Final = 3
REFUSALS: Final = {
    TRANSACTION_KEY: "transactions are not served by this broker",
}


class GroupMembershipHandler:
    """Hands requests of members to the coordinator; one for all connections."""

    def __init__(self, server: KafkaApi) -> None:
        self._server, self._coordinator = server, server.coordinator

    # --- FindCoordinator ------------------------------------------------------------------------

    def find_coordinator(
        self, request: FindCoordinatorRequest, call: Call
    ) -> FindCoordinatorResponse:
        """Handle a FindCoordinator: it is this broker; what it needs is made meanwhile."""
        if request.key_type == GROUP_KEY:
            self._coordinator.begin()
            self._coordinator.topic.prepare()
        if call.version >= SEVERAL_KEYS_FROM_VERSION:
            keys = request.coordinator_keys
            return FindCoordinatorResponse(
                coordinators=[self._coordinator_of(key, request.key_type, call) for key in keys]
            )
        found = self._coordinator_of(request.key, request.key_type, call)
        return FindCoordinatorResponse(
            error_code=found.error_code,
            error_message=found.error_message,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )

    def _coordinator_of(self, key: str, key_type: int, call: Call) -> Coordinator:
        if key_type != GROUP_KEY:
            error = call.count_error(ErrorCode.INVALID_REQUEST)
            reason = REFUSALS.get(
                key_type, f"there are no coordinators for keys of type {key_type}"
            )
            return Coordinator(key, -1, "", -1, error, reason)
        host, port = self._server.advertised
        return Coordinator(key, self._server.node_id, host, port, 0, None)

    # --- members --------------------------------------------------------------------------------

    def _error(self, group_id: str) -> ErrorCode:
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        return self._coordinator.check(group_id)

    def join_group(self, request: JoinGroupRequest, call: Call) -> Struct | PendingResponse:
        """Handle a JoinGroup: it is answered when its generation begins."""

        def start(tell: Callable[[JoinGroupResponse], None]) -> None:
            def answer(response: JoinGroupResponse) -> None:
                call.count_error(response.error_code)
                if call.version < NULL_PROTOCOL_FROM_VERSION:
                    response.protocol_name = response.protocol_name or ""
                elif not response.protocol_name:
                    response.protocol_name = None
                tell(response)

            error = self._error(request.group_id)
            if error:
                answer(join_refusal(error, request.member_id))
                return
            joining = JoinCall(request, call.version, client_name(call), client_host(call), answer)
            self._coordinator.membership.join(joining)

        return answer_when_told(call, start, is_ordered=False)

    def sync_group(self, request: SyncGroupRequest, call: Call) -> Struct | PendingResponse:
        """Handle a SyncGroup: it is answered when the leader's assignments are kept."""

        def start(tell: Callable[[SyncGroupResponse], None]) -> None:
            def answer(response: SyncGroupResponse) -> None:
                call.count_error(response.error_code)
                tell(response)

            error = self._error(request.group_id)
            has_protocol = request.protocol_type is not None and request.protocol_name is not None
            if not error and call.version >= PROTOCOLS_IN_SYNC_FROM_VERSION and not has_protocol:
                error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            if error:
                answer(SyncGroupResponse(error_code=error))
                return
            self._coordinator.membership.sync(request, answer)

        return answer_when_told(call, start, is_ordered=False)

    def heartbeat(self, request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
        """Handle a Heartbeat; while its group is loaded, it is taken for granted.

        Sessions begin anew once it is, and clients do not expect to be told of loading here: Java's
        would fail.
        """
        error = self._error(request.group_id)
        if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return HeartbeatResponse()
        error = error or self._coordinator.membership.heartbeat(request)
        return HeartbeatResponse(error_code=call.count_error(error))

    def leave_group(self, request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
        """Handle a LeaveGroup; before version 3 of one member, whose error is the answer's."""
        error = self._error(request.group_id)
        if error:
            return LeaveGroupResponse(error_code=call.count_error(error))
        if call.version >= SEVERAL_LEAVE_FROM_VERSION:
            response = self._coordinator.membership.leave(request)
            for member in response.members:
                call.count_error(member.error_code)
            return response
        request.members = [MemberIdentity(request.member_id)]
        (member,) = self._coordinator.membership.leave(request).members
        return LeaveGroupResponse(error_code=call.count_error(member.error_code))
