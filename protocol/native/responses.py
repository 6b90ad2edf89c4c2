"""Answers of the native protocol, both ways; `docs/native-protocol.md` has them in full.

Every answer is `total_length:i32 error:i16 rest`, big-endian, `total_length` counting what follows
it. The `encode_*` functions give whole answers, the `decode_*` functions take the frame from
`error` on (FrameReader strips the length after it has checked it) and slice sets without copying.

    PRODUCE, APPEND_AT  base_offset:i64 append_time_ms:i64 message_count:i32
    MULTIPRODUCE        count:i16 { a whole PRODUCE answer }
    FETCH               the set                                             MessageSetSend
    MULTIFETCH          { a whole FETCH answer }                       MultiMessageSetSend
    OFFSETS             count:i32 { offset:i64 }
    TOPICS              count:i32 { topic:str16 error:i16 partitions:i32 { partition:i32 error:i16
                        log_start:i64 high_watermark:i64 bytes:i64 } }
    CREATE_TOPIC, DELETE_TOPIC                                                    message:str16
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from protocol.identifiers import Buffer
from protocol.limits import INT16_MAX
from protocol.native.fields import (
    STR16_SIZE,
    bad_frame,
    check_count,
    check_end,
    pack,
    read_str16,
    str16,
)

MESSAGE_SET_SEND_HEADER: Final = struct.Struct(">ih")  # total_length error
MESSAGE_SET_SEND_HEADER_BYTES: Final = 6
assert MESSAGE_SET_SEND_HEADER.size == MESSAGE_SET_SEND_HEADER_BYTES, "total length 4, error 2"

PRODUCE_RESPONSE: Final = struct.Struct(">ihqqi")
PRODUCE_RESPONSE_BYTES: Final = 26
assert PRODUCE_RESPONSE.size == PRODUCE_RESPONSE_BYTES, "PRODUCE's answer has 26 bytes"
PRODUCE_TOTAL_LENGTH: Final = PRODUCE_RESPONSE_BYTES - 4

_ERROR: Final = struct.Struct(">h")
_COUNT16: Final = struct.Struct(">ihh")  # total_length error count
_COUNT32: Final = struct.Struct(">ihi")  # total_length error count
_PRODUCE_AT_ERROR: Final = struct.Struct(">hqqi")
_ERROR_COUNT16: Final = struct.Struct(">hh")
_ERROR_COUNT32: Final = struct.Struct(">hi")
_OFFSET_BYTES: Final = 8
_TOPIC: Final = struct.Struct(">hi")  # error, count of partitions
_TOPIC_BYTES_MIN: Final = STR16_SIZE.size + _TOPIC.size
_PARTITION: Final = struct.Struct(">ihqqq")
_PARTITION_BYTES: Final = _PARTITION.size


class ProduceResponse(NamedTuple):
    """The answer to a PRODUCE or APPEND_AT, and to each entry of a MULTIPRODUCE."""

    error: int
    base_offset: int
    """Offset of the first message; -1 on error, but the log end offset with error 45."""
    append_time_ms: int
    """The broker's clock with LogAppendTime, else -1."""
    message_count: int
    """Messages kept: fewer than sent where an invalid tail was trimmed."""


class MessageSetSend(NamedTuple):
    """The answer to a FETCH, and to each entry of a MULTIFETCH; the set is in the format asked."""

    error: int
    message_set: memoryview


class PartitionDescription(NamedTuple):
    """One partition in a TOPICS answer; on error the numbers are -1."""

    partition: int
    error: int
    log_start_offset: int
    high_watermark: int
    size_bytes: int
    """Bytes of its `.log` files."""


class TopicDescription(NamedTuple):
    """One topic in a TOPICS answer; on error without partitions."""

    topic: bytes
    error: int
    partitions: Sequence[PartitionDescription]


# --- what the broker does ---------------------------------------------------------------------


def encode_produce_response(
    error: int, base_offset: int, append_time_ms: int, message_count: int
) -> bytes:
    """Return the whole answer, 26 bytes; on error give -1, -1, 0."""
    return PRODUCE_RESPONSE.pack(
        PRODUCE_TOTAL_LENGTH, error, base_offset, append_time_ms, message_count
    )


def encode_multi_produce_response(
    error: int, answers: Sequence[tuple[int, int, int, int]] = ()
) -> bytes:
    """Return the whole answer; `answers` as ProduceResponse, none if the request failed whole."""
    count = len(answers)
    total_length = 4 + count * PRODUCE_RESPONSE_BYTES
    head = _COUNT16.pack(total_length, error, count)
    return head + b"".join([encode_produce_response(*answer) for answer in answers])


def message_set_send_header(error: int, set_bytes: int) -> bytes:
    """Return what stands before a set of `set_bytes` bytes: its total length and the error."""
    return MESSAGE_SET_SEND_HEADER.pack(2 + set_bytes, error)


def multi_message_set_send_header(error: int, sends_bytes: int) -> bytes:
    """Return what stands before whole MessageSetSends of `sends_bytes` bytes together.

    That is the sum of (4 + total length) over them; 0 if the request failed as a whole.
    """
    return MESSAGE_SET_SEND_HEADER.pack(2 + sends_bytes, error)


def message_set_send(error: int, message_set: Sequence[Buffer] = ()) -> list[Buffer]:
    """Return the whole answer to a FETCH as buffers; the set's are passed on, not copied."""
    return [message_set_send_header(error, sum(map(len, message_set))), *message_set]


def multi_message_set_send(
    error: int, sends: Sequence[tuple[int, Sequence[Buffer]]] = ()
) -> list[Buffer]:
    """Return the whole answer to a MULTIFETCH as buffers; the sets' are passed on, not copied.

    Args:
        error: Of the request as a whole; then there must be no sends.
        sends: (error, buffers of the set) of each partition asked for, in the request's order.
    """
    assert not (error and sends), "no entries follow an outer error"
    buffers: list[Buffer] = [b""]
    sends_bytes = 0
    for send_error, message_set in sends:
        set_bytes = sum(map(len, message_set))
        sends_bytes += MESSAGE_SET_SEND_HEADER_BYTES + set_bytes
        buffers.append(message_set_send_header(send_error, set_bytes))
        buffers += message_set
    buffers[0] = multi_message_set_send_header(error, sends_bytes)
    return buffers


def encode_offsets_response(error: int, offsets: Sequence[int] = ()) -> bytes:
    """Return the whole answer."""
    count = len(offsets)
    total_length = 6 + count * _OFFSET_BYTES
    return _COUNT32.pack(total_length, error, count) + struct.pack(f">{count}q", *offsets)


def encode_topic(topic: TopicDescription) -> bytes:
    """Return one topic of a TOPICS answer, for `topics_response`."""
    name, error, partitions = topic
    head = str16(name) + _TOPIC.pack(error, len(partitions))
    return b"".join((head, *[_PARTITION.pack(*partition) for partition in partitions]))


def topics_response(error: int, topics: Sequence[bytes] = ()) -> bytes:
    """Return the whole answer to a TOPICS; `topics` as `encode_topic` returns them."""
    total_length = 6 + sum(map(len, topics))
    return b"".join((pack(_COUNT32, total_length, error, len(topics)), *topics))


def encode_topics_response(error: int, topics: Sequence[TopicDescription] = ()) -> bytes:
    """Return the whole answer."""
    return topics_response(error, [encode_topic(topic) for topic in topics])


def encode_status_response(error: int, message: str = "") -> bytes:
    """Return the whole answer to a CREATE_TOPIC or DELETE_TOPIC; a long message is cut."""
    text = message.encode("utf-8", "replace")
    if len(text) > INT16_MAX:
        text = text[:INT16_MAX].decode("utf-8", "ignore").encode()  # not inside a character
    return MESSAGE_SET_SEND_HEADER.pack(4 + len(text), error) + str16(text)


# --- what clients do --------------------------------------------------------------------------


def decode_produce_response(frame: Buffer) -> ProduceResponse:
    """Return the answer to a PRODUCE or APPEND_AT.

    Raises:
        FrameError: the frame has not the size of one.
    """
    if len(frame) != PRODUCE_TOTAL_LENGTH:
        bad_frame(f"PRODUCE answer: {len(frame)} bytes, not {PRODUCE_TOTAL_LENGTH}")
    return ProduceResponse._make(_PRODUCE_AT_ERROR.unpack_from(frame))


def decode_multi_produce_response(frame: Buffer) -> tuple[int, list[ProduceResponse]]:
    """Return (error of the whole, answers in the order of the request's entries).

    Raises:
        FrameError: sizes do not add up.
    """
    try:
        error, count = _ERROR_COUNT16.unpack_from(frame)
    except struct.error:
        bad_frame("MULTIPRODUCE answer ends inside its fields")
    position = _ERROR_COUNT16.size
    check_count(frame, position, count, PRODUCE_RESPONSE_BYTES)
    answers: list[ProduceResponse] = []
    for _ in range(count):
        total_length, *fields = PRODUCE_RESPONSE.unpack_from(frame, position)
        if total_length != PRODUCE_TOTAL_LENGTH:
            bad_frame(f"MULTIPRODUCE answer: an entry of {total_length} bytes")
        answers.append(ProduceResponse(*fields))
        position += PRODUCE_RESPONSE_BYTES
    check_end(frame, position)
    return error, answers


def decode_message_set_send(frame: Buffer) -> MessageSetSend:
    """Return the answer to a FETCH; the set is a slice of `frame`.

    Raises:
        FrameError: there is no room for the error code.
    """
    view = memoryview(frame)
    try:
        (error,) = _ERROR.unpack_from(view)
    except struct.error:
        bad_frame("FETCH answer: shorter than its error code")
    return MessageSetSend(error, view[2:])


def decode_multi_message_set_send(frame: Buffer) -> tuple[int, list[MessageSetSend]]:
    """Return (error of the whole, answers in the order of the request's entries).

    The sets are slices of `frame`.

    Raises:
        FrameError: sizes do not add up.
    """
    view = memoryview(frame)
    try:
        (error,) = _ERROR.unpack_from(view)
        position = _ERROR.size
        sends: list[MessageSetSend] = []
        while position < len(view):
            total_length, send_error = MESSAGE_SET_SEND_HEADER.unpack_from(view, position)
            end = position + 4 + total_length
            if total_length < 2 or end > len(view):
                bad_frame(f"MULTIFETCH answer: an entry of {total_length} bytes")
            start = position + MESSAGE_SET_SEND_HEADER_BYTES
            sends.append(MessageSetSend(send_error, view[start:end]))
            position = end
    except struct.error:
        bad_frame("MULTIFETCH answer ends inside its fields")
    return error, sends


def decode_offsets_response(frame: Buffer) -> tuple[int, list[int]]:
    """Return (error, offsets).

    Raises:
        FrameError: sizes do not add up.
    """
    try:
        error, count = _ERROR_COUNT32.unpack_from(frame)
    except struct.error:
        bad_frame("OFFSETS answer ends inside its fields")
    position = _ERROR_COUNT32.size
    check_count(frame, position, count, _OFFSET_BYTES)
    check_end(frame, position + count * _OFFSET_BYTES)
    return error, list(struct.unpack_from(f">{count}q", frame, position))


def decode_topics_response(frame: Buffer) -> tuple[int, list[TopicDescription]]:
    """Return (error, topics).

    Raises:
        FrameError: sizes do not add up.
    """
    try:
        error, count = _ERROR_COUNT32.unpack_from(frame)
        position = _ERROR_COUNT32.size
        check_count(frame, position, count, _TOPIC_BYTES_MIN)
        topics: list[TopicDescription] = []
        for _ in range(count):
            topic, position = read_str16(frame, position)
            topic_error, partition_count = _TOPIC.unpack_from(frame, position)
            position += _TOPIC.size
            check_count(frame, position, partition_count, _PARTITION_BYTES)
            end = position + partition_count * _PARTITION_BYTES
            partitions = [
                PartitionDescription._make(fields)
                for fields in _PARTITION.iter_unpack(memoryview(frame)[position:end])
            ]
            topics.append(TopicDescription(topic, topic_error, partitions))
            position = end
    except struct.error:
        bad_frame("TOPICS answer ends inside its fields")
    check_end(frame, position)
    return error, topics


def decode_status_response(frame: Buffer) -> tuple[int, str]:
    """Return (error, message) of a CREATE_TOPIC or DELETE_TOPIC.

    Raises:
        FrameError: sizes do not add up, or the message is not UTF-8.
    """
    try:
        (error,) = _ERROR.unpack_from(frame)
        text, position = read_str16(frame, _ERROR.size)
        message = text.decode()
    except struct.error:
        bad_frame("the answer ends inside its fields")
    except UnicodeDecodeError:
        bad_frame("the answer's message is not UTF-8")
    check_end(frame, position)
    return error, message
