"""ListOffsetsHandler: ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from broker.kafka_api.call import Call
from broker.network.answers import PendingResponse
from broker.steps import Steps
from protocol.error_codes import ErrorCode
from protocol.errors import TidelogError
from protocol.kafka.list_offsets import (
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi
    from broker.storage.partition_log import PartitionLog

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
SERVED_FROM: Final = {
    LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}  # fmt: skip
"""First version of ListOffsets that knows each of the times that mean a place."""
READ_COMMITTED: Final = 1
NO_EPOCH: Final = -1
PARTITIONS_PER_STEP: Final = 50
EPOCHS_PER_STEP: Final = 250
"""Where they end, a few microseconds each, is known without a look into files."""

Place = tuple[int, int, int]
"""Timestamp, offset, leader epoch; -1 where there is none."""
NOWHERE: Final[Place] = (-1, -1, NO_EPOCH)


class ListOffsetsHandler:
    """Looks offsets up; one for all connections."""

    def __init__(self, server: KafkaApi) -> None:
        self._manager = server.manager

    # --- ListOffsets ----------------------------------------------------------------------------

    def list_offsets(
        self, request: ListOffsetsRequest, call: Call
    ) -> ListOffsetsResponse | PendingResponse:
        """Handle a ListOffsets; a look-up by time may take several steps."""
        return call.answer(self._steps(request, call))

    def _steps(self, request: ListOffsetsRequest, call: Call) -> Steps[ListOffsetsResponse]:
        is_committed = request.isolation_level == READ_COMMITTED
        times = Counter(
            (topic.name, asked.partition_index)
            for topic in request.topics
            for asked in topic.partitions
        )
        topics = []
        count = 0
        for topic in request.topics:
            partitions = []
            for asked in topic.partitions:
                count += 1
                if not count % PARTITIONS_PER_STEP:
                    yield None
                if times[topic.name, asked.partition_index] > 1:
                    error = call.count_error(ErrorCode.INVALID_REQUEST)  # as Kafka: each of them
                    partitions.append(ListOffsetsPartitionResponse(asked.partition_index, error))
                    continue
                partitions.append(
                    (yield from self._partition(topic.name, asked, is_committed, call))
                )
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(topics=topics)

    def _partition(
        self, topic: str, asked: ListOffsetsPartition, is_committed: bool, call: Call
    ) -> Steps[ListOffsetsPartitionResponse]:
        index = asked.partition_index
        try:
            log = self._manager.partition(topic, index).log
            error = epoch_error(log, asked.current_leader_epoch)
            if asked.timestamp < 0 and SERVED_FROM.get(asked.timestamp, 99) > call.version:
                error = ErrorCode.UNSUPPORTED_VERSION
            place = NOWHERE
            if not error:
                end = log.last_stable_offset if is_committed else log.high_watermark
                place = yield from place_of(log, asked.timestamp, end)
        except TidelogError as problem:
            error, place = problem.code, NOWHERE
        timestamp, offset, epoch = place
        return ListOffsetsPartitionResponse(
            partition_index=index,
            error_code=call.count_error(error),
            timestamp=timestamp,
            offset=offset,
            leader_epoch=epoch,
        )

    # --- OffsetForLeaderEpoch -------------------------------------------------------------------

    def offset_for_leader_epoch(
        self, request: OffsetForLeaderEpochRequest, call: Call
    ) -> OffsetForLeaderEpochResponse | PendingResponse:
        """Handle an OffsetForLeaderEpoch: where an epoch ended (KIP-101, KIP-320)."""
        return call.answer(self._ends(request, call))

    def _ends(
        self, request: OffsetForLeaderEpochRequest, call: Call
    ) -> Steps[OffsetForLeaderEpochResponse]:
        response = OffsetForLeaderEpochResponse()
        count = 0
        for topic in request.topics:
            result = OffsetForLeaderTopicResult(topic.topic)
            response.topics.append(result)
            for asked in topic.partitions:
                count += 1
                if not count % EPOCHS_PER_STEP:
                    yield None
                result.partitions.append(self._end(topic.topic, asked, call))
        return response

    def _end(self, topic: str, asked: OffsetForLeaderPartition, call: Call) -> EpochEndOffset:
        epoch, end_offset = NO_EPOCH, -1
        try:
            log = self._manager.partition(topic, asked.partition).log
            error = epoch_error(log, asked.current_leader_epoch)
            if not error:
                epoch, end_offset = log.end_offset_for_epoch(asked.leader_epoch)
                end_offset = min(end_offset, log.high_watermark)
        except TidelogError as problem:
            error = problem.code
        return EpochEndOffset(
            error_code=call.count_error(error),
            partition=asked.partition,
            leader_epoch=epoch,
            end_offset=end_offset,
        )


def epoch_error(log: PartitionLog, epoch: int) -> ErrorCode:
    """Return what is wrong with the leader epoch that a client believes in; -1: it has none."""
    if epoch in (NO_EPOCH, log.leader_epoch):
        return ErrorCode.NONE
    older = epoch < log.leader_epoch
    return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH


def place_of(log: PartitionLog, timestamp: int, end: int) -> Steps[Place]:
    """Return what ListOffsets answers for a time, or a number that means a place.

    Without tiered storage the log starts locally, and nothing is tiered or about to be.

    Args:
        end: Clients see nothing from here on: the high watermark, or the last stable offset.

    Raises:
        TidelogError: the log cannot be read where it must be.
    """
    if timestamp == LATEST:
        return -1, end, log.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, _epoch_at(log, log.log_start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOWHERE
    if timestamp == MAX_TIMESTAMP:
        timestamp = yield from _largest_timestamp(log)
        if timestamp < 0:
            return NOWHERE
    found = yield from log.reader.timestamp_steps(timestamp)
    if found is None or found[1] >= end:
        return NOWHERE
    return *found, _epoch_at(log, found[1])


def _largest_timestamp(log: PartitionLog) -> Steps[int]:
    largest = -1
    for segment in tuple(log.segments):
        largest = max(largest, segment.largest_timestamp())
        yield None
    return largest


def _epoch_at(log: PartitionLog, offset: int) -> int:
    """Return the leader epoch that a record at an offset was written in."""
    below = [entry.epoch for entry in log.epochs.entries if entry.start_offset <= offset]
    return below[-1] if below else log.leader_epoch
