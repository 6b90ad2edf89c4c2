"""MetadataHandler: Metadata: this broker, and topics with their partitions.

There is one broker: it leads every partition that it can use, and is the controller. An answer is
made in steps, and no larger than `limits.fetch_response_bytes_max`: topics beyond that answer
INVALID_REQUEST without partitions, so nobody takes them for topics that are not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from broker.kafka_api.authorized import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from broker.kafka_api.call import Call
from broker.network.answers import PendingResponse
from broker.steps import Steps
from protocol.error_codes import ErrorCode
from protocol.errors import TidelogError
from protocol.internal_topics import is_internal
from protocol.kafka.codec import encode_part
from protocol.kafka.message import NO_UUID, Struct
from protocol.kafka.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.stored.file_names import is_topic_name

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi
    from broker.partition import Partition

IDS_FROM_VERSION: Final = 12
"""From here on topics may be asked for by id; answers have ids from version 10 on."""
PARTITIONS_PER_STEP: Final = 1_000
"""Described in about half a millisecond; a topic costs about as much as a partition."""
TOPIC_BYTES: Final = 32
"""In the answer, beside its name: at most so much; with the next they bound its size."""
PARTITION_BYTES: Final = 36
NO_LEADER: Final = -1


class MetadataHandler:
    """Describes topics; one for all connections."""

    def __init__(self, server: KafkaApi) -> None:
        self._server, self._manager = server, server.manager
        self._replicas = [server.node_id]  # shared: nobody changes the lists of a message
        self._nobody: list[int] = []

    def metadata(self, request: MetadataRequest, call: Call) -> Struct | PendingResponse:
        """Handle a Metadata."""
        asked = request.topics
        if asked is None or (not asked and call.version == 0):
            return self._answer(None, {}, request, call)
        if call.version < IDS_FROM_VERSION and any(
            topic.name is None or topic.topic_id != NO_UUID for topic in asked
        ):
            return self._refused(asked, call)
        missing = self._to_be_created(asked) if request.allow_auto_topic_creation else []
        if not missing:
            return self._answer(asked, {}, request, call)
        return call.later(self._create_and_answer(missing, asked, request, call))

    def _refused(self, asked: Iterable[MetadataRequestTopic], call: Call) -> MetadataResponse:
        """Answer a request for ids in a version that has none."""
        error = ErrorCode.INVALID_REQUEST
        response = self._response(call)
        response.error_code = error
        for topic in asked:
            response.topics.append(
                MetadataResponseTopic(call.count_error(error), topic.name or "", topic.topic_id)
            )
        return response

    # --- creating -------------------------------------------------------------------------------

    def _to_be_created(self, asked: Iterable[MetadataRequestTopic]) -> list[str]:
        can_create = self._manager.can_auto_create
        names = dict.fromkeys(
            topic.name for topic in asked if topic.name is not None and topic.topic_id == NO_UUID
        )
        return [name for name in names if name.isascii() and can_create(name.encode("ascii"))]

    async def _create_and_answer(
        self,
        names: Iterable[str],
        asked: Sequence[MetadataRequestTopic],
        request: MetadataRequest,
        call: Call,
    ) -> Struct:
        """Make topics with the defaults; then answer, those that could not be made with why."""
        failures: dict[bytes, int] = {}
        for name in names:
            try:
                await self._manager.ensure_topic(name)
            except TidelogError as error:
                failures[name.encode("ascii")] = error.code
        steps = self._describe(asked, failures, request, call)
        response: Struct = await self._server.runner.finish(steps, None)
        return response

    # --- describing -----------------------------------------------------------------------------

    def _answer(
        self,
        asked: Sequence[MetadataRequestTopic] | None,
        failures: dict[bytes, int],
        request: MetadataRequest,
        call: Call,
    ) -> Struct | PendingResponse:
        answer: Struct | PendingResponse = call.answer(
            self._describe(asked, failures, request, call)
        )
        return answer

    def _describe(
        self,
        asked: Sequence[MetadataRequestTopic] | None,
        failures: dict[bytes, int],
        request: MetadataRequest,
        call: Call,
    ) -> Steps[MetadataResponse]:
        """Describe topics; all there are if `asked` is None."""
        response = self._response(call)
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
        by_topic, by_id = self._manager.partitions_by_topic, self._manager.topic_names_by_id
        named = [(NO_UUID, name) for name in by_topic] if asked is None else _named(asked)
        left_bytes = self._server.limits.fetch_response_bytes_max
        described = 0
        for topic_id, asked_name in named:
            if described >= PARTITIONS_PER_STEP:
                described = 0
                yield None
            described += 1
            name = by_id.get(topic_id) if topic_id != NO_UUID else asked_name
            partitions = None if name is None else by_topic.get(name)
            if name is None or partitions is None:
                if asked is None:
                    continue  # deleted since the first step
                topic = _unknown(topic_id, name, failures)
            else:
                count = len(partitions)
                left_bytes -= TOPIC_BYTES + len(name) + PARTITION_BYTES * count
                topic = self._topic(name, partitions if left_bytes >= 0 else None)
                described += count
            topic.topic_authorized_operations = operations
            call.count_error(topic.error_code)
            # At the end there is nothing left to do but join: the answer may be megabytes.
            encoded: Any = encode_part(call.api, call.version, topic)
            response.topics.append(encoded)
        return response

    def _response(self, call: Call) -> MetadataResponse:
        server = self._server
        host, port = server.advertised
        return MetadataResponse(
            brokers=[MetadataResponseBroker(server.node_id, host, port)],
            cluster_id=server.cluster_id,
            controller_id=server.node_id,
        )

    def _topic(
        self, name: bytes, partitions: Sequence[Partition | None] | None
    ) -> MetadataResponseTopic:
        """Describe a topic; `partitions` is None if they do not fit into the answer."""
        text = name.decode("ascii")
        topic_id = self._manager.topic(text).topic_id.bytes
        if partitions is None:
            return MetadataResponseTopic(
                ErrorCode.INVALID_REQUEST, text, topic_id, is_internal(name)
            )
        node_id, replicas, nobody = self._server.node_id, self._replicas, self._nobody
        described = [
            MetadataResponsePartition(
                0, number, node_id, partition.log.leader_epoch, replicas, replicas, nobody
            )
            if partition is not None and not partition.log.is_closed
            else MetadataResponsePartition(
                ErrorCode.LEADER_NOT_AVAILABLE, number, NO_LEADER, -1, replicas, nobody, replicas
            )
            for number, partition in enumerate(partitions)
        ]
        return MetadataResponseTopic(0, text, topic_id, is_internal(name), described)


def _named(asked: Iterable[MetadataRequestTopic]) -> list[tuple[bytes, bytes]]:
    """Return topic id, or none, and name of each topic that is asked for, once."""
    return list(
        dict.fromkeys(
            (topic.topic_id, b"" if topic.topic_id != NO_UUID else (topic.name or "").encode())
            for topic in asked
        )
    )


def _unknown(
    topic_id: bytes, name: bytes | None, failures: dict[bytes, int]
) -> MetadataResponseTopic:
    if name is None:
        return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
    text = name.decode("utf-8")
    error: int = failures.get(name, 0) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not is_topic_name(text):
        error = ErrorCode.INVALID_TOPIC
    return MetadataResponseTopic(error, text, topic_id, is_internal(name))
