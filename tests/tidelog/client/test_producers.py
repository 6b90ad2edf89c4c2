"""Both producers: closing, flushing and waiting, while others produce."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import Future

import pytest

from protocol.native import responses
from tests.support.scripted_server import ScriptedServer
from tidelog.client import AsyncClient, Client, ClientClosedError


def accept(number: int, frame: bytes) -> bytes:
    return responses.encode_produce_response(0, number, -1, 1)


class Gate:
    """A script that accepts what is produced, once it has been opened."""

    def __init__(self) -> None:
        self._opened = threading.Event()

    def __call__(self, number: int, frame: bytes) -> bytes:
        self._opened.wait(10)
        return accept(number, frame)

    def open(self) -> None:
        self._opened.set()


@pytest.mark.parametrize("call", ["flush", "close"])
def test_given_another_thread_that_never_stops_when_flushed_or_closed_then_it_ends(
    call: str,
) -> None:
    stop = threading.Event()

    def produce_and_accept(number: int, frame: bytes) -> bytes:
        with contextlib.suppress(ClientClosedError):
            if not stop.is_set():
                producer.produce("t", b"more", partition=0)
        return accept(number, frame)

    with ScriptedServer(produce_and_accept) as server, Client(server.address) as client:
        producer = client.producer(linger_s=0.0)
        producer.produce("t", b"first", partition=0)
        ending = threading.Thread(target=getattr(producer, call), daemon=True)
        ending.start()
        ending.join(3)
        ended = not ending.is_alive()
        stop.set()
        producer.close()

    assert ended


@pytest.mark.parametrize("step", range(4))
def test_given_ctrl_c_as_a_lock_is_taken_when_closed_then_it_ends(
    monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    left = step

    def interrupted(condition: threading.Condition) -> None:
        nonlocal left
        condition.acquire()  # what the real one does; then, with the lock in its hands:
        if threading.current_thread() is threading.main_thread():
            left -= 1
            if left < 0:
                raise KeyboardInterrupt

    with ScriptedServer(accept) as server, Client(server.address) as client:
        producer = client.producer()
        with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
            patch.setattr(threading.Condition, "__enter__", interrupted)
            producer.produce("t", b"first", partition=0)
        closing = threading.Thread(target=producer.close, daemon=True)
        closing.start()
        closing.join(5)

        assert not closing.is_alive()


async def test_given_messages_that_wait_for_room_when_closed_then_each_is_sent_or_refused() -> None:
    gate = Gate()

    with ScriptedServer(gate) as server:
        client = AsyncClient(server.address)
        producer = client.producer(linger_s=0.0, batch_bytes_max=50, buffer_bytes_max=200)
        calls = [
            asyncio.ensure_future(producer.produce("t", bytes(40), partition=0)) for _ in range(9)
        ]
        closing = asyncio.ensure_future(producer.close())
        await asyncio.sleep(0)
        gate.open()
        await closing
        taken = await asyncio.gather(*calls, return_exceptions=True)
        futures = [one for one in taken if isinstance(one, asyncio.Future)]
        deliveries = await asyncio.wait_for(asyncio.gather(*futures), 10)
        await client.close()

    refused = [one for one in taken if isinstance(one, ClientClosedError)]
    assert len(deliveries) + len(refused) == 9
    assert deliveries
    assert refused


def test_given_a_long_linger_when_closed_then_nothing_waits_for_it() -> None:
    with ScriptedServer(accept) as server, Client(server.address) as client:
        producer = client.producer(linger_s=3600)
        future = producer.produce("t", b"x", partition=0)

        producer.close()

    assert future.result(0).offset == 0


def test_given_a_message_that_was_taken_when_cancelled_then_it_is_sent_and_flush_ends() -> None:
    with ScriptedServer(accept) as server, Client(server.address) as client:
        producer = client.producer(linger_s=3600)
        future = producer.produce("t", b"x", partition=0)

        cancelled = future.cancel()
        flushing = threading.Thread(target=producer.flush, args=([future],), daemon=True)
        flushing.start()
        flushing.join(10)
        producer.close()

    assert not cancelled
    assert not flushing.is_alive()
    assert future.result(0).offset == 0


def test_given_a_callback_that_waits_for_another_thread_when_that_produces_then_no_deadlock() -> (
    None
):
    """Callbacks run without the producer's lock: they may wait for one of the user's own."""
    in_callback, produced = threading.Event(), threading.Event()
    in_time: list[bool] = []

    def callback(_: Future[object]) -> None:
        in_callback.set()
        in_time.append(produced.wait(10))

    with (
        ScriptedServer(accept) as server,
        Client(server.address) as client,
        client.producer(linger_s=0.0) as producer,
    ):
        producer.produce("t", b"x", partition=0).add_done_callback(callback)
        in_callback.wait(10)
        producer.produce("t", b"y", partition=0)
        produced.set()

    assert in_time == [True]


def test_given_a_callback_when_it_produces_or_flushes_then_it_does_not_wait_for_itself() -> None:
    gate = Gate()
    later: list[Future[object]] = []
    errors: list[Exception] = []

    def callback(_: Future[object]) -> None:
        try:
            producer.flush()
        except RuntimeError as error:
            errors.append(error)
        later.append(producer.produce("t", bytes(40), partition=0))

    with (
        ScriptedServer(gate) as server,
        Client(server.address) as client,
        client.producer(linger_s=0.0, batch_bytes_max=50, buffer_bytes_max=80) as producer,
    ):
        for _ in range(2):
            producer.produce("t", bytes(40), partition=0).add_done_callback(callback)
        gate.open()
        while len(later) < 2:
            producer.flush()

    assert len(errors) == 2
    assert all(future.done() for future in later)
