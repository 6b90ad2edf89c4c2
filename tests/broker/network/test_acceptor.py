"""Acceptor: what happens to new connections while the process is out of file descriptors."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine
from typing import cast

import pytest
import structlog
import uvloop

from broker.network import acceptor
from broker.network.acceptor import Acceptor
from broker.network.listening import bind_all

GREETING = b"served"


class Greeter(asyncio.Protocol):
    """Says something to whoever is served."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(GREETING)


class FailingSocket(socket.socket):
    """A listening socket whose accept fails as often as it is told."""

    failures: list[int]
    calls = 0

    def accept(self) -> tuple[socket.socket, object]:
        self.calls += 1
        if self.failures:
            number = self.failures.pop(0)
            raise OSError(number, "cannot accept")
        return super().accept()


def failing_socket(*failures: int) -> FailingSocket:
    (bound,) = bind_all("127.0.0.1", 0, "listeners.native_port")
    listening = FailingSocket(bound.family, bound.type, bound.proto, bound.detach())
    listening.setblocking(False)
    listening.failures = list(failures)
    return listening


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[object, object, None]], None]:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run_in_loop(main: Coroutine[object, object, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main)

    return run_in_loop


async def greeted(listening: socket.socket) -> bytes:
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    try:
        return await reader.readexactly(len(GREETING))
    finally:
        writer.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_given_no_descriptors_when_clients_come_then_they_wait_and_are_served(
    run, monkeypatch, number
) -> None:
    monkeypatch.setattr(acceptor, "RETRY_S", 0.02)
    listening = failing_socket(number, number, number)
    told: list[None] = []

    async def main() -> None:
        taking = Acceptor(
            asyncio.get_running_loop(),
            [listening],
            Greeter,
            on_out_of_files=lambda: told.append(None),
        )
        taking.start()
        answers = await asyncio.gather(*(greeted(listening) for _ in range(3)))
        taking.stop()

        assert answers == [GREETING] * 3
        assert not taking.is_paused

    with structlog.testing.capture_logs() as logged:
        run(main())

    assert listening.calls <= 3 + 3 + 5, "it tries again from time to time, and does not spin"
    assert len(told) == 3
    assert [(entry["log_level"], entry["event"]) for entry in logged] == [
        ("error", "no new connections are accepted for the time being"),
        ("warning", "connections are accepted again"),
    ]


def test_given_few_descriptors_left_when_clients_come_then_files_keep_some(
    run, monkeypatch
) -> None:
    monkeypatch.setattr(acceptor, "RETRY_S", 0.02)
    listening = failing_socket()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        bound = [0]
        taking = Acceptor(loop, [listening], Greeter, on_out_of_files=lambda: None)
        monkeypatch.setattr(taking, "_bound", lambda: bound[0])
        taking.start()
        first = await greeted(listening)  # the one that found it out is served
        second = loop.create_task(greeted(listening))
        await asyncio.wait([second], timeout=0.1)
        was_waiting, calls = not second.done(), listening.calls

        bound[0] = 1 << 30
        served = await second
        taking.stop()

        assert (first, was_waiting, served) == (GREETING, True, GREETING)
        assert calls == 1, "while there are none the queue is not even looked at"

    run(main())


def test_given_a_client_that_has_gone_when_accepted_then_the_next_one_is_served(run) -> None:
    listening = failing_socket(errno.ECONNABORTED)

    async def main() -> None:
        taking = Acceptor(
            asyncio.get_running_loop(), [listening], Greeter, on_out_of_files=lambda: None
        )
        taking.start()
        answer = await greeted(listening)
        taking.stop()

        assert answer == GREETING

    with structlog.testing.capture_logs() as logged:
        run(main())

    assert logged == []


def test_given_a_pause_when_stopped_then_nothing_is_tried_again(run, monkeypatch) -> None:
    monkeypatch.setattr(acceptor, "RETRY_S", 0.01)
    listening = failing_socket(*[errno.EMFILE] * 1_000)

    async def main() -> None:
        taking = Acceptor(
            asyncio.get_running_loop(), [listening], Greeter, on_out_of_files=lambda: None
        )
        taking.start()
        client = socket.create_connection(listening.getsockname())
        while not taking.is_paused:
            await asyncio.sleep(0)

        taking.stop()
        calls = listening.calls
        await asyncio.sleep(0.05)

        assert listening.calls == calls
        client.close()

    run(main())
