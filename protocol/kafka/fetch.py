"""Fetch: record batches from given offsets on, by topic and partition."""

from __future__ import annotations

from typing import Annotated

from protocol.kafka.message import NO_UUID, Int8, Int16, Int32, Int64, Records, Struct, Uuid, Wire


class ReplicaState(Struct):
    replica_id: Annotated[Int32, Wire("15+")] = -1
    replica_epoch: Annotated[Int64, Wire("15+")] = -1


class FetchPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, Wire("9+")] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, Wire("12+")] = -1
    log_start_offset: Annotated[Int64, Wire("5+")] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, Wire("17+", tag=0)] = NO_UUID
    high_watermark: Annotated[Int64, Wire("18+", tag=1)] = 9223372036854775807


class FetchTopic(Struct):
    topic: Annotated[str, Wire("0-12")] = ""
    topic_id: Annotated[Uuid, Wire("13+")] = NO_UUID
    partitions: list[FetchPartition] = []


class ForgottenTopic(Struct):
    topic: Annotated[str, Wire("7-12")] = ""
    topic_id: Annotated[Uuid, Wire("13+")] = NO_UUID
    partitions: Annotated[list[Int32], Wire("7+")] = []


class FetchRequest(Struct):
    cluster_id: Annotated[str | None, Wire("12+", tag=0)] = None
    replica_id: Annotated[Int32, Wire("0-14")] = -1
    replica_state: Annotated[ReplicaState | None, Wire("15+", tag=1)] = None
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Annotated[Int32, Wire("3+")] = 2147483647
    isolation_level: Annotated[Int8, Wire("4+")] = 0
    session_id: Annotated[Int32, Wire("7+")] = 0
    session_epoch: Annotated[Int32, Wire("7+")] = -1
    topics: list[FetchTopic] = []
    forgotten_topics_data: Annotated[list[ForgottenTopic], Wire("7+")] = []
    rack_id: Annotated[str, Wire("11+")] = ""


class EpochEndOffset(Struct):
    epoch: Annotated[Int32, Wire("12+")] = -1
    end_offset: Annotated[Int64, Wire("12+")] = -1


class LeaderIdAndEpoch(Struct):
    leader_id: Annotated[Int32, Wire("12+")] = -1
    leader_epoch: Annotated[Int32, Wire("12+")] = -1


class SnapshotId(Struct):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct):
    producer_id: Annotated[Int64, Wire("4+")] = 0
    first_offset: Annotated[Int64, Wire("4+")] = 0


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Annotated[Int64, Wire("4+")] = -1
    log_start_offset: Annotated[Int64, Wire("5+")] = -1
    diverging_epoch: Annotated[EpochEndOffset | None, Wire("12+", tag=0)] = None
    current_leader: Annotated[LeaderIdAndEpoch | None, Wire("12+", tag=1)] = None
    snapshot_id: Annotated[SnapshotId | None, Wire("12+", tag=2)] = None
    aborted_transactions: Annotated[list[AbortedTransaction] | None, Wire("4+")] = []
    preferred_read_replica: Annotated[Int32, Wire("11+")] = -1
    records: Records | None = None


class FetchableTopicResponse(Struct):
    topic: Annotated[str, Wire("0-12")] = ""
    topic_id: Annotated[Uuid, Wire("13+")] = NO_UUID
    partitions: list[PartitionData] = []


class NodeEndpoint(Struct):
    node_id: Annotated[Int32, Wire("16+")] = 0
    host: Annotated[str, Wire("16+")] = ""
    port: Annotated[Int32, Wire("16+")] = 0
    rack: Annotated[str | None, Wire("16+")] = None


class FetchResponse(Struct):
    throttle_time_ms: Annotated[Int32, Wire("1+")] = 0
    error_code: Annotated[Int16, Wire("7+")] = 0
    session_id: Annotated[Int32, Wire("7+")] = 0
    responses: list[FetchableTopicResponse] = []
    node_endpoints: Annotated[list[NodeEndpoint], Wire("16+", tag=0)] = []
