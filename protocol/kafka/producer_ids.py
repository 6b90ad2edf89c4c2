"""InitProducerId and DescribeProducers: idempotent producers."""

from __future__ import annotations

from typing import Annotated

from protocol.kafka.message import Int16, Int32, Int64, Struct, Wire


class InitProducerIdRequest(Struct):
    transactional_id: str | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, Wire("3+")] = -1
    producer_epoch: Annotated[Int16, Wire("3+")] = -1
    enable2_pc: Annotated[bool, Wire("6+")] = False
    keep_prepared_txn: Annotated[bool, Wire("6+")] = False


class InitProducerIdResponse(Struct):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Annotated[Int64, Wire("6+")] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, Wire("6+")] = -1


class TopicRequest(Struct):
    name: str = ""
    partition_indexes: list[Int32] = []


class DescribeProducersRequest(Struct):
    topics: list[TopicRequest] = []


class ProducerState(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    active_producers: list[ProducerState] = []


class TopicResponse(Struct):
    name: str = ""
    partitions: list[PartitionResponse] = []


class DescribeProducersResponse(Struct):
    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = []
