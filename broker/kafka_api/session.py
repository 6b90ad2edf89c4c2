"""KafkaSession: the Kafka protocol on one connection: each frame to the handler of its API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.kafka_api.call import Call
from broker.network.answers import HandledFrames, Parts, PendingResponse
from protocol.error_codes import ErrorCode
from protocol.errors import FrameError
from protocol.kafka.apis import ApiKey
from protocol.kafka.codec import decode_header, decode_request, encode_response
from protocol.kafka.message import Struct
from protocol.kafka.produce import ProduceRequest

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi
    from broker.network.connection import Connection


class KafkaSession:
    """A `FrameHandler`."""

    __slots__ = ("_server",)

    def __init__(self, server: KafkaApi) -> None:
        self._server = server

    def handle_frames(
        self, frames: memoryview, start: int, frame_end: int, end: int, connection: Connection
    ) -> HandledFrames:
        """Handle one request.

        Raises:
            FrameError: an API or a version that was not advertised, or a request that is cut.
        """
        server = self._server
        frame = frames[start:frame_end]
        header = decode_header(frame)
        found = server.handlers.get(header.api_key)
        if found is None:
            raise FrameError(f"there is no API {header.api_key} (from {header.client_id})")
        api, handle, metrics = found
        version, started_s = header.version, server.monotonic()
        metrics.count += 1
        call = Call(
            api, version, header.correlation_id, header.client_id, connection, metrics, started_s,
            server,
        )  # fmt: skip
        if not api.first_version <= version <= api.last_version:
            return self._refuse_version(call, frame, header.body_position), 1, frame_end
        answer = handle(decode_request(api, version, frame, header.body_position), call)
        if answer.__class__ is PendingResponse:
            return answer, 1, frame_end  # whoever completes it takes the time
        metrics.latency.observe(server.monotonic() - started_s)
        return (call.encode(answer) if isinstance(answer, Struct) else answer), 1, frame_end

    def _refuse_version(self, call: Call, frame: memoryview, body_position: int) -> Parts:
        """Answer where a client can make something of it; end the connection else.

        That is ApiVersions, in version 0 with the table (KIP-511); and Produce below its first
        version, which is advertised.
        """
        if call.api.key == ApiKey.API_VERSIONS:
            call.count_error(ErrorCode.UNSUPPORTED_VERSION)
            response = self._server.api_versions.response(ErrorCode.UNSUPPORTED_VERSION)
            return b"".join(encode_response(call.api, 0, call.correlation_id, response))
        if call.api.key == ApiKey.PRODUCE and 0 <= call.version < call.api.first_version:
            request: ProduceRequest = decode_request(call.api, call.version, frame, body_position)
            if request.acks:
                return call.encode(self._server.produce.refuse(request, call))
        raise FrameError(
            f"version {call.version} of {call.api.key.name} is not served (from {call.client_id})"
        )
