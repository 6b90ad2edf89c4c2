"""The APIs that are spoken: key, messages, versions, and from which on they are flexible (KIP-482).

The versions are those of Apache Kafka 4.3, key by key, so that clients that infer the broker's
release from the table infer one that exists. Two are advertised from lower on than they are served:

    Produce from 0, served from 3: older librdkafka leaves batches uncompressed else (KAFKA-18659).
    JoinGroup from 0, served in all (KAFKA-19444).

Left out until they are built, their keys free: transactions (24 to 28, 65, 66), the next-generation
group protocol (68, 69), share groups (76 to 79, 90 to 92), ACLs (29 to 31), quotas (48, 49), SASL
(17, 36).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from protocol.kafka import (
    api_versions,
    cluster,
    configs,
    fetch,
    group_admin,
    group_membership,
    group_offsets,
    list_offsets,
    log_dirs,
    metadata,
    produce,
    producer_ids,
    topic_changes,
)
from protocol.kafka.message import NEWEST, Struct

__all__ = ["APIS", "Api", "ApiKey"]


class ApiKey(IntEnum):
    """What a request asks for."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75


class Api(NamedTuple):
    """One API in the versions that are served."""

    key: ApiKey
    request: type[Struct]
    response: type[Struct]
    first_version: int
    last_version: int
    flexible_from: int = NEWEST
    advertised_from: int | None = None
    """If it is not the first one that is served."""

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible_from

    def serves(self, version: int) -> bool:
        return self.first_version <= version <= self.last_version


_K = ApiKey
_TABLE: Final = (
    Api(_K.PRODUCE, produce.ProduceRequest, produce.ProduceResponse, 3, 13, 9, 0),
    Api(_K.FETCH, fetch.FetchRequest, fetch.FetchResponse, 4, 18, 12),
    Api(
        _K.LIST_OFFSETS, list_offsets.ListOffsetsRequest, list_offsets.ListOffsetsResponse,
        1, 11, 6,
    ),
    Api(_K.METADATA, metadata.MetadataRequest, metadata.MetadataResponse, 0, 13, 9),
    Api(
        _K.OFFSET_COMMIT, group_offsets.OffsetCommitRequest, group_offsets.OffsetCommitResponse,
        2, 10, 8,
    ),
    Api(
        _K.OFFSET_FETCH, group_offsets.OffsetFetchRequest, group_offsets.OffsetFetchResponse,
        1, 10, 6,
    ),
    Api(
        _K.FIND_COORDINATOR, group_membership.FindCoordinatorRequest,
        group_membership.FindCoordinatorResponse, 0, 6, 3,
    ),
    Api(
        _K.JOIN_GROUP, group_membership.JoinGroupRequest, group_membership.JoinGroupResponse,
        0, 9, 6,
    ),
    Api(
        _K.HEARTBEAT, group_membership.HeartbeatRequest, group_membership.HeartbeatResponse,
        0, 4, 4,
    ),
    Api(
        _K.LEAVE_GROUP, group_membership.LeaveGroupRequest, group_membership.LeaveGroupResponse,
        0, 5, 4,
    ),
    Api(
        _K.SYNC_GROUP, group_membership.SyncGroupRequest, group_membership.SyncGroupResponse,
        0, 5, 4,
    ),
    Api(
        _K.DESCRIBE_GROUPS, group_admin.DescribeGroupsRequest, group_admin.DescribeGroupsResponse,
        0, 6, 5,
    ),
    Api(_K.LIST_GROUPS, group_admin.ListGroupsRequest, group_admin.ListGroupsResponse, 0, 5, 3),
    Api(
        _K.API_VERSIONS, api_versions.ApiVersionsRequest, api_versions.ApiVersionsResponse,
        0, 4, 3,
    ),
    Api(
        _K.CREATE_TOPICS, topic_changes.CreateTopicsRequest, topic_changes.CreateTopicsResponse,
        2, 7, 5,
    ),
    Api(
        _K.DELETE_TOPICS, topic_changes.DeleteTopicsRequest, topic_changes.DeleteTopicsResponse,
        1, 6, 4,
    ),
    Api(
        _K.DELETE_RECORDS, topic_changes.DeleteRecordsRequest,
        topic_changes.DeleteRecordsResponse, 0, 2, 2,
    ),
    Api(
        _K.INIT_PRODUCER_ID, producer_ids.InitProducerIdRequest,
        producer_ids.InitProducerIdResponse, 0, 5, 2,
    ),
    Api(
        _K.OFFSET_FOR_LEADER_EPOCH, list_offsets.OffsetForLeaderEpochRequest,
        list_offsets.OffsetForLeaderEpochResponse, 2, 4, 4,
    ),
    Api(
        _K.DESCRIBE_CONFIGS, configs.DescribeConfigsRequest, configs.DescribeConfigsResponse,
        1, 4, 4,
    ),
    Api(_K.ALTER_CONFIGS, configs.AlterConfigsRequest, configs.AlterConfigsResponse, 0, 2, 2),
    Api(
        _K.DESCRIBE_LOG_DIRS, log_dirs.DescribeLogDirsRequest, log_dirs.DescribeLogDirsResponse,
        1, 5, 2,
    ),
    Api(
        _K.CREATE_PARTITIONS, topic_changes.CreatePartitionsRequest,
        topic_changes.CreatePartitionsResponse, 0, 3, 2,
    ),
    Api(
        _K.DELETE_GROUPS, group_admin.DeleteGroupsRequest, group_admin.DeleteGroupsResponse,
        0, 2, 2,
    ),
    Api(
        _K.INCREMENTAL_ALTER_CONFIGS, configs.IncrementalAlterConfigsRequest,
        configs.IncrementalAlterConfigsResponse, 0, 1, 1,
    ),
    Api(
        _K.OFFSET_DELETE, group_offsets.OffsetDeleteRequest, group_offsets.OffsetDeleteResponse,
        0, 0,
    ),
    Api(
        _K.DESCRIBE_CLUSTER, cluster.DescribeClusterRequest, cluster.DescribeClusterResponse,
        0, 2, 0,
    ),
    Api(
        _K.DESCRIBE_PRODUCERS, producer_ids.DescribeProducersRequest,
        producer_ids.DescribeProducersResponse, 0, 0, 0,
    ),
    Api(
        _K.LIST_CONFIG_RESOURCES, configs.ListConfigResourcesRequest,
        configs.ListConfigResourcesResponse, 0, 1, 0,
    ),
    Api(
        _K.DESCRIBE_TOPIC_PARTITIONS, cluster.DescribeTopicPartitionsRequest,
        cluster.DescribeTopicPartitionsResponse, 0, 0, 0,
    ),
)  # fmt: skip

APIS: Final = {api.key: api for api in _TABLE}
"""What there are messages for. What is advertised besides needs a handler."""
