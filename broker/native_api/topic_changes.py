"""TopicChangesHandler: CREATE_TOPIC, ALTER_TOPIC, DELETE_TOPIC and DELETE_RECORDS.

All of them answer when what they did is durable; no later request of the client overtakes them.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from broker.network.answers import Answer, PendingResponse
from protocol.errors import (
    InvalidConfigError,
    InvalidRequestError,
    InvalidTopicError,
    OffsetOutOfRangeError,
    StorageError,
    TidelogError,
    UnknownTopicOrPartitionError,
)
from protocol.native.request_types import RequestType
from protocol.native.requests import decode_create_topic, decode_delete_topic
from protocol.native.responses import encode_status_response
from protocol.native.topic_changes import (
    UP_TO_HIGH_WATERMARK,
    decode_alter_topic,
    decode_delete_records,
    encode_delete_records_response,
)
from protocol.stored.file_names import check_topic_name

if TYPE_CHECKING:
    from broker.metrics import RequestMetrics
    from broker.native_api.native_api import NativeApi
    from broker.network.connection import Connection
    from broker.partition import Partition

_log = structlog.get_logger("tidelog.native")


class TopicChangesHandler:
    """Makes, changes and deletes topics, and deletes records; one for all connections."""

    __slots__ = (
        "_alter_metrics",
        "_create_metrics",
        "_delete_metrics",
        "_delete_records_metrics",
        "_manager",
        "_monotonic",
        "_request_entries_max",
        "_runner",
    )

    def __init__(self, api: NativeApi) -> None:
        self._manager, self._runner = api.manager, api.runner
        self._monotonic = api.monotonic
        self._request_entries_max = api.limits.request_entries_max
        self._create_metrics = api.metrics_of(RequestType.CREATE_TOPIC)
        self._alter_metrics = api.metrics_of(RequestType.ALTER_TOPIC)
        self._delete_metrics = api.metrics_of(RequestType.DELETE_TOPIC)
        self._delete_records_metrics = api.metrics_of(RequestType.DELETE_RECORDS)

    # --- CREATE_TOPIC, ALTER_TOPIC, DELETE_TOPIC ------------------------------------------------

    def create_topic(self, frame: memoryview, connection: Connection) -> Answer:
        """Handle a CREATE_TOPIC."""
        topic, partition_count, settings = decode_create_topic(frame)
        work = self._create(topic, partition_count, settings)
        return self._later(work, self._create_metrics, connection)

    def alter_topic(self, frame: memoryview, connection: Connection) -> Answer:
        """Handle an ALTER_TOPIC."""
        topic, settings = decode_alter_topic(frame)
        return self._later(self._alter(topic, settings), self._alter_metrics, connection)

    def delete_topic(self, frame: memoryview, connection: Connection) -> Answer:
        """Handle a DELETE_TOPIC."""
        topic = decode_delete_topic(frame)
        return self._later(self._delete(topic), self._delete_metrics, connection)

    async def _create(
        self, topic: bytes, partition_count: int, settings: Sequence[tuple[str, str]]
    ) -> None:
        by_name = _by_name(settings)
        await self._manager.create_topic(check_topic_name(topic), partition_count, by_name)

    async def _alter(self, topic: bytes, settings: Sequence[tuple[str, str]]) -> None:
        changes = {name: text.strip() or None for name, text in _by_name(settings).items()}
        await self._manager.alter_topic(check_topic_name(topic), changes)

    async def _delete(self, topic: bytes) -> None:
        await self._manager.delete_topic(check_topic_name(topic))

    def _later(
        self, work: Coroutine[Any, Any, None], metrics: RequestMetrics, connection: Connection
    ) -> PendingResponse:
        """Answer with the status of `work`."""
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

    # --- DELETE_RECORDS -------------------------------------------------------------------------

    def delete_records(self, frame: memoryview, connection: Connection) -> Answer:
        """Handle a DELETE_RECORDS."""
        try:
            topic, entries = decode_delete_records(frame, self._request_entries_max)
            self._manager.check_writable(topic)
        except (InvalidRequestError, InvalidTopicError, UnknownTopicOrPartitionError) as error:
            self._delete_records_metrics.errors[error.code] += 1
            return encode_delete_records_response(error.code)
        moved: list[Partition | None] = []
        results: list[tuple[int, int, int]] = []
        for number, offset in entries:
            partition, error_code = self._move_log_start(topic, number, offset)
            moved.append(partition)
            results.append((number, error_code, -1))
        if not any(moved):
            return encode_delete_records_response(0, results)
        pending = PendingResponse(pauses_reading=True)
        self._runner.spawn(self._answer_when_saved(moved, results, pending), connection)
        return pending

    def _move_log_start(
        self, topic: bytes, number: int, offset: int
    ) -> tuple[Partition | None, int]:
        """Return the partition whose log start is at or above `offset` now, and an error code."""
        try:
            partition = self._manager.writable_partition(topic, number)
            log = partition.log
            if offset == UP_TO_HIGH_WATERMARK:
                offset = log.high_watermark
            elif offset < 0:
                raise OffsetOutOfRangeError(offset, log.log_start_offset, log.high_watermark)
            log.advance_log_start(offset)
        except TidelogError as error:
            self._delete_records_metrics.errors[error.code] += 1
            return None, error.code
        return partition, 0

    async def _answer_when_saved(
        self,
        moved: Sequence[Partition | None],
        results: Sequence[tuple[int, int, int]],
        pending: PendingResponse,
    ) -> None:
        """Answer when the log starts, as they are now, will outlive a crash."""
        started_s = self._monotonic()
        starts = [-1 if each is None else each.log.log_start_offset for each in moved]
        metrics, error_code = self._delete_records_metrics, 0
        try:
            await self._manager.save_log_starts([each for each in moved if each is not None])
            self._tell(moved, starts)
        except StorageError as error:
            error_code = error.code
            metrics.errors[error_code] += sum(start >= 0 for start in starts)
        answers = [
            (number, error_code, -1) if error_code and start >= 0 else (number, error, start)
            for (number, error, _), start in zip(results, starts, strict=True)
        ]
        metrics.latency.observe(self._monotonic() - started_s)
        pending.complete(encode_delete_records_response(0, answers))

    def _tell(self, moved: Sequence[Partition | None], starts: Sequence[int]) -> None:
        """Log what cannot be undone."""
        for partition, start in zip(moved, starts, strict=True):
            if partition is not None:
                name = f"{partition.topic}-{partition.number}"
                _log.info("records deleted", partition=name, log_start_offset=start)


def _by_name(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    by_name = dict(settings)
    if len(by_name) != len(settings):
        raise InvalidConfigError("a setting is given twice")
    return by_name
