"""NativeSession: the native protocol on one connection: each frame to the handler of its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from broker.metrics import LATENCY_BOUNDS_SECONDS, RequestMetrics
from broker.network.answers import Answer, HandledFrames, PendingResponse
from protocol.errors import FrameError

if TYPE_CHECKING:
    from broker.network.connection import Connection

Handle: TypeAlias = "Callable[[memoryview, Connection], Answer]"
HandleRun: TypeAlias = "Callable[[memoryview, int, int, int, Connection], HandledFrames | None]"
"""Handles the frames at a position that belong together, or none: `ProduceHandler.produce_run`."""
Handlers: TypeAlias = "Mapping[int, tuple[Handle, HandleRun | None, RequestMetrics]]"

_SHORT_S = LATENCY_BOUNDS_SECONDS[0]

KAFKA_API_VERSIONS = 18
"""What a client of the Kafka protocol asks first: API key 18."""
KAFKA_HINT = "; Kafka clients begin so: their port is listeners.kafka_port"


class NativeSession:
    """A `FrameHandler`."""

    __slots__ = ("_handlers", "_monotonic")

    def __init__(self, handlers: Handlers, monotonic: Callable[[], float]) -> None:
        self._handlers, self._monotonic = handlers, monotonic

    def handle_frames(
        self, frames: memoryview, start: int, frame_end: int, end: int, connection: Connection
    ) -> HandledFrames:
        """Handle one request, or a run of them.

        Raises:
            FrameError: an unknown type, or a body that its fields do not fill exactly.
        """
        request_type = frames[start] << 8 | frames[start + 1]
        found = self._handlers.get(request_type)
        if found is None:
            hint = KAFKA_HINT if request_type == KAFKA_API_VERSIONS else ""
            raise FrameError(f"there is no request type {request_type}{hint}")
        handle, handle_run, metrics = found
        monotonic = self._monotonic
        started_s = monotonic()
        handled = None
        if handle_run is not None and end > frame_end:
            handled = handle_run(frames, start, frame_end, end, connection)
        if handled is None:
            handled = handle(frames[start:frame_end], connection), 1, frame_end
        answer, count, _ = handled
        metrics.count += count
        if answer.__class__ is not PendingResponse:  # else whoever completes it takes the time
            elapsed_s = monotonic() - started_s
            latency = metrics.latency
            if elapsed_s <= _SHORT_S:  # `observe`, without the call and the search
                latency.bucket_counts[0] += count
                latency.count += count
                latency.seconds_sum += elapsed_s * count
            else:
                latency.observe(elapsed_s, count)
        return handled
