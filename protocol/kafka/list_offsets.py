"""ListOffsets and OffsetForLeaderEpoch: offsets by time, by position, and by leader epoch."""

from __future__ import annotations

from typing import Annotated

from protocol.kafka.message import Int8, Int16, Int32, Int64, Struct, Wire


class ListOffsetsPartition(Struct):
    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, Wire("4+")] = -1
    timestamp: Int64 = 0
    max_num_offsets: Annotated[Int32, Wire("0")] = 1


class ListOffsetsTopic(Struct):
    name: str = ""
    partitions: list[ListOffsetsPartition] = []


class ListOffsetsRequest(Struct):
    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, Wire("2+")] = 0
    topics: list[ListOffsetsTopic] = []
    timeout_ms: Annotated[Int32, Wire("10+")] = 0


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    old_style_offsets: Annotated[list[Int64], Wire("0")] = []
    timestamp: Annotated[Int64, Wire("1+")] = -1
    offset: Annotated[Int64, Wire("1+")] = -1
    leader_epoch: Annotated[Int32, Wire("4+")] = -1


class ListOffsetsTopicResponse(Struct):
    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = []


class ListOffsetsResponse(Struct):
    throttle_time_ms: Annotated[Int32, Wire("2+")] = 0
    topics: list[ListOffsetsTopicResponse] = []


class OffsetForLeaderPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, Wire("2+")] = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderTopic(Struct):
    topic: str = ""
    partitions: list[OffsetForLeaderPartition] = []


class OffsetForLeaderEpochRequest(Struct):
    replica_id: Annotated[Int32, Wire("3+")] = -2
    topics: list[OffsetForLeaderTopic] = []


class EpochEndOffset(Struct):
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Annotated[Int32, Wire("1+")] = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: str = ""
    partitions: list[EpochEndOffset] = []


class OffsetForLeaderEpochResponse(Struct):
    throttle_time_ms: Annotated[Int32, Wire("2+")] = 0
    topics: list[OffsetForLeaderTopicResult] = []
