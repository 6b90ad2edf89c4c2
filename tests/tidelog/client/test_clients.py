"""Both clients on bad days: too large, cut, late, wrong, gone and back."""

from __future__ import annotations

import threading

import pytest

from protocol.errors import BrokerError, ErrorCode
from protocol.limits import REQUEST_ENTRIES_MAX
from protocol.native import requests, responses, topic_changes, transactions
from protocol.native.request_types import RequestType
from tests.support.scripted_clients import Connect, fetched
from tests.support.scripted_server import ScriptedServer
from tidelog.client import (
    LATEST,
    Client,
    ConnectionLostError,
)


def test_given_an_error_code_when_answered_then_an_exception_that_names_it(
    connect: Connect,
) -> None:
    client, _ = connect(lambda number, frame: fetched(b"", ErrorCode.OFFSET_OUT_OF_RANGE))

    with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE") as raised:
        client.fetch("t", 0, 99)

    assert raised.value.error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert not raised.value.retriable


def test_given_a_lost_connection_when_a_call_only_asks_then_it_is_repeated_on_a_new_one(
    connect: Connect,
) -> None:
    client, server = connect(lambda number, frame: None if number == 0 else fetched())

    answer = client.fetch("t", 0, 7)

    assert len(answer.messages) == 2
    assert server.connections == 2


def test_given_a_lost_connection_when_a_call_changes_something_then_it_is_not_repeated(
    connect: Connect,
) -> None:
    client, server = connect(lambda number, frame: None)

    with pytest.raises(ConnectionLostError):
        client.create_topic("t")

    assert len(server.requests) == 1


def test_given_a_retriable_error_when_answered_then_asked_again_until_the_retries_are_used_up(
    connect: Connect,
) -> None:
    client, server = connect(
        lambda number, frame: fetched(b"", ErrorCode.KAFKA_STORAGE_ERROR), retries=2
    )

    with pytest.raises(BrokerError, match="KAFKA_STORAGE_ERROR"):
        client.fetch("t", 0, 7)

    assert len(server.requests) == 3


@pytest.mark.parametrize(("offsets", "sent"), [({0: 5}, 3), ({0: LATEST}, 1)])
def test_given_a_lost_connection_when_records_are_deleted_then_repeated_if_that_deletes_the_same(
    connect: Connect, offsets: dict[int, int], sent: int
) -> None:
    client, server = connect(lambda number, frame: None, retries=2)

    with pytest.raises(ConnectionLostError):
        client.delete_records("t", offsets)

    assert len(server.requests) == sent


def test_given_results_of_other_partitions_when_records_are_deleted_then_it_makes_no_sense(
    connect: Connect,
) -> None:
    answer = topic_changes.encode_delete_records_response(0, [(1, 0, 5)])
    client, _ = connect(lambda number, frame: answer, retries=0)

    with pytest.raises(ConnectionLostError):
        client.delete_records("t", {0: 5})


def test_given_more_names_or_partitions_than_one_request_takes_when_asked_then_several_are_sent(
    connect: Connect,
) -> None:
    names = [f"t{number}" for number in range(4_500)]

    def script(number: int, frame: bytes) -> bytes:
        if requests.decode_type(frame) == RequestType.TOPICS:
            asked = requests.decode_topics(frame, REQUEST_ENTRIES_MAX)
            return responses.encode_topics_response(0, [(name, 3, ()) for name in asked])
        _, entries = topic_changes.decode_delete_records(frame, REQUEST_ENTRIES_MAX)
        return topic_changes.encode_delete_records_response(
            0, [(partition, 0, offset) for partition, offset in entries]
        )

    client, server = connect(script)

    assert [info.name for info in client.topics(*names)] == names
    deleted = client.delete_records("t", dict.fromkeys(range(2001), 7))

    assert [each[1:] for each in deleted] == [(number, 0, 7) for number in range(2_001)]
    assert len(server.requests) == 3 + 2


def test_given_more_aborted_transactions_than_one_answer_has_when_asked_then_all_are_told(
    connect: Connect,
) -> None:
    every = [(7, 2 * number, 2 * number + 1) for number in range(transactions.ABORTED_MAX + 3)]

    def script(number: int, frame: bytes) -> bytes:
        _, _, start, end = transactions.decode_transactions(frame)
        left = [each for each in every if each[1] < end and each[2] >= start]
        return transactions.encode_transactions_response(0, 99, left[: transactions.ABORTED_MAX])

    client, server = connect(script)

    told = client.transactions("t", 5, start=0, end=1 << 40)

    assert (told.last_stable_offset, told.aborted) == (99, every)
    assert len(server.requests) == 2
    assert client.transactions("t", end=4).aborted == every[:2]


def test_given_nobody_listening_when_called_then_an_error_that_names_the_address(
    connect: Connect,
) -> None:
    client, server = connect(lambda number, frame: None, retries=0)
    address = server.address
    server.stop()

    with pytest.raises(ConnectionLostError, match=address):
        client.topics()


def test_given_a_late_answer_when_the_next_call_is_made_then_it_gets_its_own(
    connect: Connect,
) -> None:
    timed_out = threading.Event()

    def script(number: int, frame: bytes) -> bytes:
        if number == 0:
            timed_out.wait(10)
        return responses.encode_offsets_response(0, [number])

    client, server = connect(script, timeout_s=0.05, retries=0)

    with pytest.raises(ConnectionLostError, match="timed out"):
        client.offsets("t")
    timed_out.set()
    offsets = client.offsets("t")

    assert offsets == [1]
    assert server.connections == 2


def test_given_an_idle_connection_that_the_broker_closed_when_called_then_a_new_one_is_made() -> (
    None
):
    """Also for a call that is not repeated: it was never sent. (An event loop notices itself.)"""
    with (
        ScriptedServer(
            lambda number, frame: responses.encode_status_response(0), closes_after={0}
        ) as server,
        Client(server.address) as client,
    ):
        client.create_topic("first")
        server.connection_ended.acquire(timeout=10)
        client.create_topic("second")

        assert len(server.requests) == 2
