"""A connection that speaks whole native frames and nothing more."""

import socket
import struct
import time

from protocol.native.requests import encode_fetch, encode_produce
from protocol.native.responses import decode_message_set_send, decode_produce_response
from protocol.record_batch import iterate_records
from protocol.record_batch_builder import build_batch

RECORD_BATCH = 2


class RawClient:
    """Blocking; every answer is awaited in turn."""

    def __init__(self, port, host="127.0.0.1"):
        self.socket = socket.create_connection((host, port), timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, request):
        """Send one encoded request: bytes, or parts."""
        parts = [request] if isinstance(request, bytes) else request
        self.socket.sendall(b"".join(bytes(part) for part in parts))

    def answer(self):
        """Return the next frame without its length; None when the broker has closed."""
        head = self._read(4)
        if head is None:
            return None
        return self._read(struct.unpack(">i", head)[0])

    def produce(self, topic, *values, acks=-1):
        """Append values to partition 0; return the answer."""
        self.send(produce_request(topic, *values, acks=acks))
        return decode_produce_response(self.answer())

    def fetch(self, topic, offset=0, *, max_wait_ms=0):
        """Return (error, values) of partition 0."""
        self.send(fetch_request(topic, offset, max_wait_ms=max_wait_ms))
        error, data = decode_message_set_send(self.answer())
        values, position = [], 0
        while len(data) - position > 12:
            end = position + 12 + struct.unpack_from(">i", data, position + 8)[0]
            if end > len(data):  # the last one may be cut
                break
            values += [record.value for record in iterate_records(data, position)]
            position = end
        return error, values

    def _read(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                return None
            data += piece
        return data


def produce_request(topic, *values, acks=-1):
    now_ms = time.time_ns() // 1_000_000  # retention would take older records away
    batch = build_batch([(number, now_ms, None, value) for number, value in enumerate(values)])
    return encode_produce(topic, 0, acks, 30_000, RECORD_BATCH, batch)


def fetch_request(topic, offset=0, *, max_wait_ms=0, max_bytes=1_000_000):
    return encode_fetch(topic, 0, offset, max_bytes, 1, max_wait_ms, RECORD_BATCH)
