"""TopicsHandler: TOPICS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from broker.network.answers import Answer
from broker.steps import Steps
from protocol.error_codes import ErrorCode
from protocol.errors import InvalidRequestError
from protocol.native.request_types import RequestType
from protocol.native.requests import decode_topics
from protocol.native.responses import (
    PartitionDescription,
    TopicDescription,
    encode_topic,
    topics_response,
)

if TYPE_CHECKING:
    from broker.native_api.native_api import NativeApi
    from broker.network.connection import Connection
    from broker.partition import Partition

PARTITIONS_PER_STEP: Final = 500
"""Describing so many takes a millisecond or two; a topic costs about as much as a partition."""

TOPIC_BYTES: Final = 2 + 6
"""In the answer, beside its name; with the next they tell its size before it is made."""
PARTITION_BYTES: Final = 30


class TopicsHandler:
    """Describes topics; one for all connections."""

    __slots__ = (
        "_manager",
        "_request_entries_max",
        "_response_bytes_max",
        "_runner",
        "_topics_metrics",
    )

    def __init__(self, api: NativeApi) -> None:
        self._manager, self._runner = api.manager, api.runner
        self._response_bytes_max = api.limits.fetch_response_bytes_max
        self._request_entries_max = api.limits.request_entries_max
        self._topics_metrics = api.metrics_of(RequestType.TOPICS)

    def topics(self, frame: memoryview, connection: Connection) -> Answer:
        """Handle a TOPICS."""
        try:
            names = decode_topics(frame, self._request_entries_max)
        except InvalidRequestError as error:
            self._topics_metrics.errors[error.code] += 1
            return topics_response(error.code)
        names = names or list(self._manager.partitions_by_topic)
        return self._runner.answer(self._describe(names), self._topics_metrics, connection)

    def _describe(self, names: Sequence[bytes]) -> Steps[bytes]:
        topics: list[bytes] = []
        size_bytes = described = 0
        for name in names:
            partitions = self._manager.partitions_by_topic.get(name)
            count = 0 if partitions is None else len(partitions)
            size_bytes += TOPIC_BYTES + len(name) + PARTITION_BYTES * count
            if size_bytes > self._response_bytes_max:
                self._topics_metrics.errors[ErrorCode.INVALID_REQUEST] += 1
                return topics_response(ErrorCode.INVALID_REQUEST)
            topics.append(encode_topic(self._topic(name, partitions)))
            described += 1 + count
            if described >= PARTITIONS_PER_STEP:
                described = 0
                yield None
        return topics_response(0, topics)

    def _topic(
        self, name: bytes, partitions: Sequence[Partition | None] | None
    ) -> TopicDescription:
        if partitions is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self._topics_metrics.errors[error] += 1
            return TopicDescription(name, error, ())
        return TopicDescription(
            name, 0, [self._description(n, p) for n, p in enumerate(partitions)]
        )

    def _description(self, number: int, partition: Partition | None) -> PartitionDescription:
        if partition is None or partition.log.is_closed:
            error = ErrorCode.KAFKA_STORAGE_ERROR
            self._topics_metrics.errors[error] += 1
            return PartitionDescription(number, error, -1, -1, -1)
        log = partition.log
        return PartitionDescription(
            number, 0, log.log_start_offset, log.high_watermark, log.size_bytes
        )
