"""ClusterMetadata: what a KRaft controller's log says of topics and their settings.

`__cluster_metadata-0` is the log of Kafka's controller: ordinary segments, and snapshots in files
`<offset>-<epoch>.checkpoint` with the same record batches. Each record's value is one change:

    frame version: unsigned varint = 1 | api key: unsigned varint | version: unsigned varint | body

    api key 2  TopicRecord        name: compact string, topic id: 16 bytes, ...
    api key 4  ConfigRecord       resource type: int8 (2 = topic), resource: compact string,
                                  name: compact string, value: compact nullable string, ...
    api key 9  RemoveTopicRecord  topic id: 16 bytes, ...

(KIP-631; a compact string is its length plus one as an unsigned varint, 0 for null, then UTF-8.)
All other records are passed over, and so is what later versions append to these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

import msgspec

from protocol.errors import CorruptMessageError
from protocol.identifiers import Buffer
from protocol.varint import decode_unsigned_varint

FRAME_VERSION: Final = 1
TOPIC_RECORD: Final = 2
CONFIG_RECORD: Final = 4
REMOVE_TOPIC_RECORD: Final = 9
TOPIC_RESOURCE: Final = 2
UUID_BYTES: Final = 16


class KafkaTopic(msgspec.Struct, frozen=True):
    """A topic as Kafka's controller knows it."""

    name: str
    topic_id: UUID
    settings: dict[str, str]
    """By Kafka's dotted names; only what was set for this topic."""


def read_topics(values: Iterable[bytes]) -> dict[str, KafkaTopic]:
    """Return the topics, by name, after the changes in the records' values, oldest first.

    Raises:
        CorruptMessageError: a value is not what the frame promises.
    """
    names: dict[UUID, str] = {}
    settings: dict[str, dict[str, str]] = {}
    for value in values:
        _apply(value, names, settings)
    return {
        name: KafkaTopic(name, topic_id, settings.get(name, {})) for topic_id, name in names.items()
    }


def _apply(value: bytes, names: dict[UUID, str], settings: dict[str, dict[str, str]]) -> None:
    frame_version, position = decode_unsigned_varint(value)
    if frame_version != FRAME_VERSION:
        return  # of a later Kafka: nothing that is known to be here can be relied on
    api_key, position = decode_unsigned_varint(value, position)
    _, position = decode_unsigned_varint(value, position)
    if api_key == TOPIC_RECORD:
        name, position = _text(value, position)
        if name is None:
            raise CorruptMessageError(position, "a topic without a name")
        names[_uuid(value, position)] = name
    elif api_key == REMOVE_TOPIC_RECORD:
        removed = names.pop(_uuid(value, position), None)
        if removed is not None:
            settings.pop(removed, None)
    elif api_key == CONFIG_RECORD and value[position : position + 1] == bytes([TOPIC_RESOURCE]):
        resource, position = _text(value, position + 1)
        name, position = _text(value, position)
        if resource is None or name is None:
            raise CorruptMessageError(position, "a setting without a name")
        text, _ = _text(value, position)
        if text is None:
            settings.get(resource, {}).pop(name, None)
        else:
            settings.setdefault(resource, {})[name] = text


def _text(value: Buffer, position: int) -> tuple[str | None, int]:
    """Return a compact nullable string and the position behind it."""
    size, position = decode_unsigned_varint(value, position)
    if not size:
        return None, position
    end = position + size - 1
    if end > len(value):
        raise CorruptMessageError(position, "a text is cut")
    try:
        return bytes(value[position:end]).decode(), end
    except UnicodeDecodeError as error:
        raise CorruptMessageError(position, "a text is not UTF-8") from error


def _uuid(value: Buffer, position: int) -> UUID:
    data = bytes(value[position : position + UUID_BYTES])
    if len(data) != UUID_BYTES:
        raise CorruptMessageError(position, "a topic id is cut")
    return UUID(bytes=data)
