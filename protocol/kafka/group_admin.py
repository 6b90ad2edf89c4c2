"""ListGroups, DescribeGroups, DeleteGroups: groups as an operator sees them."""

from __future__ import annotations

from typing import Annotated

from protocol.kafka.message import Int16, Int32, Struct, Wire


class ListGroupsRequest(Struct):
    states_filter: Annotated[list[str], Wire("4+")] = []
    types_filter: Annotated[list[str], Wire("5+")] = []


class ListedGroup(Struct):
    group_id: str = ""
    protocol_type: str = ""
    group_state: Annotated[str, Wire("4+")] = ""
    group_type: Annotated[str, Wire("5+")] = ""


class ListGroupsResponse(Struct):
    throttle_time_ms: Annotated[Int32, Wire("1+")] = 0
    error_code: Int16 = 0
    groups: list[ListedGroup] = []


class DescribeGroupsRequest(Struct):
    groups: list[str] = []
    include_authorized_operations: Annotated[bool, Wire("3+")] = False


class DescribedGroupMember(Struct):
    member_id: str = ""
    group_instance_id: Annotated[str | None, Wire("4+")] = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: Annotated[str | None, Wire("6+")] = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = []
    authorized_operations: Annotated[Int32, Wire("3+")] = -2147483648


class DescribeGroupsResponse(Struct):
    throttle_time_ms: Annotated[Int32, Wire("1+")] = 0
    groups: list[DescribedGroup] = []


class DeleteGroupsRequest(Struct):
    groups_names: list[str] = []


class DeletableGroupResult(Struct):
    group_id: str = ""
    error_code: Int16 = 0


class DeleteGroupsResponse(Struct):
    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = []
