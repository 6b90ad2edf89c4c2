"""Bodies of the native protocol's requests, both ways; `docs/native-protocol.md` has them in full.

On the wire a request is `size:i32 type:i16 body`, big-endian, `size` counting type and body. The
`decode_*` functions take the frame from `type` on and give plain tuples, because they are called
for every request: topics stay the bytes they are (UTF-8, not checked), sets are slices of the
frame. The `encode_*` functions give the whole request, `size` included.

    PRODUCE       topic:str16 partition:i32 acks:i16 timeout_ms:i32 format:i8 set_size:i32 set
    APPEND_AT     expected_offset:i64, then as PRODUCE
    MULTIPRODUCE  acks:i16 timeout_ms:i32 count:i16 { topic partition format:i8 set_size:i32 set }
    FETCH         topic partition offset:i64 max_bytes:i32 min_bytes:i32 max_wait_ms:i32 format:i8
    MULTIFETCH    max_bytes:i32 min_bytes:i32 max_wait_ms:i32 format:i8 count:i16
                  { topic partition offset:i64 max_bytes:i32 }
    OFFSETS       topic partition time:i64 max_offsets:i32
    TOPICS        count:i16 { topic }
    CREATE_TOPIC  topic partitions:i32 count:i16 { key:str16 value:str16 }
    DELETE_TOPIC  topic
    ALTER_TOPIC, DELETE_RECORDS  are in `topic_changes`, TRANSACTIONS in `transactions`

Sizes must add up: a frame with a byte too few or too many, a negative size, or a count that the
bytes left cannot hold raises FrameError; more than `entries_max` entries, before any is decoded,
InvalidRequestError. Whether values make sense is the broker's to say.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from protocol.identifiers import Buffer
from protocol.limits import INT16_MAX
from protocol.native.fields import (
    STR16_SIZE,
    bad_frame,
    check_count,
    check_end,
    encode_settings,
    pack,
    read_settings,
    read_str16,
    request_head,
    str16,
    whole_request,
)
from protocol.native.request_types import RequestType

Produce: TypeAlias = tuple[bytes, int, int, int, int, Buffer]
"""topic, partition, acks, timeout_ms, format, set"""
AppendAt: TypeAlias = tuple[int, bytes, int, int, int, int, Buffer]
"""expected_offset, then as Produce"""
ProduceEntry: TypeAlias = tuple[bytes, int, int, Buffer]
"""topic, partition, format, set"""
MultiProduce: TypeAlias = tuple[int, int, list[ProduceEntry]]
"""acks, timeout_ms, entries"""
Fetch: TypeAlias = tuple[bytes, int, int, int, int, int, int]
"""topic, partition, offset, max_bytes, min_bytes, max_wait_ms, format"""
FetchEntry: TypeAlias = tuple[bytes, int, int, int]
"""topic, partition, offset, max_bytes"""
MultiFetch: TypeAlias = tuple[int, int, int, int, list[FetchEntry]]
"""max_bytes, min_bytes, max_wait_ms, format, entries"""
Offsets: TypeAlias = tuple[bytes, int, int, int]
"""topic, partition, time, max_offsets"""
CreateTopic: TypeAlias = tuple[bytes, int, list[tuple[str, str]]]
"""topic, partitions, settings in the order sent"""

TYPE: Final = struct.Struct(">h")

_STR16_AT_2: Final = struct.Struct(">2xh")  # the topic's size, after the type
_STR16_AT_10: Final = struct.Struct(">2xqh")  # expected offset and the topic's size, after the type
_PRODUCE: Final = struct.Struct(">ihibi")  # partition acks timeout_ms format set_size
_MULTI_PRODUCE: Final = struct.Struct(">2xhih")  # acks timeout_ms count, after the type
_PRODUCE_ENTRY: Final = struct.Struct(">ibi")  # partition format set_size
_FETCH: Final = struct.Struct(">iqiiib")  # partition offset max_bytes min_bytes max_wait_ms format
_MULTI_FETCH: Final = struct.Struct(">2xiiibh")  # max_bytes min_bytes max_wait_ms format count
_FETCH_ENTRY: Final = struct.Struct(">iqi")  # partition offset max_bytes
_OFFSETS: Final = struct.Struct(">iqi")  # partition time max_offsets
_COUNT_AT_2: Final = struct.Struct(">2xh")
_CREATE_TOPIC: Final = struct.Struct(">ih")  # partitions count

# The same without what stands before them in a frame, for encoding.
_EXPECTED_OFFSET: Final = struct.Struct(">q")
_MULTI_PRODUCE_HEAD: Final = struct.Struct(">hih")
_MULTI_FETCH_HEAD: Final = struct.Struct(">iiibh")

_PRODUCE_BYTES: Final = _PRODUCE.size
assert _PRODUCE_BYTES == 15, "topic and PRODUCE's other fields do not add up"
_PRODUCE_ENTRY_BYTES_MIN: Final = STR16_SIZE.size + _PRODUCE_ENTRY.size
_FETCH_ENTRY_BYTES_MIN: Final = STR16_SIZE.size + _FETCH_ENTRY.size


# --- what the broker does ---------------------------------------------------------------------


def decode_type(frame: Buffer) -> int:
    """Return the request's type as the number it is.

    Raises:
        FrameError: the frame has no room for it.
    """
    try:
        request_type: int = TYPE.unpack_from(frame)[0]
    except struct.error:
        bad_frame("shorter than its type")
    return request_type


def decode_produce(frame: Buffer) -> Produce:
    """Return (topic, partition, acks, timeout_ms, format, set); the set is a slice of `frame`.

    Raises:
        FrameError: sizes do not add up.
    """
    # The hottest function of the broker: no call, no object but what is returned.
    try:
        (topic_bytes,) = _STR16_AT_2.unpack_from(frame)
        end = 4 + topic_bytes
        partition, acks, timeout_ms, format_, set_bytes = _PRODUCE.unpack_from(frame, end)
    except struct.error:
        bad_frame("PRODUCE ends inside its fields")
    message_set = frame[end + 15 :]
    if topic_bytes < 0 or len(message_set) != set_bytes:
        bad_frame("PRODUCE: sizes do not add up")
    return bytes(frame[4:end]), partition, acks, timeout_ms, format_, message_set


def decode_append_at(frame: Buffer) -> AppendAt:
    """Return (expected_offset, topic, partition, acks, timeout_ms, format, set).

    Raises:
        FrameError: sizes do not add up.
    """
    try:
        expected_offset, topic_bytes = _STR16_AT_10.unpack_from(frame)
        end = 12 + topic_bytes
        partition, acks, timeout_ms, format_, set_bytes = _PRODUCE.unpack_from(frame, end)
    except struct.error:
        bad_frame("APPEND_AT ends inside its fields")
    message_set = frame[end + 15 :]
    if topic_bytes < 0 or len(message_set) != set_bytes:
        bad_frame("APPEND_AT: sizes do not add up")
    topic = bytes(frame[12:end])
    return expected_offset, topic, partition, acks, timeout_ms, format_, message_set


def decode_multi_produce(frame: Buffer, entries_max: int = INT16_MAX) -> MultiProduce:
    """Return (acks, timeout_ms, [(topic, partition, format, set), ...]).

    Raises:
        FrameError: sizes do not add up.
    """
    try:
        acks, timeout_ms, count = _MULTI_PRODUCE.unpack_from(frame)
        position = _MULTI_PRODUCE.size
        check_count(frame, position, count, _PRODUCE_ENTRY_BYTES_MIN, entries_max)
        entries: list[ProduceEntry] = []
        for _ in range(count):
            topic, position = read_str16(frame, position)
            partition, format_, set_bytes = _PRODUCE_ENTRY.unpack_from(frame, position)
            position += _PRODUCE_ENTRY.size
            message_set = frame[position : position + set_bytes]
            if set_bytes < 0 or len(message_set) != set_bytes:
                bad_frame("MULTIPRODUCE: a set's size is more than the bytes there")
            position += set_bytes
            entries.append((topic, partition, format_, message_set))
    except struct.error:
        bad_frame("MULTIPRODUCE ends inside its fields")
    check_end(frame, position)
    return acks, timeout_ms, entries


def decode_multi_produce_acks(frame: Buffer) -> int:
    """Return the acks of a MULTIPRODUCE that is not decoded any further."""
    acks: int = _MULTI_PRODUCE.unpack_from(frame)[0]
    return acks


def decode_fetch(frame: Buffer) -> Fetch:
    """Return (topic, partition, offset, max_bytes, min_bytes, max_wait_ms, format).

    Raises:
        FrameError: sizes do not add up.
    """
    try:
        topic, position = read_str16(frame, 2)
        partition, offset, max_bytes, min_bytes, max_wait_ms, format_ = _FETCH.unpack_from(
            frame, position
        )
    except struct.error:
        bad_frame("FETCH ends inside its fields")
    check_end(frame, position + _FETCH.size)
    return topic, partition, offset, max_bytes, min_bytes, max_wait_ms, format_


def decode_multi_fetch(frame: Buffer, entries_max: int = INT16_MAX) -> MultiFetch:
    """Return (max_bytes, min_bytes, max_wait_ms, format, [(topic, partition, offset, max_bytes)]).

    Raises:
        FrameError: sizes do not add up.
    """
    try:
        max_bytes, min_bytes, max_wait_ms, format_, count = _MULTI_FETCH.unpack_from(frame)
        position = _MULTI_FETCH.size
        check_count(frame, position, count, _FETCH_ENTRY_BYTES_MIN, entries_max)
        entries: list[FetchEntry] = []
        for _ in range(count):
            topic, position = read_str16(frame, position)
            entries.append((topic, *_FETCH_ENTRY.unpack_from(frame, position)))
            position += _FETCH_ENTRY.size
    except struct.error:
        bad_frame("MULTIFETCH ends inside its fields")
    check_end(frame, position)
    return max_bytes, min_bytes, max_wait_ms, format_, entries


def decode_offsets(frame: Buffer) -> Offsets:
    """Return (topic, partition, time, max_offsets).

    Raises:
        FrameError: sizes do not add up.
    """
    try:
        topic, position = read_str16(frame, 2)
        partition, time, max_offsets = _OFFSETS.unpack_from(frame, position)
    except struct.error:
        bad_frame("OFFSETS ends inside its fields")
    check_end(frame, position + _OFFSETS.size)
    return topic, partition, time, max_offsets


def decode_topics(frame: Buffer, entries_max: int = INT16_MAX) -> list[bytes]:
    """Return the topics asked for; none means all.

    Raises:
        FrameError: sizes do not add up.
    """
    try:
        (count,) = _COUNT_AT_2.unpack_from(frame)
        position = _COUNT_AT_2.size
        check_count(frame, position, count, STR16_SIZE.size, entries_max)
        topics: list[bytes] = []
        for _ in range(count):
            topic, position = read_str16(frame, position)
            topics.append(topic)
    except struct.error:
        bad_frame("TOPICS ends inside its fields")
    check_end(frame, position)
    return topics


def decode_create_topic(frame: Buffer) -> CreateTopic:
    """Return (topic, partitions, [(key, value), ...]); a key sent twice is there twice.

    Raises:
        FrameError: sizes do not add up, or a key or value is not UTF-8.
    """
    try:
        topic, position = read_str16(frame, 2)
        partitions, count = _CREATE_TOPIC.unpack_from(frame, position)
        settings, position = read_settings(frame, position + _CREATE_TOPIC.size, count)
    except struct.error:
        bad_frame("CREATE_TOPIC ends inside its fields")
    except UnicodeDecodeError:
        bad_frame("CREATE_TOPIC: a setting is not UTF-8")
    check_end(frame, position)
    return topic, partitions, settings


def decode_delete_topic(frame: Buffer) -> bytes:
    """Return the topic.

    Raises:
        FrameError: sizes do not add up.
    """
    try:
        topic, position = read_str16(frame, 2)
    except struct.error:
        bad_frame("DELETE_TOPIC ends inside its fields")
    check_end(frame, position)
    return topic


# --- what clients do --------------------------------------------------------------------------


def encode_produce(
    topic: str | bytes,
    partition: int,
    acks: int,
    timeout_ms: int,
    message_format: int,
    message_set: Buffer,
) -> list[Buffer]:
    """Return the request in two parts, the second being the set itself, not copied."""
    set_bytes = len(message_set)
    fields = str16(topic) + pack(_PRODUCE, partition, acks, timeout_ms, message_format, set_bytes)
    return [request_head(RequestType.PRODUCE, len(fields) + set_bytes) + fields, message_set]


def encode_append_at(
    expected_offset: int,
    topic: str | bytes,
    partition: int,
    acks: int,
    timeout_ms: int,
    message_format: int,
    message_set: Buffer,
) -> list[Buffer]:
    """Return the request in two parts, the second being the set itself, not copied."""
    set_bytes = len(message_set)
    fields = (
        pack(_EXPECTED_OFFSET, expected_offset)
        + str16(topic)
        + pack(_PRODUCE, partition, acks, timeout_ms, message_format, set_bytes)
    )
    return [request_head(RequestType.APPEND_AT, len(fields) + set_bytes) + fields, message_set]


def encode_multi_produce(
    acks: int, timeout_ms: int, entries: Sequence[tuple[str | bytes, int, int, Buffer]]
) -> list[Buffer]:
    """Return the request in parts, fields and sets in turn, the sets not copied.

    `entries` are (topic, partition, format, set).
    """
    parts: list[Buffer] = [pack(_MULTI_PRODUCE_HEAD, acks, timeout_ms, len(entries))]
    for topic, partition, message_format, message_set in entries:
        fields = pack(_PRODUCE_ENTRY, partition, message_format, len(message_set))
        parts += (str16(topic) + fields, message_set)
    return [request_head(RequestType.MULTIPRODUCE, sum(map(len, parts))), *parts]


def encode_fetch(
    topic: str | bytes,
    partition: int,
    offset: int,
    max_bytes: int,
    min_bytes: int,
    max_wait_ms: int,
    message_format: int,
) -> bytes:
    """Return the request."""
    fields = pack(_FETCH, partition, offset, max_bytes, min_bytes, max_wait_ms, message_format)
    return whole_request(RequestType.FETCH, str16(topic), fields)


def encode_multi_fetch(
    max_bytes: int,
    min_bytes: int,
    max_wait_ms: int,
    message_format: int,
    entries: Sequence[tuple[str | bytes, int, int, int]],
) -> bytes:
    """Return the request; `entries` are (topic, partition, offset, max_bytes)."""
    count = len(entries)
    parts = [pack(_MULTI_FETCH_HEAD, max_bytes, min_bytes, max_wait_ms, message_format, count)]
    for topic, partition, offset, partition_max_bytes in entries:
        parts += (str16(topic), pack(_FETCH_ENTRY, partition, offset, partition_max_bytes))
    return whole_request(RequestType.MULTIFETCH, *parts)


def encode_offsets(topic: str | bytes, partition: int, time: int, max_offsets: int) -> bytes:
    """Return the request; `time` in ms, or LATEST_TIME, or EARLIEST_TIME."""
    return whole_request(
        RequestType.OFFSETS, str16(topic), pack(_OFFSETS, partition, time, max_offsets)
    )


def encode_topics(topics: Sequence[str | bytes] = ()) -> bytes:
    """Return the request; no topics means all."""
    return whole_request(RequestType.TOPICS, pack(STR16_SIZE, len(topics)), *map(str16, topics))


def encode_create_topic(
    topic: str | bytes, partitions: int, settings: Mapping[str, str] | None = None
) -> bytes:
    """Return the request."""
    settings = settings or {}
    fields = str16(topic) + pack(_CREATE_TOPIC, partitions, len(settings))
    return whole_request(RequestType.CREATE_TOPIC, fields, encode_settings(settings))


def encode_delete_topic(topic: str | bytes) -> bytes:
    """Return the request."""
    return whole_request(RequestType.DELETE_TOPIC, str16(topic))
