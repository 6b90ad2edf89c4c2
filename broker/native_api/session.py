"""NativeSession: the native protocol on one connection: each frame to the handler of its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from broker.metrics import LATENCY_BOUNDS_SECONDS, RequestMetrics
from broker.network.answers import Answer, PendingResponse
from protocol.errors import FrameError

if TYPE_CHECKING:
    from broker.network.connection import Connection

Handlers: TypeAlias = (
    "Mapping[int, tuple[Callable[[memoryview, Connection], Answer], RequestMetrics]]"
)

_SHORT_S = LATENCY_BOUNDS_SECONDS[0]


class NativeSession:
    """A `FrameHandler`."""

    __slots__ = ("_handlers", "_monotonic")

    def __init__(self, handlers: Handlers, monotonic: Callable[[], float]) -> None:
        self._handlers, self._monotonic = handlers, monotonic

    def handle_frame(self, frame: memoryview, connection: Connection) -> Answer:
        """Handle one request.

        Raises:
            FrameError: an unknown type, or a body that its fields do not fill exactly.
        """
        request_type = frame[0] << 8 | frame[1]
        found = self._handlers.get(request_type)
        if found is None:
            raise FrameError(f"there is no request type {request_type}")
        handle, metrics = found
        metrics.count += 1
        monotonic = self._monotonic
        started_s = monotonic()
        answer = handle(frame, connection)
        if answer.__class__ is not PendingResponse:  # else whoever completes it takes the time
            elapsed_s = monotonic() - started_s
            latency = metrics.latency
            if elapsed_s <= _SHORT_S:  # `observe`, without the call and the search
                latency.bucket_counts[0] += 1
                latency.count += 1
                latency.seconds_sum += elapsed_s
            else:
                latency.observe(elapsed_s)
        return answer
