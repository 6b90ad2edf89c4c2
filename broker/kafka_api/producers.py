"""ProducersHandler: DescribeProducers: which idempotent producers write to a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.kafka_api.call import Call
from broker.kafka_api.refusal import reason_of
from broker.network.answers import PendingResponse
from broker.steps import Steps
from protocol.errors import InvalidRequestError, TidelogError
from protocol.kafka.producer_ids import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi
    from broker.storage.partition_log import PartitionLog

PRODUCERS_PER_STEP: Final = 1_000
"""About a microsecond each; a partition costs about as much as a producer."""
PRODUCER_BYTES: Final = 37
"""In an answer; with the next they tell its size before it is made."""
PARTITION_BYTES: Final = 16


class ProducersHandler:
    """Describes producers; one for all connections."""

    def __init__(self, server: KafkaApi) -> None:
        self._server, self._manager = server, server.manager

    def describe_producers(
        self, request: DescribeProducersRequest, call: Call
    ) -> DescribeProducersResponse | PendingResponse:
        """Handle a DescribeProducers."""
        return call.answer(self._describe(request, call))

    def _describe(
        self, request: DescribeProducersRequest, call: Call
    ) -> Steps[DescribeProducersResponse]:
        response = DescribeProducersResponse()
        left_bytes = self._server.limits.fetch_response_bytes_max
        described = 0
        for topic in request.topics:
            result = TopicResponse(topic.name)
            response.topics.append(result)
            for number in topic.partition_indexes:
                if described >= PRODUCERS_PER_STEP:
                    described = 0
                    yield None
                partition = PartitionResponse(number)
                result.partitions.append(partition)
                try:
                    log = self._manager.partition(topic.name, number).log
                    left_bytes -= PARTITION_BYTES + PRODUCER_BYTES * len(log.producers.producers)
                    if left_bytes < 0:
                        raise InvalidRequestError("the answer gets too large: ask for less")
                    partition.active_producers = _states(log)
                except TidelogError as error:
                    partition.error_code = call.count_error(error.code)
                    partition.error_message = reason_of(error)
                described += 1 + len(partition.active_producers)
        return response


def _states(log: PartitionLog) -> list[ProducerState]:
    return [
        ProducerState(
            producer_id=each.producer_id,
            producer_epoch=each.epoch,
            last_sequence=each.last_sequence,
            last_timestamp=each.last_timestamp,
            coordinator_epoch=each.coordinator_epoch,
            current_txn_start_offset=each.txn_first_offset,
        )
        for each in log.producers.producers.values()
    ]
