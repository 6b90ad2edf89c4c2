"""Both clients: what fetches make of batches, cut ones, damaged ones and large ones."""

from __future__ import annotations

import struct

import pytest

from protocol.limits import REQUEST_ENTRIES_MAX
from protocol.native import requests, responses
from protocol.record_batch import Record
from protocol.record_batch_builder import build_batch
from tests.support.scripted_clients import BATCH, Connect, fetched
from tidelog.client import (
    BrokerError,
    ConnectionLostError,
    DamagedBatchError,
    ErrorCode,
    FetchFrom,
    FetchTooLargeError,
)


def test_given_batches_when_fetched_then_messages_from_the_asked_offset_on(
    connect: Connect,
) -> None:
    client, _ = connect(lambda number, frame: fetched())

    answer = client.fetch("t", 0, 8)

    assert [(m.offset, m.timestamp_ms, m.key, m.value) for m in answer.messages] == [
        (8, 1001, None, b"w")
    ]
    assert answer.next_offset == 9


def test_given_a_cut_last_batch_when_fetched_then_the_whole_ones_come_and_it_is_next(
    connect: Connect,
) -> None:
    client, _ = connect(lambda number, frame: fetched(BATCH + BATCH[:-3]))

    answer = client.fetch("t", 0, 7)

    assert [message.offset for message in answer.messages] == [7, 8]


def test_given_an_answer_over_the_ceiling_when_read_then_refused_and_the_connection_goes_on(
    connect: Connect,
) -> None:
    large = fetched(build_batch([Record(3, 0, None, bytes(50_000))], base_offset=3))
    client, server = connect(
        lambda number, frame: large if number == 0 else fetched(), response_bytes_max=10_000
    )

    with pytest.raises(FetchTooLargeError) as raised:
        client.fetch("logs", 2, 3)
    following = client.fetch("logs", 2, 7)

    assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("logs", 2, 3)
    assert raised.value.response_bytes == len(large) - 4
    assert len(following.messages) == 2
    assert server.connections == 1


def test_given_a_small_ceiling_when_fetched_then_no_more_is_asked_for_than_may_be_answered(
    connect: Connect,
) -> None:
    """Only a first batch over the ceiling is too large: many small ones come in several answers."""
    sources = [FetchFrom("t", number, 7) for number in range(3)]

    def script(number: int, frame: bytes) -> bytes:
        if number == 0:
            return fetched()
        return b"".join(responses.multi_message_set_send(0, [(0, [BATCH])] * 3))

    client, server = connect(script, response_bytes_max=10_000)

    client.fetch("t", 0, 7)
    client.multi_fetch(sources)

    assert 2 + requests.decode_fetch(server.requests[0])[3] == 10_000
    assert 2 + 3 * 6 + requests.decode_multi_fetch(server.requests[1])[0] == 10_000


@pytest.mark.parametrize("found_in", [0, 1])
def test_given_more_partitions_than_one_request_takes_when_fetched_then_the_wait_is_shared(
    connect: Connect, found_in: int
) -> None:
    """And is over with the first message."""
    sources = [FetchFrom("t", partition, 7) for partition in range(2_001)]
    asked: list[tuple[int, int, int, int]] = []

    def script(number: int, frame: bytes) -> bytes:
        max_bytes, min_bytes, max_wait_ms, _, entries = requests.decode_multi_fetch(
            frame, REQUEST_ENTRIES_MAX
        )
        asked.append((max_bytes, min_bytes, max_wait_ms, len(entries)))
        sets = [BATCH] if number == found_in else []
        sends = [(0, sets), *[(0, [])] * (len(entries) - 1)]
        return b"".join(responses.multi_message_set_send(0, sends))

    client, _ = connect(script)

    answers = client.multi_fetch(sources, max_bytes=1_001, max_wait_ms=90)

    assert [answer.partition for answer in answers] == list(range(2_001))
    assert [n for n, answer in enumerate(answers) if answer.messages] == [found_in * 2_000]
    assert asked == [(500, 1, 45, 2_000), (500, 1, 0 if found_in == 0 else 45, 1)]


@pytest.mark.parametrize(
    "nonsense",
    [struct.pack(">i", 1) + b"x", struct.pack(">i", -5), struct.pack(">i", 3) + b"\0\0x"],
    ids=["too short", "negative", "not an offsets answer"],
)
def test_given_an_answer_that_makes_no_sense_when_read_then_the_connection_counts_as_lost(
    connect: Connect, nonsense: bytes
) -> None:
    client, _ = connect(lambda number, frame: nonsense, retries=0)

    with pytest.raises(ConnectionLostError):
        client.offsets("t")


