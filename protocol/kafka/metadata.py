"""Metadata: brokers, topics and partitions as clients see them."""

from __future__ import annotations

from typing import Annotated

from protocol.kafka.message import NO_UUID, Int16, Int32, Struct, Uuid, Wire


class MetadataRequestTopic(Struct):
    topic_id: Annotated[Uuid, Wire("10+")] = NO_UUID
    name: Annotated[str | None, Wire(nullable="10+")] = ""


class MetadataRequest(Struct):
    topics: Annotated[list[MetadataRequestTopic] | None, Wire(nullable="1+")] = []
    allow_auto_topic_creation: Annotated[bool, Wire("4+")] = True
    include_cluster_authorized_operations: Annotated[bool, Wire("8-10")] = False
    include_topic_authorized_operations: Annotated[bool, Wire("8+")] = False


class MetadataResponseBroker(Struct):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, Wire("1+")] = None


class MetadataResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, Wire("7+")] = -1
    replica_nodes: list[Int32] = []
    isr_nodes: list[Int32] = []
    offline_replicas: Annotated[list[Int32], Wire("5+")] = []


class MetadataResponseTopic(Struct):
    error_code: Int16 = 0
    name: Annotated[str | None, Wire(nullable="12+")] = ""
    topic_id: Annotated[Uuid, Wire("10+")] = NO_UUID
    is_internal: Annotated[bool, Wire("1+")] = False
    partitions: list[MetadataResponsePartition] = []
    topic_authorized_operations: Annotated[Int32, Wire("8+")] = -2147483648


class MetadataResponse(Struct):
    throttle_time_ms: Annotated[Int32, Wire("3+")] = 0
    brokers: list[MetadataResponseBroker] = []
    cluster_id: Annotated[str | None, Wire("2+")] = None
    controller_id: Annotated[Int32, Wire("1+")] = -1
    topics: list[MetadataResponseTopic] = []
    cluster_authorized_operations: Annotated[Int32, Wire("8-10")] = -2147483648
    error_code: Annotated[Int16, Wire("13+")] = 0
