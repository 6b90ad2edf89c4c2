"""ProducersHandler: DescribeProducers: which idempotent producers write to a partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from broker.kafka_api.call import Call
from broker.kafka_api.refusal import reason_of
from broker.network.answers import PendingResponse
from broker.steps import Steps
from protocol.errors import InvalidRequestError, TidelogError
from protocol.kafka.codec import encode_part
from protocol.kafka.message import Struct
from protocol.kafka.producer_ids import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi
    from broker.storage.producer import Producer

PRODUCERS_PER_STEP: Final = 500
"""Two or three microseconds each; a partition costs about as much as a producer."""
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
        """Describe and encode; at the end there is nothing left to do but join, be it megabytes."""
        encode: Callable[[Struct], Any] = partial(encode_part, call.api, call.version)
        response = DescribeProducersResponse()
        left_bytes = self._server.limits.fetch_response_bytes_max
        described = 0
        for topic in request.topics:
            result = TopicResponse(topic.name)
            for number in topic.partition_indexes:
                partition, producers = self._partition(topic.name, number, left_bytes, call)
                left_bytes -= PARTITION_BYTES + PRODUCER_BYTES * len(producers)
                for producer in producers:
                    partition.active_producers.append(encode(_state(producer)))
                    described += 1
                    if not described % PRODUCERS_PER_STEP:
                        yield None
                result.partitions.append(encode(partition))
                described += 1
                if not described % PRODUCERS_PER_STEP:
                    yield None
            response.topics.append(encode(result))
        return response

    def _partition(
        self, topic: str, number: int, left_bytes: int, call: Call
    ) -> tuple[PartitionResponse, Sequence[Producer]]:
        """Return the answer for a partition without its producers, and those as they are now."""
        partition = PartitionResponse(number)
        try:
            producers = self._manager.partition(topic, number).log.producers.producers
            if left_bytes < PARTITION_BYTES + PRODUCER_BYTES * len(producers):
                raise InvalidRequestError("the answer gets too large: ask for less")
        except TidelogError as error:
            partition.error_code = call.count_error(error.code)
            partition.error_message = reason_of(error)
            return partition, ()
        return partition, list(producers.values())


def _state(producer: Producer) -> ProducerState:
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.txn_first_offset,
    )
