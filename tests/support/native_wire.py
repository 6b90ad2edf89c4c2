"""A connection that speaks the native protocol frame by frame: any format, any acks, pipelined."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

from protocol import simple_message_set
from protocol.compression import Codec
from protocol.identifiers import Buffer
from protocol.native import requests, responses
from protocol.native.responses import MessageSetSend, ProduceResponse
from protocol.record import Record
from protocol.record_batch import iterate_batches, iterate_records
from protocol.record_batch_builder import build_batch

TIMEOUT_S = 30.0


class NativeWire:
    """One connection to a broker."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_S)
        self._stream = self._socket.makefile("rb")

    def __enter__(self) -> NativeWire:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._socket.close()

    def send(self, *parts: Buffer) -> None:
        self._socket.sendall(b"".join(parts))

    def receive(self) -> bytes:
        """Return the next answer, without its length.

        Raises:
            ConnectionError: the broker is gone.
        """
        head = self._stream.read(4)
        if len(head) < 4:
            raise ConnectionResetError("no further answer")
        (size,) = struct.unpack(">i", head)
        body = self._stream.read(size)
        if len(body) < size:
            raise ConnectionResetError("half an answer")
        return body

    def send_produce(
        self, topic: str, partition: int, message_set: Buffer, *, format: int, acks: int = -1
    ) -> None:
        self.send(*requests.encode_produce(topic, partition, acks, 30_000, format, message_set))

    def receive_produced(self) -> ProduceResponse:
        return responses.decode_produce_response(self.receive())

    def produce(
        self, topic: str, partition: int, values: Sequence[bytes], *, format: int
    ) -> ProduceResponse:
        self.send_produce(topic, partition, message_set(values, format), format=format)
        return self.receive_produced()

    def fetch(
        self, topic: str, partition: int, offset: int, *, format: int, max_bytes: int = 1 << 20
    ) -> MessageSetSend:
        self.send(requests.encode_fetch(topic, partition, offset, max_bytes, 1, 0, format))
        return responses.decode_message_set_send(self.receive())

    def fetch_values(
        self, topic: str, partition: int, *, format: int, max_bytes: int = 1 << 20
    ) -> list[bytes]:
        """Fetch on and on from offset 0; every offset must follow the one before it."""
        values: list[bytes] = []
        while True:
            offset = len(values)
            send = self.fetch(topic, partition, offset, format=format, max_bytes=max_bytes)
            assert send.error == 0, send.error
            found = [one for one in messages_of(send.message_set, format) if one[0] >= offset]
            if not found:
                return values
            assert [one[0] for one in found] == list(range(offset, offset + len(found)))
            values += [value for _, value in found]


def message_set(values: Sequence[bytes], format: int, codec: Codec = Codec.NONE) -> bytes:
    """Return a set of the values in one of the three formats."""
    if format < 2:
        return simple_message_set.build_set(values, format=format, codec=codec)
    records = [Record(number, 0, None, value) for number, value in enumerate(values)]
    return build_batch(records, codec=codec)


def messages_of(data: Buffer, format: int) -> list[tuple[int, bytes]]:
    """Return (offset, value) of everything in a fetched set, a cut last batch left out."""
    if format < 2:
        return [
            (offset, bytes(value)) for offset, value in simple_message_set.iterate(data, format)
        ]
    return [
        (record.offset, record.value or b"")
        for position, _ in iterate_batches(data)
        for record in iterate_records(data, position)
    ]
