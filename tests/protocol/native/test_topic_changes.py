"""ALTER_TOPIC and DELETE_RECORDS, both ways."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import FrameError, InvalidRequestError
from protocol.identifiers import Buffer
from protocol.native import topic_changes
from protocol.native.request_types import RequestType
from protocol.native.requests import decode_type
from protocol.native.topic_changes import UP_TO_HIGH_WATERMARK, DeletedRecords
from tests.support.damage import any_bytes, error_of

# Written by hand from the specification's tables.
ALTER = bytes.fromhex("00000016 0009 0004 6c6f6773 0002 0001 6b 0002 c3a4 0001 6c 0000")
DELETE = bytes.fromhex(
    "00000022 000a 0004 6c6f6773 0002 00000003 000000000000002a 00000001 ffffffffffffffff"
)
DELETED = bytes.fromhex(
    "00000020 0000 0002 00000003 0000 000000000000002a 00000001 0001 ffffffffffffffff"
)

ALTERED_SETTINGS = {"k": "ä", "l": ""}
OFFSETS = [(3, 42), (1, UP_TO_HIGH_WATERMARK)]
RESULTS = [DeletedRecords(3, 0, 42), DeletedRecords(1, 1, -1)]

DECODERS: list[tuple[Callable[[Buffer], Any], bytes, Any]] = [
    (topic_changes.decode_alter_topic, ALTER, (b"logs", list(ALTERED_SETTINGS.items()))),
    (topic_changes.decode_delete_records, DELETE, (b"logs", OFFSETS)),
    (topic_changes.decode_delete_records_response, DELETED, (0, RESULTS)),
]
NAMES = [decode.__name__ for decode, _, _ in DECODERS]

TEXT = st.text(max_size=20)
I16 = st.integers(-(2**15), 2**15 - 1)
I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)


def frame_of(whole: bytes) -> memoryview:
    """A request or answer without its length, which must be right."""
    assert struct.unpack_from(">i", whole) == (len(whole) - 4,)
    return memoryview(whole)[4:]


@pytest.mark.parametrize(("decode", "golden", "value"), DECODERS, ids=NAMES)
def test_given_golden_bytes_when_decoded_then_they_are_the_values(
    decode: Callable[[Buffer], Any], golden: bytes, value: Any
) -> None:
    assert decode(frame_of(golden)) == value


def test_given_values_when_encoded_then_they_are_the_golden_bytes() -> None:
    assert topic_changes.encode_alter_topic("logs", ALTERED_SETTINGS) == ALTER
    assert topic_changes.encode_delete_records("logs", OFFSETS) == DELETE
    assert topic_changes.encode_delete_records_response(0, RESULTS) == DELETED
    assert decode_type(frame_of(ALTER)) == RequestType.ALTER_TOPIC
    assert decode_type(frame_of(DELETE)) == RequestType.DELETE_RECORDS


def test_given_a_request_that_failed_whole_when_answered_then_no_entries_follow() -> None:
    answer = topic_changes.encode_delete_records_response(3)

    assert answer == bytes.fromhex("00000004 0003 0000")
    assert topic_changes.decode_delete_records_response(frame_of(answer)) == (3, [])


@given(topic=TEXT, settings=st.dictionaries(TEXT, TEXT, max_size=4))
def test_given_any_settings_when_encoded_and_decoded_then_the_same(
    topic: str, settings: dict[str, str]
) -> None:
    frame = frame_of(topic_changes.encode_alter_topic(topic, settings))

    expected = (topic.encode(), list(settings.items()))
    assert topic_changes.decode_alter_topic(frame) == expected


@given(
    topic=TEXT,
    offsets=st.lists(st.tuples(I32, I64), max_size=5),
    error=I16,
    results=st.lists(st.builds(DeletedRecords, I32, I16, I64), max_size=5),
)
def test_given_any_offsets_when_encoded_and_decoded_then_the_same(
    topic: str, offsets: list[tuple[int, int]], error: int, results: list[DeletedRecords]
) -> None:
    request = frame_of(topic_changes.encode_delete_records(topic, offsets))
    answer = frame_of(topic_changes.encode_delete_records_response(error, results))

    assert topic_changes.decode_delete_records(request) == (topic.encode(), offsets)
    assert topic_changes.decode_delete_records_response(answer) == (error, results)


@pytest.mark.parametrize(("decode", "golden", "value"), DECODERS, ids=NAMES)
def test_given_a_byte_too_few_or_too_many_when_decoded_then_frame_error(
    decode: Callable[[Buffer], Any], golden: bytes, value: Any
) -> None:
    frame = golden[4:]

    for wrong in [*(frame[:size] for size in range(len(frame))), frame + b"\0"]:
        with pytest.raises(FrameError):
            decode(wrong)


@pytest.mark.parametrize(
    ("decode", "golden", "at", "lie"),
    [
        (topic_changes.decode_alter_topic, ALTER, 2, -1),
        (topic_changes.decode_alter_topic, ALTER, 2, 32767),
        (topic_changes.decode_alter_topic, ALTER, 8, -1),
        (topic_changes.decode_alter_topic, ALTER, 8, 3),
        (topic_changes.decode_alter_topic, ALTER, 8, 32767),
        (topic_changes.decode_alter_topic, ALTER, 13, -2),
        (topic_changes.decode_delete_records, DELETE, 8, -1),
        (topic_changes.decode_delete_records, DELETE, 8, 1),
        (topic_changes.decode_delete_records, DELETE, 8, 32767),
        (topic_changes.decode_delete_records_response, DELETED, 2, -1),
        (topic_changes.decode_delete_records_response, DELETED, 2, 1),
        (topic_changes.decode_delete_records_response, DELETED, 2, 32767),
    ],
)
def test_given_a_size_or_count_that_lies_when_decoded_then_frame_error(
    decode: Callable[[Buffer], Any], golden: bytes, at: int, lie: int
) -> None:
    frame = bytearray(golden[4:])
    struct.pack_into(">h", frame, at, lie)

    with pytest.raises(FrameError):
        decode(frame)


def test_given_more_entries_than_allowed_when_decoded_then_refused_unless_the_frame_is_bad() -> (
    None
):
    frame = frame_of(DELETE)

    with pytest.raises(InvalidRequestError):
        topic_changes.decode_delete_records(frame, 1)
    with pytest.raises(FrameError):
        topic_changes.decode_delete_records(frame[:-9], 1)
    assert topic_changes.decode_delete_records(frame, 2) == (b"logs", OFFSETS)


def test_given_a_setting_that_is_not_utf8_when_decoded_then_frame_error() -> None:
    frame = bytes(frame_of(ALTER)).replace("ä".encode(), b"\xff\xff")

    with pytest.raises(FrameError, match="UTF-8"):
        topic_changes.decode_alter_topic(frame)


@pytest.mark.parametrize(("decode", "golden", "value"), DECODERS, ids=NAMES)
def test_given_any_bytes_when_decoded_then_a_value_or_frame_error(
    decode: Callable[[Buffer], Any], golden: bytes, value: Any
) -> None:
    @given(data=any_bytes(st.just(golden[4:])))
    def check(data: bytes) -> None:
        error = error_of(decode, data)

        assert error is None or isinstance(error, FrameError)

    check()


def test_given_values_that_do_not_fit_when_encoded_then_invalid_request() -> None:
    with pytest.raises(InvalidRequestError):
        topic_changes.encode_delete_records("logs", [(2**31, 0)])
    with pytest.raises(InvalidRequestError):
        topic_changes.encode_delete_records("logs", [(0, 0)] * 32768)
    with pytest.raises(InvalidRequestError):
        topic_changes.encode_alter_topic("logs", {"k": "v" * 32768})
