"""Call: one request of the Kafka protocol, and how it is answered, now or later."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from broker.network.answers import Parts, PendingResponse
from broker.steps import Steps
from protocol.kafka.apis import Api
from protocol.kafka.codec import encode_response
from protocol.kafka.message import Struct

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi
    from broker.metrics import RequestMetrics
    from broker.network.connection import Connection


Message = TypeVar("Message", bound=Struct)


class Call(msgspec.Struct):
    """What a handler knows of a request beside its message."""

    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    connection: Connection
    metrics: RequestMetrics
    started_s: float
    server: KafkaApi

    def encode(self, response: Struct) -> Parts:
        """Return the answer's bytes."""
        parts = encode_response(self.api, self.version, self.correlation_id, response)
        return parts if len(parts) > 1 else bytes(parts[0])

    def count_error(self, error_code: int) -> int:
        """Count an error that an answer names; return it."""
        if error_code:
            self.metrics.errors[error_code] += 1
        return error_code

    def complete(self, pending: PendingResponse, response: Struct) -> None:
        """Answer what was left pending, and take the time that it took."""
        self.complete_encoded(pending, self.encode(response))

    def complete_encoded(self, pending: PendingResponse, answer: Parts) -> None:
        """As `complete`, with the answer's bytes."""
        self.metrics.latency.observe(self.server.monotonic() - self.started_s)
        pending.complete(answer)

    def answer(self, steps: Steps[Message]) -> Message | PendingResponse:
        """Answer with the message that `steps` return: at once if the first one ends them.

        Else pending; when the connection is lost they are not gone on with: for reading only.
        """
        try:
            job = next(steps)
        except StopIteration as stop:
            message: Message = stop.value
            return message
        pending = PendingResponse(pauses_reading=True)

        async def finish() -> None:
            self.complete(pending, await self.server.runner.finish(steps, job))

        task = self.server.runner.spawn(finish(), self.connection)

        def abandon() -> None:
            task.cancel()

        pending.on_abandoned = abandon
        return pending

    def later(
        self, work: Coroutine[Any, Any, Struct], *, is_ordered: bool = True
    ) -> PendingResponse:
        """Answer with what `work` returns; it goes on when the client is gone.

        Args:
            is_ordered: No further request of the connection is handled before.
        """
        pending = PendingResponse(pauses_reading=is_ordered)

        async def answer() -> None:
            self.complete(pending, await work)

        self.server.runner.spawn(answer(), self.connection)
        return pending
