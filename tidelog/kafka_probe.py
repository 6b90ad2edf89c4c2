"""KafkaProbe: asks a broker over the Kafka protocol what it tells its clients."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Any, Final

from protocol.errors import FrameError
from protocol.kafka.api_versions import ApiVersionsRequest
from protocol.kafka.apis import APIS, ApiKey
from protocol.kafka.codec import decode_response, encode_request
from protocol.kafka.message import Struct
from protocol.kafka.metadata import MetadataRequest, MetadataResponse

METADATA_VERSION: Final = 9
"""Brokers of the last years have it, and its answer is all that is needed here."""
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
NOT_KAFKA: Final = "what answers there does not speak the Kafka protocol"
CLOSED: Final = "the connection was closed without an answer: it may not be the Kafka port"


class KafkaProbe:
    """One connection, for a question or two; blocking, with a timeout.

    Raises:
        OSError: from making it and the questions: there is no connection, or it was lost.
    """

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except (UnicodeError, OverflowError) as error:  # no name that DNS could hold; no port
            raise OSError(f"{host}:{port} is no address") from error

    def __enter__(self) -> KafkaProbe:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._socket.close()

    @property
    def peer(self) -> str:
        """The address that was connected to."""
        return str(self._socket.getpeername()[0])

    def api_count(self) -> int:
        """Return how many APIs the broker speaks."""
        return len(self.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()).api_keys)

    def metadata(self) -> MetadataResponse:
        """Return what clients are told of the cluster, without its topics."""
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        answer: MetadataResponse = self.ask(ApiKey.METADATA, METADATA_VERSION, request)
        return answer

    def ask(self, key: ApiKey, version: int, request: Struct) -> Any:
        api = APIS[key]
        self._socket.sendall(encode_request(api, version, 1, "tidelog-doctor", request))
        (size,) = struct.unpack(">i", self._receive(4))
        if not 4 <= size <= ANSWER_BYTES_MAX:
            raise ConnectionError(NOT_KAFKA)
        try:
            _, answer = decode_response(api, version, memoryview(self._receive(size)))
        except FrameError as error:
            raise ConnectionError(NOT_KAFKA) from error
        return answer

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            piece = self._socket.recv(size - len(received))
            if not piece:
                raise ConnectionError(CLOSED)
            received += piece
        return bytes(received)
