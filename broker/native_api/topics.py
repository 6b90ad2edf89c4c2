"""TopicsHandler: TOPICS, CREATE_TOPIC and DELETE_TOPIC."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from broker.network.answers import Answer, PendingResponse
from broker.steps import Steps
from protocol.error_codes import ErrorCode
from protocol.errors import InvalidConfigError, InvalidRequestError, TidelogError
from protocol.native.request_types import RequestType
from protocol.native.requests import decode_create_topic, decode_delete_topic, decode_topics
from protocol.native.responses import (
    PartitionDescription,
    TopicDescription,
    encode_status_response,
    encode_topic,
    topics_response,
)
from protocol.stored.file_names import check_topic_name

if TYPE_CHECKING:
    from broker.metrics import RequestMetrics
    from broker.native_api.native_api import NativeApi
    from broker.network.connection import Connection
    from broker.partition import Partition

PARTITIONS_PER_STEP: Final = 500
"""Describing so many takes a millisecond or two; a topic costs about as much as a partition."""

TOPIC_BYTES: Final = 2 + 6
"""In the answer, beside its name; with the next they tell its size before it is made."""
PARTITION_BYTES: Final = 30


class TopicsHandler:
    """Describes, makes and deletes topics; one for all connections."""

    __slots__ = (
        "_create_metrics",
        "_delete_metrics",
        "_manager",
        "_monotonic",
        "_request_entries_max",
        "_response_bytes_max",
        "_runner",
        "_topics_metrics",
    )

    def __init__(self, api: NativeApi) -> None:
        self._manager, self._runner = api.manager, api.runner
        self._monotonic = api.monotonic
        self._response_bytes_max = api.limits.fetch_response_bytes_max
        self._request_entries_max = api.limits.request_entries_max
        self._topics_metrics = api.metrics_of(RequestType.TOPICS)
        self._create_metrics = api.metrics_of(RequestType.CREATE_TOPIC)
        self._delete_metrics = api.metrics_of(RequestType.DELETE_TOPIC)

    # --- TOPICS ---------------------------------------------------------------------------------

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

    # --- CREATE_TOPIC, DELETE_TOPIC -------------------------------------------------------------

    def create_topic(self, frame: memoryview, connection: Connection) -> Answer:
        """Handle a CREATE_TOPIC."""
        topic, partition_count, settings = decode_create_topic(frame)
        work = self._create(topic, partition_count, settings)
        return self._later(work, self._create_metrics, connection)

    def delete_topic(self, frame: memoryview, connection: Connection) -> Answer:
        """Handle a DELETE_TOPIC."""
        topic = decode_delete_topic(frame)
        return self._later(self._delete(topic), self._delete_metrics, connection)

    async def _create(
        self, topic: bytes, partition_count: int, settings: Sequence[tuple[str, str]]
    ) -> None:
        by_name = dict(settings)
        if len(by_name) != len(settings):
            raise InvalidConfigError("a setting is given twice")
        await self._manager.create_topic(check_topic_name(topic), partition_count, by_name)

    async def _delete(self, topic: bytes) -> None:
        await self._manager.delete_topic(check_topic_name(topic))

    def _later(
        self, work: Coroutine[Any, Any, None], metrics: RequestMetrics, connection: Connection
    ) -> PendingResponse:
        """Answer with the status of `work`, which no later request of the client overtakes."""
        pending = PendingResponse(pauses_reading=True)
        self._runner.spawn(self._answer_status(work, metrics, pending), connection)
        return pending

    async def _answer_status(
        self, work: Coroutine[Any, Any, None], metrics: RequestMetrics, pending: PendingResponse
    ) -> None:
        started_s = self._monotonic()
        try:
            await work
        except TidelogError as error:
            metrics.errors[error.code] += 1
            answer = encode_status_response(error.code, str(error) or error.code.text)
        else:
            answer = encode_status_response(0)
        metrics.latency.observe(self._monotonic() - started_s)
        pending.complete(answer)
