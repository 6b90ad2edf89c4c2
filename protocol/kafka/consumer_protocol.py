"""ConsumerProtocol: what consumers say to each other in a group, as far as a broker reads it.

A member's metadata, for the protocol type `consumer`, big-endian; later versions add fields behind:

    version i16   topic count i32   topics: length i16, UTF-8   user data: length i32, bytes   ...
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

__all__ = ["CONSUMER_PROTOCOL_TYPE", "subscribed_topics"]

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
HEAD: Final = struct.Struct(">hi")
VERSION_BYTES: Final = 2
LENGTH: Final = struct.Struct(">h")
TOPICS_MAX: Final = 20_000
"""Names that are read in one go, in about 5 ms."""


def subscribed_topics(metadata_of_members: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics that members subscribe to, all together.

    None if the metadata of one does not say, or if there are too many to be read in one go; lists
    that are the same as the one before are not read again.
    """
    topics: set[str] = set()
    listed, left = b"", TOPICS_MAX
    for metadata in metadata_of_members:
        if listed and metadata.startswith(listed, VERSION_BYTES):
            continue
        try:
            end, left = _read_topics(metadata, topics, left)
        except (struct.error, ValueError):
            return None
        listed = metadata[VERSION_BYTES:end]
    return frozenset(topics)


def _read_topics(metadata: bytes, topics: set[str], left: int) -> tuple[int, int]:
    """Add a member's topics; return where they end, and how many more may be read.

    Raises:
        struct.error, ValueError: it is cut, is no text, or there are more than `left`.
    """
    version, count = HEAD.unpack_from(metadata)
    if version < 0 or not 0 <= count <= left:
        raise ValueError(f"{count} topics, version {version}")
    position = HEAD.size
    for _ in range(count):
        (size,) = LENGTH.unpack_from(metadata, position)
        position += LENGTH.size
        if not 0 <= size <= len(metadata) - position:
            raise ValueError(f"a name of {size} bytes")
        topics.add(metadata[position : position + size].decode("utf-8"))
        position += size
    return position, left - count
