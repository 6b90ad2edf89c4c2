"""Group answers: what a coordinator answers now or later, and what a client's address is to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.coordinator.group import CLIENT_ID_CHARS_MAX
from broker.network.answers import PendingResponse
from protocol.kafka.message import Struct

if TYPE_CHECKING:
    from broker.kafka_api.call import Call

__all__ = ["answer_when_told", "client_host", "client_name"]


def answer_when_told(
    call: Call, start: Callable[[Callable[[Any], None]], object], *, is_ordered: bool
) -> Struct | PendingResponse:
    """Return what `start` tells its argument; a pending answer if it does so later.

    A client that goes away meanwhile is not noticed: what it has begun goes on.

    Args:
        is_ordered: No further request of the connection is handled before.
    """
    told: list[Struct] = []
    pending: PendingResponse | None = None

    def tell(response: Struct) -> None:
        if pending is None:
            told.append(response)
        else:
            call.complete(pending, response)

    start(tell)
    if told:
        return told[0]
    pending = PendingResponse(pauses_reading=is_ordered)
    return pending


def client_name(call: Call) -> str:
    """Return the client's id, as long as it can be kept."""
    return (call.client_id or "")[:CLIENT_ID_CHARS_MAX]


def client_host(call: Call) -> str:
    """Return where a client is, written as Java writes addresses."""
    return "/" + call.connection.peer.rpartition(":")[0]
