"""Bodies of the native protocol's requests, both ways."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import limits
from protocol.errors import FrameError, FrameTooLargeError, InvalidRequestError
from protocol.identifiers import Buffer
from protocol.native import requests
from protocol.native.request_types import RequestType
from tests.support.damage import any_bytes, error_of

# Written by hand from the specification's tables.
GOLDEN: dict[RequestType, bytes] = {
    RequestType.PRODUCE: bytes.fromhex(
        "0000001a 0000 0004 6c6f6773 00000003 ffff 00007530 02 00000003 616263"
    ),
    RequestType.FETCH: bytes.fromhex(
        "00000021 0001 0004 6c6f6773 00000003 000000000000002a 00100000 00000001 000001f4 00"
    ),
    RequestType.MULTIFETCH: bytes.fromhex(
        "00000027 0002 00100000 00000001 000001f4 01 0001"
        "0004 6c6f6773 00000003 000000000000002a 00010000"
    ),
    RequestType.MULTIPRODUCE: bytes.fromhex(
        "0000001c 0003 0001 00007530 0001 0004 6c6f6773 00000003 00 00000003 616263"
    ),
    RequestType.OFFSETS: bytes.fromhex(
        "00000018 0004 0004 6c6f6773 00000003 ffffffffffffffff 00000001"
    ),
    RequestType.TOPICS: bytes.fromhex("0000000d 0005 0002 0004 6c6f6773 0001 61"),
    RequestType.CREATE_TOPIC: bytes.fromhex(
        "00000015 0006 0004 6c6f6773 00000004 0001 0001 6b 0002 c3a4"
    ),
    RequestType.DELETE_TOPIC: bytes.fromhex("00000008 0007 0004 6c6f6773"),
    RequestType.APPEND_AT: bytes.fromhex(
        "00000022 0008 0000000000000007 0004 6c6f6773 00000003 ffff 00007530 02 00000003 616263"
    ),
}

DECODERS: dict[RequestType, Callable[[Buffer], Any]] = {
    RequestType.PRODUCE: requests.decode_produce,
    RequestType.FETCH: requests.decode_fetch,
    RequestType.MULTIFETCH: requests.decode_multi_fetch,
    RequestType.MULTIPRODUCE: requests.decode_multi_produce,
    RequestType.OFFSETS: requests.decode_offsets,
    RequestType.TOPICS: requests.decode_topics,
    RequestType.CREATE_TOPIC: requests.decode_create_topic,
    RequestType.DELETE_TOPIC: requests.decode_delete_topic,
    RequestType.APPEND_AT: requests.decode_append_at,
}

VALUES: dict[RequestType, Any] = {
    RequestType.PRODUCE: (b"logs", 3, -1, 30000, 2, b"abc"),
    RequestType.FETCH: (b"logs", 3, 42, 1 << 20, 1, 500, 0),
    RequestType.MULTIFETCH: (1 << 20, 1, 500, 1, [(b"logs", 3, 42, 1 << 16)]),
    RequestType.MULTIPRODUCE: (1, 30000, [(b"logs", 3, 0, b"abc")]),
    RequestType.OFFSETS: (b"logs", 3, -1, 1),
    RequestType.TOPICS: [b"logs", b"a"],
    RequestType.CREATE_TOPIC: (b"logs", 4, [("k", "ä")]),
    RequestType.DELETE_TOPIC: b"logs",
    RequestType.APPEND_AT: (7, b"logs", 3, -1, 30000, 2, b"abc"),
}

TOPIC = st.text(max_size=20)
I16 = st.integers(-(2**15), 2**15 - 1)
I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
I8 = st.integers(-128, 127)
SET = st.binary(max_size=60)


def frame_of(parts: Buffer | list[Buffer]) -> memoryview:
    """What a broker is given of a request: all of it without its size, which must be right."""
    whole = b"".join(parts) if isinstance(parts, list) else bytes(parts)
    assert struct.unpack_from(">i", whole) == (len(whole) - 4,)
    return memoryview(whole)[4:]


def encoded(request_type: RequestType) -> bytes:
    """The golden value, encoded by us."""
    value = VALUES[request_type]
    match request_type:
        case RequestType.PRODUCE:
            return b"".join(requests.encode_produce(*value))
        case RequestType.APPEND_AT:
            return b"".join(requests.encode_append_at(*value))
        case RequestType.MULTIPRODUCE:
            return b"".join(requests.encode_multi_produce(*value))
        case RequestType.FETCH:
            return requests.encode_fetch(*value)
        case RequestType.MULTIFETCH:
            return requests.encode_multi_fetch(*value)
        case RequestType.OFFSETS:
            return requests.encode_offsets(*value)
        case RequestType.TOPICS:
            return requests.encode_topics(value)
        case RequestType.CREATE_TOPIC:
            return requests.encode_create_topic(value[0], value[1], dict(value[2]))
        case _:
            return requests.encode_delete_topic(value)


@pytest.mark.parametrize("request_type", DECODERS)
def test_given_golden_bytes_when_decoded_and_encoded_then_they_agree(
    request_type: RequestType,
) -> None:
    frame = memoryview(GOLDEN[request_type])[4:]

    assert requests.decode_type(frame) == request_type
    assert DECODERS[request_type](frame) == VALUES[request_type]
    assert encoded(request_type) == GOLDEN[request_type]


@given(
    topic=TOPIC, partition=I32, acks=I16, timeout_ms=I32, format_=I8, message_set=SET, expected=I64
)
def test_given_any_produce_when_encoded_and_decoded_then_the_same(
    topic: str,
    partition: int,
    acks: int,
    timeout_ms: int,
    format_: int,
    message_set: bytes,
    expected: int,
) -> None:
    fields = (partition, acks, timeout_ms, format_, message_set)

    produce = requests.encode_produce(topic, *fields)
    append_at = requests.encode_append_at(expected, topic, *fields)

    assert requests.decode_produce(frame_of(produce)) == (topic.encode(), *fields)
    assert requests.decode_append_at(frame_of(append_at)) == (expected, topic.encode(), *fields)


@given(acks=I16, timeout_ms=I32, entries=st.lists(st.tuples(TOPIC, I32, I8, SET), max_size=5))
def test_given_any_multi_produce_when_encoded_and_decoded_then_the_same(
    acks: int, timeout_ms: int, entries: list[tuple[str, int, int, bytes]]
) -> None:
    parts = requests.encode_multi_produce(acks, timeout_ms, entries)

    expected = [(topic.encode(), *rest) for topic, *rest in entries]
    assert requests.decode_multi_produce(frame_of(parts)) == (acks, timeout_ms, expected)


@given(topic=TOPIC, numbers=st.tuples(I32, I64, I32, I32, I32, I8))
def test_given_any_fetch_when_encoded_and_decoded_then_the_same(
    topic: str, numbers: tuple[int, int, int, int, int, int]
) -> None:
    request = requests.encode_fetch(topic, *numbers)

    assert requests.decode_fetch(frame_of(request)) == (topic.encode(), *numbers)


@given(
    numbers=st.tuples(I32, I32, I32, I8),
    entries=st.lists(st.tuples(TOPIC, I32, I64, I32), max_size=5),
)
def test_given_any_multi_fetch_when_encoded_and_decoded_then_the_same(
    numbers: tuple[int, int, int, int], entries: list[tuple[str, int, int, int]]
) -> None:
    request = requests.encode_multi_fetch(*numbers, entries)

    expected = [(topic.encode(), *rest) for topic, *rest in entries]
    assert requests.decode_multi_fetch(frame_of(request)) == (*numbers, expected)


@given(
    topics=st.lists(TOPIC, max_size=5),
    offsets=st.tuples(I32, I64, I32),
    partitions=I32,
    settings=st.dictionaries(TOPIC, TOPIC, max_size=4),
)
def test_given_any_topic_request_when_encoded_and_decoded_then_the_same(
    topics: list[str], offsets: tuple[int, int, int], partitions: int, settings: dict[str, str]
) -> None:
    for topic in topics:
        create = frame_of(requests.encode_create_topic(topic, partitions, settings))
        delete = frame_of(requests.encode_delete_topic(topic))
        ask = frame_of(requests.encode_offsets(topic, *offsets))

        expected = (topic.encode(), partitions, list(settings.items()))
        assert requests.decode_create_topic(create) == expected
        assert requests.decode_delete_topic(delete) == topic.encode()
        assert requests.decode_offsets(ask) == (topic.encode(), *offsets)
    listed = frame_of(requests.encode_topics(topics))
    assert requests.decode_topics(listed) == [topic.encode() for topic in topics]


def test_given_a_produce_when_decoded_then_the_set_is_the_frames_own_memory() -> None:
    frame = memoryview(bytearray(GOLDEN[RequestType.PRODUCE]))[4:]

    message_set = requests.decode_produce(frame)[5]
    frame[-3:] = b"xyz"

    assert message_set == b"xyz"


def test_given_a_produce_when_encoded_then_the_set_is_passed_on_not_copied() -> None:
    message_set = bytearray(b"abc")

    parts = [
        requests.encode_produce("logs", 3, -1, 30000, 2, message_set),
        requests.encode_append_at(7, "logs", 3, -1, 30000, 2, message_set),
        requests.encode_multi_produce(1, 30000, [("logs", 3, 0, message_set)]),
    ]

    assert all(request[-1] is message_set for request in parts)


@pytest.mark.parametrize("request_type", DECODERS)
def test_given_a_byte_too_few_or_too_many_when_decoded_then_frame_error(
    request_type: RequestType,
) -> None:
    frame = GOLDEN[request_type][4:]

    for wrong in [*(frame[:size] for size in range(len(frame))), frame + b"\0"]:
        with pytest.raises(FrameError):
            DECODERS[request_type](memoryview(wrong))


# Each is a golden frame with one size or count that lies; `at` counts from `type`.
@pytest.mark.parametrize(
    ("request_type", "at", "field", "lie"),
    [
        (RequestType.PRODUCE, 2, ">h", -1),
        (RequestType.PRODUCE, 2, ">h", -4),
        (RequestType.PRODUCE, 2, ">h", -32768),
        (RequestType.PRODUCE, 2, ">h", 32767),
        (RequestType.PRODUCE, 19, ">i", -1),
        (RequestType.PRODUCE, 19, ">i", 2),
        (RequestType.PRODUCE, 19, ">i", 2**31 - 1),
        (RequestType.APPEND_AT, 10, ">h", -1),
        (RequestType.APPEND_AT, 10, ">h", -15),
        (RequestType.APPEND_AT, 27, ">i", -1),
        (RequestType.MULTIPRODUCE, 8, ">h", -1),
        (RequestType.MULTIPRODUCE, 8, ">h", 0),
        (RequestType.MULTIPRODUCE, 8, ">h", 2),
        (RequestType.MULTIPRODUCE, 8, ">h", 32767),
        (RequestType.MULTIPRODUCE, 10, ">h", -2),
        (RequestType.MULTIPRODUCE, 21, ">i", -1),
        (RequestType.MULTIPRODUCE, 21, ">i", 2**31 - 1),
        (RequestType.MULTIFETCH, 15, ">h", -1),
        (RequestType.MULTIFETCH, 15, ">h", 2),
        (RequestType.MULTIFETCH, 15, ">h", 32767),
        (RequestType.FETCH, 2, ">h", -1),
        (RequestType.OFFSETS, 2, ">h", 30000),
        (RequestType.TOPICS, 2, ">h", -1),
        (RequestType.TOPICS, 2, ">h", 3),
        (RequestType.CREATE_TOPIC, 12, ">h", -1),
        (RequestType.CREATE_TOPIC, 12, ">h", 2),
        (RequestType.DELETE_TOPIC, 2, ">h", -1),
    ],
)
def test_given_a_size_or_count_that_lies_when_decoded_then_frame_error(
    request_type: RequestType, at: int, field: str, lie: int
) -> None:
    frame = bytearray(GOLDEN[request_type][4:])
    struct.pack_into(field, frame, at, lie)

    with pytest.raises(FrameError):
        DECODERS[request_type](memoryview(frame))


ENTRIES_MAX_DECODERS: dict[RequestType, Callable[[Buffer, int], object]] = {
    RequestType.MULTIPRODUCE: requests.decode_multi_produce,
    RequestType.MULTIFETCH: requests.decode_multi_fetch,
    RequestType.TOPICS: requests.decode_topics,
}


@pytest.mark.parametrize("request_type", ENTRIES_MAX_DECODERS)
def test_given_more_entries_than_allowed_when_decoded_then_refused_unless_the_frame_is_bad(
    request_type: RequestType,
) -> None:
    frame = GOLDEN[request_type][4:]
    decode = ENTRIES_MAX_DECODERS[request_type]

    with pytest.raises(InvalidRequestError):
        decode(memoryview(frame), 0)
    with pytest.raises(FrameError):
        decode(memoryview(frame[:-9]), 0)
    assert decode(memoryview(frame), 2) == DECODERS[request_type](memoryview(frame))


def test_given_a_multi_produce_when_only_its_acks_are_wanted_then_they_come() -> None:
    frame = GOLDEN[RequestType.MULTIPRODUCE][4:]

    assert requests.decode_multi_produce_acks(memoryview(frame)) == 1


def test_given_a_setting_that_is_not_utf8_when_decoded_then_frame_error() -> None:
    frame = GOLDEN[RequestType.CREATE_TOPIC][4:-1] + b"\xff"

    with pytest.raises(FrameError, match="UTF-8"):
        requests.decode_create_topic(frame)


def test_given_a_topic_that_is_not_utf8_when_decoded_then_it_stays_the_bytes_it_is() -> None:
    frame = frame_of(requests.encode_delete_topic(b"\xff"))

    assert requests.decode_delete_topic(frame) == b"\xff"


@pytest.mark.parametrize("request_type", DECODERS)
def test_given_any_bytes_when_decoded_then_a_value_or_frame_error(
    request_type: RequestType,
) -> None:
    @given(data=any_bytes(st.just(GOLDEN[request_type][4:])))
    def check(data: bytes) -> None:
        error = error_of(DECODERS[request_type], data)

        assert error is None or isinstance(error, FrameError)
        assert error_of(requests.decode_type, data) is None or len(data) < 2

    check()


def test_given_values_that_do_not_fit_when_encoded_then_invalid_request() -> None:
    with pytest.raises(InvalidRequestError):
        requests.encode_fetch("logs", 2**31, 0, 1, 1, 1, 0)
    with pytest.raises(InvalidRequestError):
        requests.encode_delete_topic("a" * 32768)
    with pytest.raises(InvalidRequestError):
        requests.encode_delete_topic("\ud800")
    with pytest.raises(InvalidRequestError):
        requests.encode_topics(["a"] * 32768)


def test_given_more_than_a_broker_takes_when_encoded_then_frame_too_large() -> None:
    message_set = bytes(limits.FRAME_BYTES_MAX)

    with pytest.raises(FrameTooLargeError):
        requests.encode_produce("logs", 0, 1, 1, 2, message_set)


def test_given_the_types_when_looked_up_then_their_numbers_are_without_a_gap() -> None:
    assert [int(request_type) for request_type in RequestType] == list(range(12))
