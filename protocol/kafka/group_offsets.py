"""OffsetCommit, OffsetFetch, OffsetDelete: how far a group has come."""

from __future__ import annotations

from typing import Annotated

from protocol.kafka.message import NO_UUID, Int16, Int32, Int64, Struct, Uuid, Wire


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Wire("6+")] = -1
    commit_timestamp: Annotated[Int64, Wire("1")] = -1
    committed_metadata: str | None = ""


class OffsetCommitRequestTopic(Struct):
    name: Annotated[str, Wire("0-9")] = ""
    topic_id: Annotated[Uuid, Wire("10+")] = NO_UUID
    partitions: list[OffsetCommitRequestPartition] = []


class OffsetCommitRequest(Struct):
    group_id: str = ""
    generation_id_or_member_epoch: Annotated[Int32, Wire("1+")] = -1
    member_id: Annotated[str, Wire("1+")] = ""
    group_instance_id: Annotated[str | None, Wire("7+")] = None
    retention_time_ms: Annotated[Int64, Wire("2-4")] = -1
    topics: list[OffsetCommitRequestTopic] = []


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Struct):
    name: Annotated[str, Wire("0-9")] = ""
    topic_id: Annotated[Uuid, Wire("10+")] = NO_UUID
    partitions: list[OffsetCommitResponsePartition] = []


class OffsetCommitResponse(Struct):
    throttle_time_ms: Annotated[Int32, Wire("3+")] = 0
    topics: list[OffsetCommitResponseTopic] = []


class OffsetFetchRequestTopic(Struct):
    name: Annotated[str, Wire("0-7")] = ""
    partition_indexes: Annotated[list[Int32], Wire("0-7")] = []


class OffsetFetchRequestTopics(Struct):
    name: Annotated[str, Wire("8-9")] = ""
    topic_id: Annotated[Uuid, Wire("10+")] = NO_UUID
    partition_indexes: Annotated[list[Int32], Wire("8+")] = []


class OffsetFetchRequestGroup(Struct):
    group_id: Annotated[str, Wire("8+")] = ""
    member_id: Annotated[str | None, Wire("9+")] = None
    member_epoch: Annotated[Int32, Wire("9+")] = -1
    topics: Annotated[list[OffsetFetchRequestTopics] | None, Wire("8+")] = []


class OffsetFetchRequest(Struct):
    group_id: Annotated[str, Wire("0-7")] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, Wire("0-7", nullable="2-7")] = []
    groups: Annotated[list[OffsetFetchRequestGroup], Wire("8+")] = []
    require_stable: Annotated[bool, Wire("7+")] = False


class OffsetFetchResponsePartition(Struct):
    partition_index: Annotated[Int32, Wire("0-7")] = 0
    committed_offset: Annotated[Int64, Wire("0-7")] = 0
    committed_leader_epoch: Annotated[Int32, Wire("5-7")] = -1
    metadata: Annotated[str | None, Wire("0-7")] = ""
    error_code: Annotated[Int16, Wire("0-7")] = 0


class OffsetFetchResponseTopic(Struct):
    name: Annotated[str, Wire("0-7")] = ""
    partitions: Annotated[list[OffsetFetchResponsePartition], Wire("0-7")] = []


class OffsetFetchResponsePartitions(Struct):
    partition_index: Annotated[Int32, Wire("8+")] = 0
    committed_offset: Annotated[Int64, Wire("8+")] = 0
    committed_leader_epoch: Annotated[Int32, Wire("8+")] = -1
    metadata: Annotated[str | None, Wire("8+")] = ""
    error_code: Annotated[Int16, Wire("8+")] = 0


class OffsetFetchResponseTopics(Struct):
    name: Annotated[str, Wire("8-9")] = ""
    topic_id: Annotated[Uuid, Wire("10+")] = NO_UUID
    partitions: Annotated[list[OffsetFetchResponsePartitions], Wire("8+")] = []


class OffsetFetchResponseGroup(Struct):
    group_id: Annotated[str, Wire("8+")] = ""
    topics: Annotated[list[OffsetFetchResponseTopics], Wire("8+")] = []
    error_code: Annotated[Int16, Wire("8+")] = 0


class OffsetFetchResponse(Struct):
    throttle_time_ms: Annotated[Int32, Wire("3+")] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], Wire("0-7")] = []
    error_code: Annotated[Int16, Wire("2-7")] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], Wire("8+")] = []


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32 = 0


class OffsetDeleteRequestTopic(Struct):
    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = []


class OffsetDeleteRequest(Struct):
    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = []


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(Struct):
    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = []


class OffsetDeleteResponse(Struct):
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = []
