"""ConsumerProtocol: what consumers say to each other in a group, as far as a broker reads it.

A member's metadata, for the protocol type `consumer`, big-endian; later versions add fields behind:

    version i16   topic count i32   topics: length i16, UTF-8   user data: length i32, bytes   ...
"""

from __future__ import annotations

import struct
from typing import Final

__all__ = ["CONSUMER_PROTOCOL_TYPE", "subscribed_topics"]

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
HEAD: Final = struct.Struct(">hi")
LENGTH: Final = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics that a member subscribes to; None if its metadata does not say."""
    try:
        version, count = HEAD.unpack_from(metadata)
        if version < 0 or not 0 <= count <= len(metadata):
            return None
        topics = set()
        position = HEAD.size
        for _ in range(count):
            (size,) = LENGTH.unpack_from(metadata, position)
            position += LENGTH.size
            if not 0 <= size <= len(metadata) - position:
                return None
            topics.add(metadata[position : position + size].decode("utf-8"))
            position += size
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
