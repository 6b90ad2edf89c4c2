"""A server of the Kafka protocol that keeps nothing: about as much as a client can do with any.

What is produced is read from the socket and forgotten; what is fetched is one batch made
beforehand, again and again, whose base offset is set to what was asked for. Nothing is checked, and
nothing written. A topic has one partition, and records of the size behind the dash of its name.

Run as `python -m bench.kafka_floor READY_FILE`.
"""

from __future__ import annotations

import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

from bench import frames
from protocol.kafka import codec
from protocol.kafka.api_versions import ApiVersion, ApiVersionsResponse
from protocol.kafka.apis import APIS, ApiKey
from protocol.kafka.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.kafka.message import Struct
from protocol.kafka.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.kafka.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

LENGTH: Final = struct.Struct(">i")
BASE_OFFSET: Final = struct.Struct(">q")
RECEIVE_BYTES: Final = 1024 * 1024
HEAD_BYTES_MAX: Final = 16 * 1024
"""Of a frame so much is looked at; requests but for Produce are shorter."""
FETCH_BYTES: Final = 900_000
"""About what either server answers a client that asks for a megabyte of a partition."""
RECORD_OVERHEAD_BYTES: Final = 8
LAST_OFFSET: Final = 1 << 40

VERSIONS: Final = {
    ApiKey.PRODUCE: (3, 9), ApiKey.FETCH: (4, 12), ApiKey.METADATA: (1, 9),
    ApiKey.API_VERSIONS: (0, 3),
}  # fmt: skip
"""First and last of each that is answered."""


@cache
def _batch(topic: str) -> bytearray:
    """Return a batch of records of the size that a topic's name says."""
    size_bytes = int(topic.rpartition("-")[2])
    count = FETCH_BYTES // (size_bytes + RECORD_OVERHEAD_BYTES)
    return bytearray(frames.batch(count, size_bytes))


class Connection(threading.Thread):
    """Answers one client, request by request."""

    def __init__(self, client: socket.socket, port: int) -> None:
        super().__init__(daemon=True)
        self._client, self._port = client, port
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._head = bytearray(HEAD_BYTES_MAX)
        self._answers: dict[int, Callable[[Any], Struct]] = {
            ApiKey.API_VERSIONS: lambda request: ApiVersionsResponse(
                api_keys=[
                    ApiVersion(api_key=key, min_version=first, max_version=last)
                    for key, (first, last) in VERSIONS.items()
                ]
            ),
            ApiKey.METADATA: self._describe,
            ApiKey.FETCH: self._fetched,
        }

    def run(self) -> None:
        try:
            while True:
                self._client.sendmsg(self._answer(self._read_frame()))
        except (ConnectionError, EOFError):
            self._client.close()

    def _read_frame(self) -> memoryview:
        """Return the beginning of the next frame; the rest is read, too, and forgotten."""
        self._fill(memoryview(self._head)[:4])
        (left,) = LENGTH.unpack_from(self._head)
        head = memoryview(self._head)[: min(left, HEAD_BYTES_MAX)]
        self._fill(head)
        left -= len(head)
        while left:
            left -= self._received(self._buffer[:left])
        return head

    def _fill(self, view: memoryview) -> None:
        while view:
            view = view[self._received(view) :]

    def _received(self, view: memoryview) -> int:
        count = self._client.recv_into(view)
        if not count:
            raise EOFError
        return count

    def _answer(self, frame: memoryview) -> list[Any]:
        header = codec.decode_header(frame)
        api = APIS[ApiKey(header.api_key)]
        if header.api_key == ApiKey.PRODUCE:
            message: Struct = self._produced()
        else:
            request = codec.decode_request(api, header.version, frame, header.body_position)
            message = self._answers[header.api_key](request)
        return codec.encode_response(api, header.version, header.correlation_id, message)

    def _describe(self, request: Any) -> MetadataResponse:
        names = [each.name for each in request.topics or []]
        _topics.extend(names)
        node = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self._port)
        partition = MetadataResponsePartition(leader_id=1, replica_nodes=[1], isr_nodes=[1])
        topics = [MetadataResponseTopic(name=name, partitions=[partition]) for name in names]
        return MetadataResponse(brokers=[node], controller_id=1, topics=topics)

    def _produced(self) -> ProduceResponse:
        topic = TopicProduceResponse(
            name=_topics[-1], partition_responses=[PartitionProduceResponse()]
        )
        return ProduceResponse(responses=[topic])

    def _fetched(self, request: Any) -> FetchResponse:
        (topic,) = request.topics
        (asked,) = topic.partitions
        batch = _batch(topic.topic)
        BASE_OFFSET.pack_into(batch, 0, asked.fetch_offset)
        partition = PartitionData(
            high_watermark=LAST_OFFSET, last_stable_offset=LAST_OFFSET, records=memoryview(batch)
        )
        return FetchResponse(
            responses=[FetchableTopicResponse(topic=topic.topic, partitions=[partition])]
        )


_topics: list[str] = []
"""Those that were asked for; what is produced is for the last one: a frame is not looked into."""


def serve(ready: Path) -> None:
    """Serve until SIGTERM."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ready.write_text(str(port))
    while True:
        client, _ = listening.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        Connection(client, port).start()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
