"""Record batches and legacy entries with true headers and made-up bodies: for code that walks."""

from __future__ import annotations

import struct
from typing import NamedTuple

BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
CODEC_GZIP = 1  # with a codec, the body need not have room for each record


class Entry(NamedTuple):
    """What was built, and what a walk should find."""

    data: bytes
    base_offset: int
    last_offset: int
    magic: int
    max_timestamp: int


def batch(base_offset: int, count: int = 1, body: bytes = b"", max_timestamp: int = 6) -> Entry:
    """A record batch that takes up `count` offsets."""
    header = BATCH_HEADER.pack(
        *(base_offset, 49 + len(body), 0, 2, 0, CODEC_GZIP, count - 1),
        *(5, max_timestamp, -1, -1, -1, count),
    )
    return Entry(header + body, base_offset, base_offset + count - 1, 2, max_timestamp)


def legacy_entry(offset: int, magic: int = 1, body: bytes = b"", timestamp: int = 6) -> Entry:
    """A message of format v0 or v1, with a null key and `body` as its value."""
    message = struct.pack(">IBB", 0, magic, 0)
    if magic == 1:
        message += struct.pack(">q", timestamp)
    message += struct.pack(">ii", -1, len(body)) + body
    prefix = struct.pack(">qi", offset, len(message))
    return Entry(prefix + message, offset, offset, magic, timestamp if magic == 1 else -1)


def positions(entries: list[Entry]) -> list[int]:
    """Where each entry starts, written one after the other."""
    result, position = [], 0
    for entry in entries:
        result.append(position)
        position += len(entry.data)
    return result


def joined(entries: list[Entry]) -> bytes:
    return b"".join(entry.data for entry in entries)
