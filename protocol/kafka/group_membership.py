"""FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup: being a member of a group."""

from __future__ import annotations

from typing import Annotated

from protocol.kafka.message import Int8, Int16, Int32, Struct, Wire


class FindCoordinatorRequest(Struct):
    key: Annotated[str, Wire("0-3")] = ""
    key_type: Annotated[Int8, Wire("1+")] = 0
    coordinator_keys: Annotated[list[str], Wire("4+")] = []


class Coordinator(Struct):
    key: Annotated[str, Wire("4+")] = ""
    node_id: Annotated[Int32, Wire("4+")] = 0
    host: Annotated[str, Wire("4+")] = ""
    port: Annotated[Int32, Wire("4+")] = 0
    error_code: Annotated[Int16, Wire("4+")] = 0
    error_message: Annotated[str | None, Wire("4+")] = ""


class FindCoordinatorResponse(Struct):
    throttle_time_ms: Annotated[Int32, Wire("1+")] = 0
    error_code: Annotated[Int16, Wire("0-3")] = 0
    error_message: Annotated[str | None, Wire("1-3")] = ""
    node_id: Annotated[Int32, Wire("0-3")] = 0
    host: Annotated[str, Wire("0-3")] = ""
    port: Annotated[Int32, Wire("0-3")] = 0
    coordinators: Annotated[list[Coordinator], Wire("4+")] = []


class JoinGroupRequestProtocol(Struct):
    name: str = ""
    metadata: bytes = b""


class JoinGroupRequest(Struct):
    group_id: str = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, Wire("1+")] = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, Wire("5+")] = None
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = []
    reason: Annotated[str | None, Wire("8+")] = None


class JoinGroupResponseMember(Struct):
    member_id: str = ""
    group_instance_id: Annotated[str | None, Wire("5+")] = None
    metadata: bytes = b""


class JoinGroupResponse(Struct):
    throttle_time_ms: Annotated[Int32, Wire("2+")] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[str | None, Wire("7+")] = None
    protocol_name: Annotated[str | None, Wire(nullable="7+")] = ""
    leader: str = ""
    skip_assignment: Annotated[bool, Wire("9+")] = False
    member_id: str = ""
    members: list[JoinGroupResponseMember] = []


class SyncGroupRequestAssignment(Struct):
    member_id: str = ""
    assignment: bytes = b""


class SyncGroupRequest(Struct):
    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, Wire("3+")] = None
    protocol_type: Annotated[str | None, Wire("5+")] = None
    protocol_name: Annotated[str | None, Wire("5+")] = None
    assignments: list[SyncGroupRequestAssignment] = []


class SyncGroupResponse(Struct):
    throttle_time_ms: Annotated[Int32, Wire("1+")] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[str | None, Wire("5+")] = None
    protocol_name: Annotated[str | None, Wire("5+")] = None
    assignment: bytes = b""


class HeartbeatRequest(Struct):
    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, Wire("3+")] = None


class HeartbeatResponse(Struct):
    throttle_time_ms: Annotated[Int32, Wire("1+")] = 0
    error_code: Int16 = 0


class MemberIdentity(Struct):
    member_id: Annotated[str, Wire("3+")] = ""
    group_instance_id: Annotated[str | None, Wire("3+")] = None
    reason: Annotated[str | None, Wire("5+")] = None


class LeaveGroupRequest(Struct):
    group_id: str = ""
    member_id: Annotated[str, Wire("0-2")] = ""
    members: Annotated[list[MemberIdentity], Wire("3+")] = []


class MemberResponse(Struct):
    member_id: Annotated[str, Wire("3+")] = ""
    group_instance_id: Annotated[str | None, Wire("3+")] = ""
    error_code: Annotated[Int16, Wire("3+")] = 0


class LeaveGroupResponse(Struct):
    throttle_time_ms: Annotated[Int32, Wire("1+")] = 0
    error_code: Int16 = 0
    members: Annotated[list[MemberResponse], Wire("3+")] = []
