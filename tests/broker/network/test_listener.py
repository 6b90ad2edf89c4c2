"""Listener: real sockets, on uvloop and on plain asyncio."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine

import pytest
import uvloop

from broker.network.answers import Answer, PendingResponse
from broker.network.connection import Connection
from broker.network.limits import Admission, ConnectionLimits
from broker.network.listener import Listener
from broker.network.listening import bind_all
from tests.support.network import ClosedCounter, ScriptedHandler, framed


async def started(
    script: Callable[[bytes], Answer], limits: ConnectionLimits | None = None
) -> tuple[Listener, ClosedCounter]:
    closed = ClosedCounter()
    listener = Listener(
        "native",
        bind_all("127.0.0.1", 0, "listeners.native_port"),
        lambda connection: ScriptedHandler(script),
        Admission(limits or ConnectionLimits()),
        closed,
    )
    await listener.start()
    return listener, closed


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[object, object, None]], None]:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run_in_loop(main: Coroutine[object, object, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main)

    return run_in_loop


def test_given_large_and_small_frames_when_sent_over_a_socket_then_answered_in_order(run) -> None:
    big_answer = [b"head", memoryview(bytes(3_000_000))]

    async def main() -> None:
        listener, _ = await started(
            lambda body: big_answer if len(body) > 10_000 else b"%d;" % len(body)
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(framed(b"ab", b"x" * 1_500_000, b"abc"))

        received = await reader.readexactly(2 + 4 + 3_000_000 + 2)
        writer.close()
        listener.stop_accepting()
        cut = await listener.drain(time.monotonic() + 1)

        assert received[:6] == b"2;head"
        assert received[-2:] == b"3;"
        assert cut == 0

    run(main())


def test_given_a_client_that_was_there_first_when_started_then_its_idle_time_begins_now(
    run,
) -> None:
    """Else it would seem to be idle since the machine was started, and be cut off."""

    async def main() -> None:
        last_reads_s: list[float] = []
        sockets = [bind_all("127.0.0.1", 0, "listeners.native_port")[0] for _ in range(8)]
        waiting = socket.create_connection(sockets[0].getsockname())

        def make_handler(connection: Connection) -> ScriptedHandler:
            last_reads_s.append(connection.idleness.since_s)
            return ScriptedHandler(lambda body: b"ok")

        admission = Admission(ConnectionLimits())
        listener = Listener("native", sockets, make_handler, admission, ClosedCounter())
        before_s = time.monotonic()
        await listener.start()
        while not last_reads_s:
            await asyncio.sleep(0)
        waiting.close()
        listener.stop_accepting()
        await listener.drain(time.monotonic() + 1)

        assert last_reads_s[0] >= before_s

    run(main())


def test_given_an_accepted_connection_when_inspected_then_nagle_is_off(run) -> None:
    async def main() -> None:
        options: list[int] = []
        listener, _ = await started(lambda body: b"ok")
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(framed(b"ab"))
        await reader.readexactly(2)

        for connection in listener.connections:
            accepted = connection._transport.get_extra_info("socket")  # type: ignore[union-attr]
            options.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()
        listener.stop_accepting()
        await listener.drain(time.monotonic() + 1)

        assert options == [1]

    run(main())


def test_given_an_answer_under_way_when_drained_then_it_is_sent_before_the_close(run) -> None:
    async def main() -> None:
        pending = PendingResponse()
        listener, closed = await started(lambda body: pending)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(framed(b"ab"))
        while not any(not connection.is_idle for connection in listener.connections):
            await asyncio.sleep(0)

        listener.stop_accepting()
        draining = asyncio.ensure_future(listener.drain(time.monotonic() + 5))
        asyncio.get_running_loop().call_later(0.02, pending.complete, b"done")
        received = await reader.read()
        writer.close()

        assert received == b"done"
        assert await draining == 0
        assert closed.reasons == ["shutdown"]

    run(main())


def test_given_an_answer_that_never_comes_when_the_deadline_passes_then_it_is_cut(run) -> None:
    async def main() -> None:
        listener, closed = await started(lambda body: PendingResponse())
        _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(framed(b"ab"))
        while not any(not connection.is_idle for connection in listener.connections):
            await asyncio.sleep(0)

        listener.stop_accepting()
        cut = await listener.drain(time.monotonic())
        writer.close()

        assert cut == 1
        assert closed.reasons == ["shutdown"]

    run(main())


def test_given_more_clients_than_allowed_when_they_leave_then_new_ones_are_served(run) -> None:
    async def main() -> None:
        listener, closed = await started(lambda body: b"ok", ConnectionLimits(connections_max=2))
        kept = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(2)]
        for reader, writer in kept:
            writer.write(framed(b"ab"))
            assert await reader.readexactly(2) == b"ok"

        refused_reader, refused_writer = await asyncio.open_connection("127.0.0.1", listener.port)
        assert await refused_reader.read() == b""
        refused_writer.close()
        for _, writer in kept:
            writer.close()
        while listener.connections:
            await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(framed(b"ab"))

        assert await reader.readexactly(2) == b"ok"
        assert closed.reasons.count("too_many_connections") == 1
        writer.close()
        listener.stop_accepting()
        await listener.drain(time.monotonic() + 1)

    run(main())
