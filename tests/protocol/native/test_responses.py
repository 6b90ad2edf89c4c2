"""Answers of the native protocol, both ways."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import FrameError
from protocol.identifiers import Buffer
from protocol.native import responses
from protocol.native.responses import (
    MessageSetSend,
    PartitionDescription,
    ProduceResponse,
    TopicDescription,
)
from tests.support.damage import any_bytes, error_of

I16 = st.integers(-(2**15), 2**15 - 1)
I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
PRODUCED = st.builds(ProduceResponse, I16, I64, I64, I32)
SENDS = st.lists(st.tuples(I16, st.lists(st.binary(max_size=20), max_size=3)), max_size=5)
TOPICS = st.lists(
    st.builds(
        TopicDescription,
        st.binary(max_size=10),
        I16,
        st.lists(st.builds(PartitionDescription, I32, I16, I64, I64, I64), max_size=4),
    ),
    max_size=4,
)

# Written by hand from the specification's tables, without total_length in front.
PRODUCE_ANSWER = bytes.fromhex("0000 000000000000002a ffffffffffffffff 00000002")
MULTIPRODUCE_ANSWER = bytes.fromhex(
    "0000 0002"
    "00000016 0000 000000000000002a ffffffffffffffff 00000002"
    "00000016 0003 ffffffffffffffff ffffffffffffffff 00000000"
)
FETCH_ANSWER = bytes.fromhex("0000 616263")
MULTIFETCH_ANSWER = bytes.fromhex("0000 00000005 0000 616263 00000002 0001")
OFFSETS_ANSWER = bytes.fromhex("0000 00000002 000000000000002a 0000000000000007")
TOPICS_ANSWER = bytes.fromhex(
    "0000 00000002"
    "0004 6c6f6773 0000 00000001 00000003 0000 0000000000000007 000000000000002a 0000000000000400"
    "0001 61 0003 00000000"
)
STATUS_ANSWER = bytes.fromhex("0024 0002 c3a4")

DECODERS: list[tuple[Callable[[Buffer], object], bytes]] = [
    (responses.decode_produce_response, PRODUCE_ANSWER),
    (responses.decode_multi_produce_response, MULTIPRODUCE_ANSWER),
    (responses.decode_multi_message_set_send, MULTIFETCH_ANSWER),
    (responses.decode_offsets_response, OFFSETS_ANSWER),
    (responses.decode_topics_response, TOPICS_ANSWER),
    (responses.decode_status_response, STATUS_ANSWER),
]
NAMES = [decode.__name__ for decode, _ in DECODERS]


def frame_of(answer: Buffer | list[Buffer]) -> bytes:
    """What a client's FrameReader gives of an answer, whose total length must be right."""
    whole = b"".join(answer) if isinstance(answer, list) else bytes(answer)
    assert struct.unpack_from(">i", whole) == (len(whole) - 4,)
    return whole[4:]


def test_given_golden_bytes_when_decoded_and_encoded_then_they_agree() -> None:
    abc, empty = MessageSetSend(0, memoryview(b"abc")), MessageSetSend(1, memoryview(b""))
    kept, unknown = ProduceResponse(0, 42, -1, 2), ProduceResponse(3, -1, -1, 0)
    topics = [
        TopicDescription(b"logs", 0, [PartitionDescription(3, 0, 7, 42, 1024)]),
        TopicDescription(b"a", 3, []),
    ]

    assert responses.decode_produce_response(PRODUCE_ANSWER) == kept
    assert responses.decode_multi_produce_response(MULTIPRODUCE_ANSWER) == (0, [kept, unknown])
    assert responses.decode_message_set_send(FETCH_ANSWER) == abc
    assert responses.decode_multi_message_set_send(MULTIFETCH_ANSWER) == (0, [abc, empty])
    assert responses.decode_offsets_response(OFFSETS_ANSWER) == (0, [42, 7])
    assert responses.decode_topics_response(TOPICS_ANSWER) == (0, topics)
    assert responses.decode_status_response(STATUS_ANSWER) == (36, "ä")
    assert frame_of(responses.encode_produce_response(*kept)) == PRODUCE_ANSWER
    multi_produced = responses.encode_multi_produce_response(0, [kept, unknown])
    assert frame_of(multi_produced) == MULTIPRODUCE_ANSWER
    assert frame_of(responses.message_set_send(0, [b"a", b"bc"])) == FETCH_ANSWER
    multi_fetched = responses.multi_message_set_send(0, [(0, [b"ab", b"c"]), (1, [])])
    assert frame_of(multi_fetched) == MULTIFETCH_ANSWER
    assert frame_of(responses.encode_offsets_response(0, [42, 7])) == OFFSETS_ANSWER
    assert frame_of(responses.encode_topics_response(0, topics)) == TOPICS_ANSWER
    assert frame_of(responses.encode_status_response(36, "ä")) == STATUS_ANSWER


