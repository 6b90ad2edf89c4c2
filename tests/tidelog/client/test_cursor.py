"""Cursor: where to read next, and when what there was has been read."""

from __future__ import annotations

import pytest

from protocol.errors import BrokerError, ErrorCode
from protocol.native.requests import decode_multi_fetch
from tidelog.client.cursor import Cursor
from tidelog.client.values import FetchAnswer, Message


def got(partition: int, offsets: list[int], next_offset: int, error: int = 0) -> FetchAnswer:
    messages = [Message("t", partition, offset, 0, None, b"v") for offset in offsets]
    return FetchAnswer("t", partition, error, messages, next_offset)


def asked(cursor: Cursor) -> list[tuple[int, int]]:
    """The partitions and offsets of the next fetch."""
    request = bytes(cursor.next_call().parts[0])
    entries = decode_multi_fetch(memoryview(request)[4:])[4]
    return [(partition, offset) for _, partition, offset, _ in entries]


def test_given_stops_when_reached_then_done_and_nothing_beyond_is_given() -> None:
    cursor = Cursor("t", {0: 5}, {0: 8})

    messages = cursor.accept([got(0, [5, 6, 7, 8, 9], 10)])

    assert [message.offset for message in messages] == [5, 6, 7]
    assert cursor.is_done


def test_given_an_empty_range_when_made_then_it_is_done_at_once() -> None:
    assert Cursor("t", {0: 5}, {0: 5}).is_done


def test_given_no_stops_when_read_then_it_follows_for_ever() -> None:
    cursor = Cursor("t", {0: 5}, None)

    cursor.accept([got(0, [], 5)])

    assert not cursor.is_done
    assert cursor.wait_ms > 0


def test_given_several_partitions_when_asked_again_then_another_one_comes_first() -> None:
    cursor = Cursor("t", {0: 0, 1: 0, 2: 0}, {0: 9, 1: 9, 2: 9})

    firsts = {asked(cursor)[0][0] for _ in range(3)}

    assert firsts == {0, 1, 2}


def test_given_an_empty_answer_behind_others_when_accepted_then_it_is_asked_again() -> None:
    """Its bytes may just not have fitted: only the first partition gets a batch for sure."""
    cursor = Cursor("t", {0: 0, 1: 0}, {0: 3, 1: 3})

    cursor.accept([got(0, [0, 1, 2], 3), got(1, [], 0)])

    assert asked(cursor) == [(1, 0)]


def test_given_records_compacted_away_up_to_the_stop_when_first_and_empty_then_it_is_done() -> None:
    cursor = Cursor("t", {0: 2}, {0: 9})

    messages = cursor.accept([got(0, [], 2)])

    assert messages == []
    assert cursor.is_done


def test_given_an_error_in_one_partition_when_accepted_then_raised_and_no_position_moves() -> None:
    cursor = Cursor("t", {0: 0, 1: 0}, None)

    with pytest.raises(BrokerError, match=r"OFFSET_OUT_OF_RANGE .*t-1 at offset 0: the offset is"):
        cursor.accept([got(0, [0], 1), got(1, [], 0, ErrorCode.OFFSET_OUT_OF_RANGE)])

    assert cursor.positions == {0: 0, 1: 0}


def test_given_a_ceiling_for_answers_when_asked_then_all_partitions_together_stay_below() -> None:
    cursor = Cursor("t", {0: 0, 1: 0}, None, response_bytes_max=50_000)

    request = bytes(cursor.next_call().parts[0])

    assert 2 + 2 * 6 + decode_multi_fetch(memoryview(request)[4:])[0] == 50_000


def test_given_a_retriable_error_beside_messages_when_accepted_then_it_is_asked_again() -> None:
    cursor = Cursor("t", {0: 0, 1: 0}, {0: 1, 1: 1})

    messages = cursor.accept([got(0, [0], 1), got(1, [], 0, ErrorCode.KAFKA_STORAGE_ERROR)])

    assert [message.partition for message in messages] == [0]
    assert asked(cursor) == [(1, 0)]


def test_given_a_retriable_error_and_nothing_else_when_accepted_then_it_is_raised() -> None:
    cursor = Cursor("t", {0: 0, 1: 0}, None)

    with pytest.raises(BrokerError, match="t-1") as raised:
        cursor.accept([got(0, [], 0), got(1, [], 0, ErrorCode.KAFKA_STORAGE_ERROR)])

    assert raised.value.retriable


def test_given_more_partitions_than_a_fetch_takes_when_asked_then_all_have_their_turn() -> None:
    cursor = Cursor("t", dict.fromkeys(range(1_200), 0), None)

    fetches = [asked(cursor) for _ in range(3)]

    assert max(map(len, fetches)) == 500
    assert {partition for fetch in fetches for partition, _ in fetch} == set(range(1_200))
