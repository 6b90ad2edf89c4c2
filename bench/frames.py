"""Frames of the native protocol, built before the clock starts."""

from __future__ import annotations

import random
import struct
import time
from typing import Final

from protocol.native.request_types import RequestType
from protocol.record_batch_builder import build_value_batch
from protocol.simple_message_set import build_set

TOPIC: Final = "bench"
TIMESTAMP_MS: Final = time.time_ns() // 1_000_000
"""Now: retention would delete what is older than a week in the middle of a run."""
FETCH_BYTES: Final = 1024 * 1024 + 4096
PRODUCE_ANSWER_BYTES: Final = 26


def values(count: int, size_bytes: int) -> list[bytes]:
    """Return seeded random bytes: nothing that a checksum or a page cache could shorten."""
    generator = random.Random(7)
    return [generator.randbytes(size_bytes) for _ in range(count)]


def produce(
    message_set: bytes | bytearray, *, format: int = 2, acks: int = 1, topic: str = TOPIC
) -> bytes:
    name = topic.encode()
    body = struct.pack(">hh", RequestType.PRODUCE, len(name)) + name
    body += struct.pack(">ihibi", 0, acks, 30_000, format, len(message_set)) + message_set
    return struct.pack(">i", len(body)) + body


def batch(count: int, size_bytes: int) -> bytes:
    """Return one format 2 batch of `count` values."""
    return bytes(build_value_batch(values(count, size_bytes), TIMESTAMP_MS))


def simple_set(count: int, size_bytes: int, format: int) -> bytes:
    return bytes(build_set(values(count, size_bytes), format=format))


def fetch(
    offset: int, *, max_bytes: int = FETCH_BYTES, format: int = 2, topic: str = TOPIC
) -> bytes:
    name = topic.encode()
    body = struct.pack(">hh", RequestType.FETCH, len(name)) + name
    body += struct.pack(">iqiiib", 0, offset, max_bytes, 0, 0, format)
    return struct.pack(">i", len(body)) + body


def create_topic(partitions: int = 1, topic: str = TOPIC, **settings: str) -> bytes:
    def str16(text: str) -> bytes:
        return struct.pack(">h", len(text)) + text.encode()

    body = struct.pack(">h", RequestType.CREATE_TOPIC) + str16(topic)
    body += struct.pack(">ih", partitions, len(settings))
    body += b"".join(str16(key) + str16(value) for key, value in settings.items())
    return struct.pack(">i", len(body)) + body