def test_given_a_damaged_batch_when_fetched_then_what_is_before_it_comes_and_it_is_named(
    connect: Connect,
) -> None:
    damaged = bytearray(build_batch([Record(9, 1000, None, b"z")], base_offset=9))
    damaged[-1] ^= 1
    client, _ = connect(
        lambda number, frame: fetched(bytes(BATCH + damaged)[number * len(BATCH) :])
    )

    before = client.fetch("logs", 2, 7)
    with pytest.raises(DamagedBatchError, match=r"logs-2 offset 9: .*crc") as raised:
        client.fetch("logs", 2, before.next_offset)

    assert [message.offset for message in before.messages] == [7, 8]
    assert (raised.value.partition, raised.value.offset) == (2, 9)


def test_given_too_few_answers_when_several_partitions_were_asked_then_it_makes_no_sense(
    connect: Connect,
) -> None:
    client, _ = connect(
        lambda number, frame: b"".join(responses.multi_message_set_send(0, [(0, [])])), retries=0
    )

    with pytest.raises(ConnectionLostError):
        client.multi_fetch([FetchFrom("t", 0, 0), FetchFrom("t", 1, 0)])


@pytest.mark.parametrize("number", [0, 1])
def test_given_a_first_batch_that_is_cut_when_fetched_then_it_is_damage_and_not_the_end(
    connect: Connect, number: int
) -> None:
    """The broker sends the first one whole: without this it would be fetched again for ever."""
    sets = [[b""] * number + [BATCH[:-3]] + [b""] * (1 - number)]
    client, _ = connect(
        lambda _, frame: b"".join(
            responses.multi_message_set_send(0, [(0, [part]) for part in sets[0]])
        ),
        retries=0,
    )

    with pytest.raises(DamagedBatchError):
        client.multi_fetch([FetchFrom("t", 0, 7), FetchFrom("t", 1, 7)])


def test_given_a_batch_cut_behind_another_partitions_when_fetched_then_it_comes_next_time(
    connect: Connect,
) -> None:
    client, _ = connect(
        lambda number, frame: b"".join(
            responses.multi_message_set_send(0, [(0, [BATCH]), (0, [BATCH[:-3]])])
        )
    )

    first, second = client.multi_fetch([FetchFrom("t", 0, 7), FetchFrom("t", 1, 7)])

    assert first.next_offset == 9
    assert (second.messages, second.next_offset) == ([], 7)


def test_given_batches_when_fetched_as_stored_then_whole_ones_and_where_to_go_on(
    connect: Connect,
) -> None:
    gap = build_batch([Record(20, 1, None, b"x")], base_offset=20, last_offset_delta=9)
    client, server = connect(lambda number, frame: fetched(BATCH + gap + BATCH[:-3]))

    answer = client.fetch_batches("t", 3, 8, max_bytes=1_000, min_bytes=2, max_wait_ms=30)

    assert bytes(answer.data) == BATCH + gap
    assert (answer.topic, answer.partition, answer.next_offset) == ("t", 3, 30)
    asked = requests.decode_fetch(server.requests[0])
    assert asked[1:] == (3, 8, 1_000, 2, 30, 2)


def test_given_nothing_new_when_fetched_as_stored_then_nothing_comes_and_the_offset_stays(
    connect: Connect,
) -> None:
    client, _ = connect(lambda number, frame: fetched(b""))

    answer = client.fetch_batches("t", 0, 8)

    assert (bytes(answer.data), answer.next_offset) == (b"", 8)


@pytest.mark.parametrize("first", [BATCH[:-3], bytes(100)], ids=["cut", "no batch"])
def test_given_a_first_batch_that_cannot_be_when_fetched_as_stored_then_it_is_damage(
    connect: Connect, first: bytes
) -> None:
    client, _ = connect(lambda number, frame: fetched(first))

    with pytest.raises(DamagedBatchError, match="logs-2 offset 8"):
        client.fetch_batches("logs", 2, 8)


def test_given_damage_behind_a_batch_when_fetched_as_stored_then_it_is_left_for_the_next_fetch(
    connect: Connect,
) -> None:
    client, _ = connect(lambda number, frame: fetched(BATCH + bytes(100)))

    assert client.fetch_batches("t", 0, 7).next_offset == 9


def test_given_an_error_when_fetched_as_stored_then_it_is_raised(connect: Connect) -> None:
    client, _ = connect(lambda number, frame: fetched(b"", ErrorCode.OFFSET_OUT_OF_RANGE))

    with pytest.raises(BrokerError, match="t-0"):
        client.fetch_batches("t", 0, 8)
