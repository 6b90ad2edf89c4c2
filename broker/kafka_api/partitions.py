"""PartitionsHandler: CreatePartitions, and DeleteRecords.

Both answer when what they did is durable, and no later request of the client overtakes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from broker.kafka_api.assignments import check_assignments
from broker.kafka_api.call import Call
from broker.kafka_api.changes import Change, carry_out, in_turns
from broker.kafka_api.refusal import (
    InvalidReplicaAssignmentError,
    PolicyViolationError,
    reason_of,
)
from broker.network.answers import PendingResponse
from protocol.errors import (
    InvalidRequestError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    StorageError,
    TidelogError,
)
from protocol.kafka.topic_changes import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi
    from broker.partition import Partition

UP_TO_HIGH_WATERMARK: Final = -1
UNKNOWN: Final = -1

_log = structlog.get_logger("tidelog.kafka")


class PartitionsHandler:
    """Gives topics more partitions, and deletes records; one for all connections."""

    def __init__(self, server: KafkaApi) -> None:
        self._server, self._manager = server, server.manager

    # --- CreatePartitions -----------------------------------------------------------------------

    def create_partitions(self, request: CreatePartitionsRequest, call: Call) -> PendingResponse:
        """Handle a CreatePartitions."""
        return call.later(self._create_partitions(request, call))

    async def _create_partitions(
        self, request: CreatePartitionsRequest, call: Call
    ) -> CreatePartitionsResponse:
        times = Counter(topic.name for topic in request.topics)
        response = CreatePartitionsResponse()
        changes: list[Change] = []
        results: list[CreatePartitionsTopicResult] = []
        async for topic in in_turns({each.name: each for each in request.topics}.values()):
            result = CreatePartitionsTopicResult(topic.name)
            response.results.append(result)
            try:
                if times[topic.name] > 1:
                    raise InvalidRequestError("the topic is named twice")
                self._check(topic)
            except TidelogError as error:
                _fail(result, error, call)
                continue
            if not request.validate_only:
                changes.append(partial(self._grow, result, topic.count, call))
                results.append(result)
        if not changes:
            return response
        return await self._carry_out(changes, results, response, request.timeout_ms, call)

    def _check(self, topic: CreatePartitionsTopic) -> None:
        """Check what can be checked before.

        Raises:
            InvalidTopicError, UnknownTopicOrPartitionError, InvalidPartitionsError: as
                `TopicGrowth.check`.
            InvalidReplicaAssignmentError: the assignments do not fit.
        """
        count = self._manager.growth.check(topic.name, topic.count)
        if topic.assignments is None:
            return
        added, given = topic.count - count, len(topic.assignments)
        if given != added:
            text = f"{added} partitions would be added, but {given} are assigned"
            raise InvalidReplicaAssignmentError(text)
        brokers = [each.broker_ids for each in topic.assignments]
        check_assignments(range(given), brokers, self._server.node_id)

    async def _grow(self, result: CreatePartitionsTopicResult, count: int, call: Call) -> None:
        try:
            await self._manager.growth.grow(result.name, count)
        except TidelogError as error:
            _fail(result, error, call)

    async def _carry_out(
        self,
        changes: Sequence[Change],
        results: Sequence[CreatePartitionsTopicResult],
        response: CreatePartitionsResponse,
        timeout_ms: int,
        call: Call,
    ) -> CreatePartitionsResponse:
        done = await carry_out(call, changes, timeout_ms)
        for result in results[done:]:
            _fail(result, RequestTimedOutError("it goes on, and may yet be done"), call)
        return response

    # --- DeleteRecords --------------------------------------------------------------------------

    def delete_records(self, request: DeleteRecordsRequest, call: Call) -> PendingResponse:
        """Handle a DeleteRecords: log starts move first, and are saved before the answer."""
        return call.later(self._delete_records(request, call))

    async def _delete_records(
        self, request: DeleteRecordsRequest, call: Call
    ) -> DeleteRecordsResponse:
        response = DeleteRecordsResponse()
        response.topics = [DeleteRecordsTopicResult(topic.name) for topic in request.topics]
        asked = [
            (answer, entry)
            for topic, answer in zip(request.topics, response.topics, strict=True)
            for entry in topic.partitions
        ]
        moved: list[tuple[Partition, DeleteRecordsPartitionResult]] = []
        async for answer, entry in in_turns(asked):
            result = DeleteRecordsPartitionResult(entry.partition_index, UNKNOWN)
            answer.partitions.append(result)
            try:
                partition = self._move_log_start(answer.name, entry.partition_index, entry.offset)
            except TidelogError as error:
                result.error_code = call.count_error(error.code)
            else:
                moved.append((partition, result))
        if not moved:
            return response
        return await self._save(moved, response, request.timeout_ms, call)

    def _move_log_start(self, topic: str, number: int, offset: int) -> Partition:
        """Move a log start to `offset`, if it is not above; return the partition.

        Raises:
            InvalidTopicError: an internal topic, or a name that no topic may have.
            UnknownTopicOrPartitionError, StorageError: no such partition; it cannot be used.
            PolicyViolationError: the topic is compacted only.
            OffsetOutOfRangeError: above the high watermark.
        """
        partition = self._manager.writable_partition(topic.encode("utf-8"), number)
        log = partition.log
        policy = log.config.cleanup_policy
        if policy.compacts and not policy.deletes:
            raise PolicyViolationError("the topic is compacted, its records are not deleted")
        if offset == UP_TO_HIGH_WATERMARK:
            offset = log.high_watermark
        elif offset < 0:
            raise OffsetOutOfRangeError(offset, log.log_start_offset, log.high_watermark)
        log.advance_log_start(offset)
        return partition

    async def _save(
        self,
        moved: Sequence[tuple[Partition, DeleteRecordsPartitionResult]],
        response: DeleteRecordsResponse,
        timeout_ms: int,
        call: Call,
    ) -> DeleteRecordsResponse:
        """Answer when the log starts, as they are now, will outlive a crash."""
        starts = [partition.log.log_start_offset for partition, _ in moved]
        failures: list[TidelogError] = []

        async def save() -> None:
            try:
                await self._manager.save_log_starts([partition for partition, _ in moved])
            except StorageError as error:
                failures.append(error)
                return
            for (partition, _), start in zip(moved, starts, strict=True):
                name = f"{partition.topic}-{partition.number}"
                _log.info("records deleted", partition=name, log_start_offset=start)

        if not await carry_out(call, [save], timeout_ms):
            failures.append(RequestTimedOutError())
        for (_, result), start in zip(moved, starts, strict=True):
            if failures:
                result.error_code = call.count_error(failures[0].code)
            else:
                result.low_watermark = start
        return response


def _fail(result: CreatePartitionsTopicResult, error: TidelogError, call: Call) -> None:
    result.error_code = call.count_error(error.code)
    result.error_message = reason_of(error)
