"""InitProducerIdHandler: InitProducerId, for idempotent producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.kafka_api.call import Call
from broker.network.answers import PendingResponse
from broker.producer_ids import ProducerIds
from protocol.error_codes import ErrorCode
from protocol.errors import TidelogError
from protocol.kafka.producer_ids import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi


class InitProducerIdHandler:
    """Gives producer ids out; one for all connections."""

    def __init__(self, server: KafkaApi) -> None:
        self._producer_ids = ProducerIds(server.manager.store, server.manager.largest_producer_id)

    def init_producer_id(
        self, request: InitProducerIdRequest, call: Call
    ) -> InitProducerIdResponse | PendingResponse:
        """Handle an InitProducerId.

        Without a transactional id each gets a new id in epoch 0, whatever it says it had (as in
        Kafka, KIP-360). Transactions are not there yet: error 35, which clients do not repeat.
        """
        if request.transactional_id is not None:
            error = call.count_error(ErrorCode.UNSUPPORTED_VERSION)
            return InitProducerIdResponse(error_code=error, producer_epoch=-1)
        return call.later(self._give(call))

    async def _give(self, call: Call) -> InitProducerIdResponse:
        try:
            producer_id = await self._producer_ids.take()
        except TidelogError as error:
            return InitProducerIdResponse(
                error_code=call.count_error(error.code), producer_epoch=-1
            )
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
