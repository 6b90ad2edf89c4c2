"""Clients: cancelled calls, forks, and connections lost while producing."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from protocol.errors import ErrorCode
from protocol.native import responses
from tests.support.scripted_clients import BATCH, Connect
from tests.support.scripted_server import ScriptedServer
from tidelog.client import (
    AsyncClient,
    Client,
    ClientClosedError,
    UnexpectedOffsetError,
)


async def test_given_a_cancelled_call_when_its_answer_comes_then_the_next_gets_its_own() -> None:
    may_answer = threading.Event()

    def script(number: int, frame: bytes) -> bytes:
        may_answer.wait(10)
        return responses.encode_offsets_response(0, [number])

    with ScriptedServer(script) as server:
        async with AsyncClient(server.address) as client:
            first, second = (asyncio.ensure_future(client.offsets("t")) for _ in range(2))
            while not server.requests:
                await asyncio.sleep(0)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            may_answer.set()
            offsets = await second

    assert first.cancelled()
    assert offsets == [1]
    assert server.connections == 1


async def test_given_a_client_that_is_closed_while_it_connects_then_the_call_fails() -> None:
    with ScriptedServer(lambda number, frame: responses.encode_topics_response(0)) as server:
        client = AsyncClient(server.address)

        call = asyncio.ensure_future(client.topics())
        await asyncio.sleep(0)
        await client.close()

        with pytest.raises(ClientClosedError):
            await call


def test_given_a_fork_when_both_processes_call_then_each_has_a_connection_of_its_own() -> None:
    """Two processes on one socket would read each other's answers."""
    with (
        ScriptedServer(
            lambda number, frame: responses.encode_offsets_response(0, [number])
        ) as server,
        Client(server.address) as client,
        client.producer() as producer,
    ):
        client.offsets("t")
        child = os.fork()
        if child == 0:
            try:
                producer.produce("t", b"x", partition=0)
            except ClientClosedError:
                producer.flush()
                producer.close()
                os._exit(client.offsets("t")[0])  # the server takes this when the parent is gone
            os._exit(99)
        client.close()
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 1
    assert server.connections == 2


def test_given_append_at_elsewhere_when_answered_then_the_logs_end_is_told(
    connect: Connect,
) -> None:
    out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    client, _ = connect(
        lambda number, frame: responses.encode_produce_response(out_of_order, 41, -1, 0)
    )

    with pytest.raises(UnexpectedOffsetError) as raised:
        client.append_at("t", 0, 40, BATCH)

    assert (raised.value.expected_offset, raised.value.log_end_offset) == (40, 41)


def test_given_a_producer_when_a_connection_is_lost_then_its_messages_are_sent_again() -> None:
    def script(number: int, frame: bytes) -> bytes | None:
        if number == 0:
            return None
        return responses.encode_produce_response(0, 5, -1, 2)

    with (
        ScriptedServer(script) as server,
        Client(server.address) as client,
        client.producer() as producer,
    ):
        futures = [producer.produce("t", b"%d" % number, partition=0) for number in range(2)]
        offsets = [future.result(10).offset for future in futures]

    assert offsets == [5, 6]
    assert server.connections == 2


async def test_given_an_async_producer_when_a_connection_is_lost_then_messages_are_sent_again() -> (
    None
):
    def script(number: int, frame: bytes) -> bytes | None:
        if number == 0:
            return None
        return responses.encode_produce_response(0, 5, -1, 2)

    with ScriptedServer(script) as server:
        async with AsyncClient(server.address) as client, client.producer() as producer:
            futures = [
                await producer.produce("t", b"%d" % number, partition=0) for number in range(2)
            ]
            offsets = [(await future).offset for future in futures]

    assert offsets == [5, 6]
    assert server.connections == 2


def test_given_a_full_buffer_when_produced_then_it_waits_and_everything_is_delivered() -> None:
    def script(number: int, frame: bytes) -> bytes:
        return responses.encode_produce_response(0, number, -1, 1)

    with (
        ScriptedServer(script) as server,
        Client(server.address) as client,
        client.producer(linger_s=0.0, batch_bytes_max=100, buffer_bytes_max=300) as producer,
    ):
        futures = [producer.produce("t", bytes(60), partition=0) for _ in range(50)]

    assert [future.result(0).offset for future in futures] == list(range(50))
