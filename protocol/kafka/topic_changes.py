"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords: topics made, grown and emptied."""

from __future__ import annotations

from typing import Annotated

from protocol.kafka.message import NO_UUID, Int8, Int16, Int32, Int64, Struct, Uuid, Wire


class CreatableReplicaAssignment(Struct):
    partition_index: Int32 = 0
    broker_ids: list[Int32] = []


class CreatableTopicConfig(Struct):
    name: str = ""
    value: str | None = ""


class CreatableTopic(Struct):
    name: str = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = []
    configs: list[CreatableTopicConfig] = []


class CreateTopicsRequest(Struct):
    topics: list[CreatableTopic] = []
    timeout_ms: Int32 = 60000
    validate_only: Annotated[bool, Wire("1+")] = False


class CreatableTopicConfigs(Struct):
    name: Annotated[str, Wire("5+")] = ""
    value: Annotated[str | None, Wire("5+")] = ""
    read_only: Annotated[bool, Wire("5+")] = False
    config_source: Annotated[Int8, Wire("5+")] = -1
    is_sensitive: Annotated[bool, Wire("5+")] = False


class CreatableTopicResult(Struct):
    name: str = ""
    topic_id: Annotated[Uuid, Wire("7+")] = NO_UUID
    error_code: Int16 = 0
    error_message: Annotated[str | None, Wire("1+")] = ""
    topic_config_error_code: Annotated[Int16, Wire("5+", tag=0)] = 0
    num_partitions: Annotated[Int32, Wire("5+")] = -1
    replication_factor: Annotated[Int16, Wire("5+")] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, Wire("5+")] = []


class CreateTopicsResponse(Struct):
    throttle_time_ms: Annotated[Int32, Wire("2+")] = 0
    topics: list[CreatableTopicResult] = []


class DeleteTopicState(Struct):
    name: Annotated[str | None, Wire("6+")] = None
    topic_id: Annotated[Uuid, Wire("6+")] = NO_UUID


class DeleteTopicsRequest(Struct):
    topics: Annotated[list[DeleteTopicState], Wire("6+")] = []
    topic_names: Annotated[list[str], Wire("0-5")] = []
    timeout_ms: Int32 = 0


class DeletableTopicResult(Struct):
    name: Annotated[str | None, Wire(nullable="6+")] = ""
    topic_id: Annotated[Uuid, Wire("6+")] = NO_UUID
    error_code: Int16 = 0
    error_message: Annotated[str | None, Wire("5+")] = None


class DeleteTopicsResponse(Struct):
    throttle_time_ms: Annotated[Int32, Wire("1+")] = 0
    responses: list[DeletableTopicResult] = []


class CreatePartitionsAssignment(Struct):
    broker_ids: list[Int32] = []


class CreatePartitionsTopic(Struct):
    name: str = ""
    count: Int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = []


class CreatePartitionsRequest(Struct):
    topics: list[CreatePartitionsTopic] = []
    timeout_ms: Int32 = 0
    validate_only: bool = False


class CreatePartitionsTopicResult(Struct):
    name: str = ""
    error_code: Int16 = 0
    error_message: str | None = None


class CreatePartitionsResponse(Struct):
    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = []


class DeleteRecordsPartition(Struct):
    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsTopic(Struct):
    name: str = ""
    partitions: list[DeleteRecordsPartition] = []


class DeleteRecordsRequest(Struct):
    topics: list[DeleteRecordsTopic] = []
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Struct):
    name: str = ""
    partitions: list[DeleteRecordsPartitionResult] = []


class DeleteRecordsResponse(Struct):
    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = []
