"""MULTIFETCH: several partitions, their order, and bounds over all of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.error_codes import ErrorCode
from protocol.native import requests
from protocol.simple_message_set import iterate
from tests.support.native_broker import OS, NativeBroker, batch


def multi_fetch(
    broker: NativeBroker,
    entries: list[tuple[str, int, int, int]],
    *,
    max_bytes: int = 1 << 20,
    message_format: int = 2,
) -> list[tuple[int, bytes]]:
    request = requests.encode_multi_fetch(max_bytes, 1, 0, message_format, entries)
    error, sends = broker.send(request).multi_fetched
    assert error == 0
    return [(send.error, bytes(send.message_set)) for send in sends]


# --- several partitions ---------------------------------------------------------------------------


def test_given_several_entries_when_fetched_then_each_has_its_answer_in_order():
    with NativeBroker() as broker:
        broker.create_topic("logs", 2)
        broker.produce("logs", batch(b"a"), partition=0)
        broker.produce("logs", batch(b"b", b"c"), partition=1)

        entries = [
            ("logs", 1, 1, 1_000),
            ("logs", 5, 0, 1_000),
            ("logs", 0, 1, 1_000),
            ("logs", 0, 0, 1_000),
            ("logs", 0, 0, 1_000),
            ("logs", 0, 9, 1_000),
        ]
        found = multi_fetch(broker, entries, message_format=0)

        assert [(error, list_values(data)) for error, data in found] == [
            (0, [b"c"]),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
            (0, []),
            (0, [b"a"]),
            (0, [b"a"]),
            (ErrorCode.OFFSET_OUT_OF_RANGE, []),
        ]


def list_values(data: bytes) -> list[bytes]:
    return [bytes(value) for _, value in iterate(data, 0)]


@pytest.mark.parametrize(("message_format", "max_bytes"), [(0, 20), (2, 1_000)])
def test_given_many_entries_when_fetched_then_they_take_turns_and_keep_their_order(
    message_format, max_bytes
):
    with NativeBroker() as broker:
        broker.create_topic("logs", 2)
        for number, value in enumerate((b"a", b"b")):
            broker.produce("logs", batch(value, value), partition=number)
        entries = [("logs", number % 2, 0, max_bytes) for number in range(250)]
        request = requests.encode_multi_fetch(1 << 20, 1, 0, message_format, entries)

        sent = broker.send(request, settle=False)
        waited, paused = sent.is_waiting, sent.pauses_reading
        broker.loop.settle()

        error, sends = sent.multi_fetched
        sets = [bytes(send.message_set) for send in sends]
        assert (waited, paused, error) == (True, True, 0)
        assert sets[0] != sets[1]
        assert sets == sets[:2] * 125


@pytest.mark.parametrize("number", [0, 99, 100, 249])
def test_given_many_entries_when_one_gets_records_then_all_are_answered(number: int):
    with NativeBroker() as broker:
        broker.create_topic("logs", 250, OS)
        entries = [("logs", each, 0, 1_000) for each in range(250)]
        sent = broker.send(requests.encode_multi_fetch(1 << 20, 1, 10_000, 2, entries))
        assert (sent.is_waiting, sent.pauses_reading) == (True, False)

        broker.produce("logs", batch(b"a"), partition=number)

        error, sends = sent.multi_fetched
        assert error == 0
        assert [place for place, send in enumerate(sends) if send.message_set] == [number]
        assert not any(broker.partition("logs", each).has_waiters for each in range(250))


def test_given_two_empty_entries_when_fetched_then_the_total_length_is_14():
    with NativeBroker() as broker:
        broker.create_topic("logs")

        entries = [("logs", 0, 0, 1_000)] * 2
        sent = broker.send(requests.encode_multi_fetch(1_000, 1, 0, 2, entries))

        assert sent.whole == bytes.fromhex("0000000e0000 000000020000 000000020000")


@pytest.mark.parametrize("message_format", [0, 2])
def test_given_little_room_when_fetched_then_only_the_first_with_data_exceeds_it(message_format):
    """KIP-74."""
    with NativeBroker() as broker:
        broker.create_topic("logs", 3)
        for number in (1, 2):
            broker.produce("logs", batch(bytes(500)), partition=number)

        entries = [("logs", number, 0, 10) for number in range(3)]
        found = multi_fetch(broker, entries, max_bytes=10, message_format=message_format)

        assert [bool(data) for _, data in found] == [False, True, False]


@pytest.mark.parametrize("message_format", [0, 2])
def test_given_a_bound_on_the_whole_when_fetched_then_it_holds_over_all_entries(message_format):
    with NativeBroker() as broker:
        broker.create_topic("logs", 4)
        for number in range(4):
            for _ in range(4):
                broker.produce("logs", batch(bytes(83)), partition=number)

        entries = [("logs", number, 0, 1_000) for number in range(4)]
        found = multi_fetch(broker, entries, max_bytes=700, message_format=message_format)

        sizes = [len(data) for _, data in found]
        assert 500 < sum(sizes) <= 700
        assert sizes[3] == 0


def test_given_no_entries_when_fetched_then_the_answer_comes_at_once_and_is_empty():
    with NativeBroker() as broker:
        sent = broker.send(requests.encode_multi_fetch(1_000, 1, 60_000, 2, []))

        assert sent.whole == bytes.fromhex("000000020000")


@settings(deadline=None, max_examples=40)
@given(
    counts=st.lists(st.integers(0, 6), min_size=1, max_size=3),
    asked=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 400)), max_size=5
    ),
    max_bytes=st.integers(0, 800),
    message_format=st.sampled_from([0, 1, 2]),
)
def test_given_any_request_when_fetched_then_the_bounds_and_the_order_hold(
    counts, asked, max_bytes, message_format
):
    with NativeBroker() as broker:
        broker.create_topic("logs", len(counts))
        for number, count in enumerate(counts):
            for n in range(count):
                broker.produce("logs", batch(b"%d" % n * 20), partition=number)

        entries = [("logs", number, offset, room) for number, offset, room in asked]
        found = multi_fetch(broker, entries, max_bytes=max_bytes, message_format=message_format)

        room = max_bytes
        is_first = True
        for (_, number, offset, entry_bytes), (error, data) in zip(entries, found, strict=True):
            if number >= len(counts):
                assert error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif offset > counts[number]:
                assert error == ErrorCode.OFFSET_OUT_OF_RANGE
            elif data:
                assert is_first or len(data) <= min(room, entry_bytes)
                room -= len(data)
                is_first = False