def test_given_nothing_to_send_when_encoded_then_the_lengths_are_the_specifications() -> None:
    """Design, "Native protocol": empty is 00000002 0000; two empty ones are 14 in all."""
    empty = b"".join(responses.message_set_send(0))
    two = b"".join(responses.multi_message_set_send(0, [(0, []), (0, [])]))

    assert empty == bytes.fromhex("00000002 0000")
    assert two == bytes.fromhex("0000000e 0000 00000002 0000 00000002 0000")


def test_given_a_request_that_failed_whole_when_encoded_then_no_entries_follow() -> None:
    assert b"".join(responses.multi_message_set_send(42)) == bytes.fromhex("00000002 002a")
    assert responses.encode_multi_produce_response(21) == bytes.fromhex("00000004 0015 0000")


@given(produced=st.lists(PRODUCED, max_size=5), error=I16)
def test_given_any_produce_answers_when_encoded_and_decoded_then_the_same(
    produced: list[ProduceResponse], error: int
) -> None:
    whole = frame_of(responses.encode_multi_produce_response(error, produced))

    assert responses.decode_multi_produce_response(whole) == (error, produced)
    for answer in produced:
        frame = frame_of(responses.encode_produce_response(*answer))
        assert responses.decode_produce_response(frame) == answer


@given(sends=SENDS)
def test_given_any_sets_when_sent_and_decoded_then_the_same(
    sends: list[tuple[int, list[bytes]]],
) -> None:
    multi = frame_of(responses.multi_message_set_send(0, sends))

    expected = [MessageSetSend(error, memoryview(b"".join(parts))) for error, parts in sends]
    assert responses.decode_multi_message_set_send(multi) == (0, expected)
    for (error, parts), send in zip(sends, expected, strict=True):
        frame = frame_of(responses.message_set_send(error, parts))
        assert responses.decode_message_set_send(frame) == send


@given(offsets=st.lists(I64, max_size=5), error=I16, message=st.text(max_size=20), topics=TOPICS)
def test_given_any_other_answers_when_encoded_and_decoded_then_the_same(
    offsets: list[int], error: int, message: str, topics: list[TopicDescription]
) -> None:
    answered = responses.encode_offsets_response(error, offsets)
    described = responses.encode_topics_response(error, topics)
    told = responses.encode_status_response(error, message)

    assert responses.decode_offsets_response(frame_of(answered)) == (error, offsets)
    assert responses.decode_topics_response(frame_of(described)) == (error, topics)
    assert responses.decode_status_response(frame_of(told)) == (error, message)


def test_given_sets_when_sent_then_their_buffers_are_passed_on_not_copied() -> None:
    message_set = bytearray(b"abc")

    one = responses.message_set_send(0, [message_set])
    many = responses.multi_message_set_send(0, [(0, [message_set])])

    assert one[1] is message_set
    assert many[2] is message_set


def test_given_a_fetch_answer_when_decoded_then_the_sets_are_the_frames_own_memory() -> None:
    one, many = bytearray(FETCH_ANSWER), bytearray(MULTIFETCH_ANSWER)

    message_set = responses.decode_message_set_send(one).message_set
    sends = responses.decode_multi_message_set_send(many)[1]
    one[2:5] = many[8:11] = b"xyz"

    assert bytes(message_set) == b"xyz"
    assert bytes(sends[0].message_set) == b"xyz"


def test_given_a_message_too_long_when_encoded_then_cut_between_characters() -> None:
    answer = responses.encode_status_response(40, "ä" * 20_000)

    assert responses.decode_status_response(frame_of(answer)) == (40, "ä" * 16_383)


def test_given_a_message_utf8_cannot_hold_when_encoded_then_it_is_replaced_not_refused() -> None:
    answer = responses.encode_status_response(17, "\ud800")

    assert responses.decode_status_response(frame_of(answer)) == (17, "?")


@pytest.mark.parametrize(("decode", "golden"), DECODERS, ids=NAMES)
def test_given_a_byte_too_few_or_too_many_when_decoded_then_frame_error(
    decode: Callable[[Buffer], object], golden: bytes
) -> None:
    # A MULTIFETCH answer cut between two entries is whole: nothing in it counts them.
    whole = {golden[:2], golden[:11]} if golden is MULTIFETCH_ANSWER else set()
    wrong_ones = [*(golden[:size] for size in range(len(golden))), golden + b"\0"]

    for wrong in wrong_ones:
        if wrong not in whole:
            with pytest.raises(FrameError):
                decode(wrong)


def test_given_less_than_an_error_code_when_decoded_then_frame_error() -> None:
    with pytest.raises(FrameError):
        responses.decode_message_set_send(b"\0")


@pytest.mark.parametrize(
    ("decode", "golden", "at", "field", "lie"),
    [
        (responses.decode_multi_produce_response, MULTIPRODUCE_ANSWER, 2, ">h", -1),
        (responses.decode_multi_produce_response, MULTIPRODUCE_ANSWER, 2, ">h", 32767),
        (responses.decode_multi_produce_response, MULTIPRODUCE_ANSWER, 4, ">i", 21),
        (responses.decode_multi_message_set_send, MULTIFETCH_ANSWER, 2, ">i", -1),
        (responses.decode_multi_message_set_send, MULTIFETCH_ANSWER, 2, ">i", 1),
        (responses.decode_multi_message_set_send, MULTIFETCH_ANSWER, 2, ">i", 2**31 - 1),
        (responses.decode_offsets_response, OFFSETS_ANSWER, 2, ">i", -1),
        (responses.decode_offsets_response, OFFSETS_ANSWER, 2, ">i", 2**31 - 1),
        (responses.decode_topics_response, TOPICS_ANSWER, 2, ">i", -1),
        (responses.decode_topics_response, TOPICS_ANSWER, 2, ">i", 2**31 - 1),
        (responses.decode_topics_response, TOPICS_ANSWER, 14, ">i", -1),
        (responses.decode_topics_response, TOPICS_ANSWER, 14, ">i", 2**31 - 1),
        (responses.decode_status_response, STATUS_ANSWER, 2, ">h", -1),
        (responses.decode_status_response, STATUS_ANSWER, 4, ">h", -1),  # no UTF-8
    ],
)
def test_given_a_size_or_count_that_lies_when_decoded_then_frame_error(
    decode: Callable[[Buffer], object], golden: bytes, at: int, field: str, lie: int
) -> None:
    frame = bytearray(golden)
    struct.pack_into(field, frame, at, lie)

    with pytest.raises(FrameError):
        decode(frame)


@pytest.mark.parametrize(("decode", "golden"), DECODERS, ids=NAMES)
def test_given_any_bytes_when_decoded_then_a_value_or_frame_error(
    decode: Callable[[Buffer], object], golden: bytes
) -> None:
    @given(data=any_bytes(st.just(golden)))
    def check(data: bytes) -> None:
        error = error_of(decode, data)

        assert error is None or isinstance(error, FrameError)

    check()
