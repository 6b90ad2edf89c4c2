"""ClusterHandler: DescribeCluster, and DescribeTopicPartitions: topics page by page (KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.kafka_api.authorized import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from broker.kafka_api.call import Call
from broker.kafka_api.metadata import NO_LEADER
from broker.network.answers import PendingResponse
from broker.steps import Steps
from protocol.error_codes import ErrorCode
from protocol.internal_topics import is_internal
from protocol.kafka.cluster import (
    Cursor,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from protocol.kafka.codec import encode_part
from protocol.stored.file_names import is_topic_name

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi
    from broker.partition import Partition

BROKERS, CONTROLLERS = 1, 2
"""Types of endpoints."""
PARTITIONS_PER_PAGE_MAX: Final = 2_000
"""Kafka's max.request.partition.size.limit."""
ENTRIES_PER_STEP: Final = 500
"""Topics and partitions: two microseconds each."""


class ClusterHandler:
    """Describes the cluster of one broker; one for all connections."""

    def __init__(self, server: KafkaApi) -> None:
        self._server, self._manager = server, server.manager

    def describe_cluster(
        self, request: DescribeClusterRequest, call: Call
    ) -> DescribeClusterResponse:
        """Handle a DescribeCluster."""
        if request.endpoint_type != BROKERS:
            is_known = request.endpoint_type == CONTROLLERS
            error, text = (
                (ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this listener is a broker's, no controller's")
                if is_known
                else (
                    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                    f"there are no endpoints of type {request.endpoint_type}",
                )
            )
            return DescribeClusterResponse(
                error_code=call.count_error(error),
                error_message=text,
                endpoint_type=BROKERS,
            )
        server = self._server
        host, port = server.advertised
        is_asked = request.include_cluster_authorized_operations
        return DescribeClusterResponse(
            endpoint_type=BROKERS,
            cluster_id=server.cluster_id,
            controller_id=server.node_id,
            brokers=[DescribeClusterBroker(server.node_id, host, port)],
            cluster_authorized_operations=CLUSTER_OPERATIONS if is_asked else NOT_ASKED,
        )

    # --- DescribeTopicPartitions ----------------------------------------------------------------

    def describe_topic_partitions(
        self, request: DescribeTopicPartitionsRequest, call: Call
    ) -> DescribeTopicPartitionsResponse | PendingResponse:
        """Handle a DescribeTopicPartitions: from the cursor on, by name, as many as fit a page."""
        cursor = request.cursor
        asked = {topic.name.encode() for topic in request.topics}
        if cursor is not None:
            is_listed = not asked or cursor.topic_name.encode() in asked
            if cursor.partition_index < 0 or not is_listed:
                return self._refused(request, call)
        limit = max(1, min(PARTITIONS_PER_PAGE_MAX, request.response_partition_limit))
        return call.answer(self._page(asked, cursor or Cursor(), limit, call))

    def _page(
        self, asked: set[bytes], start: Cursor, left: int, call: Call
    ) -> Steps[DescribeTopicPartitionsResponse]:
        """Describe the topics `asked` for, all there are if it is empty."""
        there = self._manager.partitions_by_topic
        start_name = start.topic_name.encode()
        response = DescribeTopicPartitionsResponse()
        described = 0
        for name in sorted(name for name in asked or there if name >= start_name):
            if described >= ENTRIES_PER_STEP:
                described = 0
                yield None
            if not asked and name not in there:
                continue  # deleted since the first step
            if not left:
                response.next_cursor = Cursor(name.decode(), 0)
                break
            first = start.partition_index if name == start_name else 0
            topic, following = self._topic(name, first, left)
            call.count_error(topic.error_code)
            described += 1 + len(topic.partitions)
            left -= len(topic.partitions)
            encoded: Any = encode_part(call.api, call.version, topic)
            response.topics.append(encoded)
            if following is not None:
                response.next_cursor = Cursor(name.decode(), following)
                break
        return response

    def _refused(
        self, request: DescribeTopicPartitionsRequest, call: Call
    ) -> DescribeTopicPartitionsResponse:
        """Answer a cursor that cannot be: there is no place for an error but at each topic."""
        error = ErrorCode.INVALID_REQUEST
        return DescribeTopicPartitionsResponse(
            topics=[
                DescribeTopicPartitionsResponseTopic(call.count_error(error), name)
                for name in sorted({topic.name for topic in request.topics})
            ]
        )

    def _topic(
        self, name: bytes, first: int, count_max: int
    ) -> tuple[DescribeTopicPartitionsResponseTopic, int | None]:
        """Describe partitions from number `first` on; return also which one follows, if any."""
        partitions, text = self._manager.partitions_by_topic.get(name), name.decode()
        if partitions is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            error = unknown if is_topic_name(text) else ErrorCode.INVALID_TOPIC
            return DescribeTopicPartitionsResponseTopic(
                error, text, is_internal=is_internal(name), topic_authorized_operations=NOT_ASKED
            ), None
        end = min(len(partitions), first + count_max)
        return DescribeTopicPartitionsResponseTopic(
            name=text,
            topic_id=self._manager.topic(text).topic_id.bytes,
            is_internal=is_internal(name),
            partitions=[self._partition(n, partitions[n]) for n in range(first, end)],
            topic_authorized_operations=TOPIC_OPERATIONS,
        ), end if end < len(partitions) else None

    def _partition(
        self, number: int, partition: Partition | None
    ) -> DescribeTopicPartitionsResponsePartition:
        replicas = [self._server.node_id]
        described = DescribeTopicPartitionsResponsePartition(
            partition_index=number,
            leader_id=self._server.node_id,
            replica_nodes=replicas,
            isr_nodes=replicas,
            eligible_leader_replicas=[],
            last_known_elr=[],
        )
        if partition is None or partition.log.is_closed:
            described.error_code = ErrorCode.LEADER_NOT_AVAILABLE
            described.leader_id = NO_LEADER
            described.offline_replicas = replicas
        else:
            described.leader_epoch = partition.log.leader_epoch
        return described
