"""Produce: record batches to be appended, by topic and partition."""

from __future__ import annotations

from typing import Annotated, Final

from protocol.kafka.message import NO_UUID, Int16, Int32, Int64, Records, Struct, Uuid, Wire

ACKS_NONE: Final = 0
ACKS_ALL: Final = -1


class PartitionProduceData(Struct):
    index: Int32 = 0
    records: Records | None = None


class TopicProduceData(Struct):
    name: Annotated[str, Wire("0-12")] = ""
    topic_id: Annotated[Uuid, Wire("13+")] = NO_UUID
    partition_data: list[PartitionProduceData] = []


class ProduceRequest(Struct):
    transactional_id: Annotated[str | None, Wire("3+")] = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = []


class BatchIndexAndErrorMessage(Struct):
    batch_index: Annotated[Int32, Wire("8+")] = 0
    batch_index_error_message: Annotated[str | None, Wire("8+")] = None


class LeaderIdAndEpoch(Struct):
    leader_id: Annotated[Int32, Wire("10+")] = -1
    leader_epoch: Annotated[Int32, Wire("10+")] = -1


class PartitionProduceResponse(Struct):
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Annotated[Int64, Wire("2+")] = -1
    log_start_offset: Annotated[Int64, Wire("5+")] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], Wire("8+")] = []
    error_message: Annotated[str | None, Wire("8+")] = None
    current_leader: Annotated[LeaderIdAndEpoch | None, Wire("10+", tag=0)] = None


class TopicProduceResponse(Struct):
    name: Annotated[str, Wire("0-12")] = ""
    topic_id: Annotated[Uuid, Wire("13+")] = NO_UUID
    partition_responses: list[PartitionProduceResponse] = []


class NodeEndpoint(Struct):
    node_id: Annotated[Int32, Wire("10+")] = 0
    host: Annotated[str, Wire("10+")] = ""
    port: Annotated[Int32, Wire("10+")] = 0
    rack: Annotated[str | None, Wire("10+")] = None


class ProduceResponse(Struct):
    responses: list[TopicProduceResponse] = []
    throttle_time_ms: Annotated[Int32, Wire("1+")] = 0
    node_endpoints: Annotated[list[NodeEndpoint], Wire("10+", tag=0)] = []
