"""`partition.metadata`: the id of the topic that a partition's directory belongs to.

As Apache Kafka 3.x and 4.x write it (PartitionMetadataFile); no newline at the end:

    version: 0
    topic_id: bjJloU19R7qRqxc7hoqoTA
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from protocol.errors import StoredFormatError
from protocol.identifiers import Buffer
from protocol.stored.kafka_uuid import ZERO_UUID, decode_uuid, encode_uuid

VERSION: Final = 0


def encode(topic_id: UUID) -> bytes:
    """Return the file's bytes."""
    return f"version: {VERSION}\ntopic_id: {encode_uuid(topic_id)}".encode("ascii")


def decode(data: Buffer) -> UUID:
    """Return the topic id.

    Raises:
        StoredFormatError: another form, another version, or the id of no topic (all zero).
    """
    try:
        lines = bytes(data).decode("ascii").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise StoredFormatError(f"partition.metadata: {error}") from error
    if len(lines) != 2 or not lines[1].startswith("topic_id: "):
        raise StoredFormatError("partition.metadata: not the two lines `version` and `topic_id`")
    if lines[0] != f"version: {VERSION}":
        raise StoredFormatError(
            f"partition.metadata: {lines[0][:40]!r} is not `version: {VERSION}`"
        )
    topic_id = decode_uuid(lines[1].removeprefix("topic_id: "))
    if topic_id == ZERO_UUID:
        raise StoredFormatError("partition.metadata: the topic id is all zero")
    return topic_id
