"""Listener: accepts the connections of one protocol, watches over them and drains them."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Final

import structlog

from broker.network.acceptor import Acceptor
from broker.network.answers import FrameHandler
from broker.network.connection import Connection
from broker.network.limits import Admission, ClosedConnections
from broker.network.listening import address_text
from broker.network.receive_buffer import SharedReceiveBuffer

log = structlog.get_logger("tidelog.network")

WATCH_INTERVAL_S: Final = 1.0
DRAIN_POLL_S: Final = 0.01


class Listener:
    """The sockets of one protocol and the connections that came in on them."""

    def __init__(
        self,
        name: str,
        sockets: list[socket.socket],
        make_handler: Callable[[Connection], FrameHandler],
        admission: Admission,
        counters: ClosedConnections,
        on_out_of_files: Callable[[], object] = lambda: None,
    ) -> None:
        """Args:
        on_out_of_files: Is told when there are no descriptors for connections: who has some that
            can be spared closes them.
        """
        self.name, self._sockets, self._admission = name, sockets, admission
        self._make_handler, self._counters = make_handler, counters
        self._on_out_of_files = on_out_of_files
        self._acceptor: Acceptor | None = None
        self._watch: asyncio.TimerHandle | None = None
        self.connections: set[Connection] = set()

    async def start(self) -> None:
        """Begin to accept. The sockets listen already, so nobody was refused in between."""
        loop = asyncio.get_running_loop()
        receive = SharedReceiveBuffer()

        def make_connection() -> Connection:
            connection = Connection(
                loop,
                self._admission,
                receive,
                self._make_handler,
                self._counters,
                self.connections.discard,
            )
            self.connections.add(connection)
            return connection

        self._watch_connections(loop)  # first: the coarse clock tells who is idle
        self._acceptor = Acceptor(
            loop, self._sockets, make_connection, on_out_of_files=self._on_out_of_files
        )
        self._acceptor.start()

    def problems(self) -> list[str]:
        """Return what is wrong with it, a sentence each."""
        if self.is_accepting:
            return []
        return [f"{self.name}: new connections wait, for there are no file descriptors for them"]

    @property
    def is_accepting(self) -> bool:
        """False while there are no descriptors for connections: they wait in the kernel's queue."""
        return self._acceptor is None or not self._acceptor.is_paused

    @property
    def addresses(self) -> list[str]:
        """Where it listens, as "127.0.0.1:9091"."""
        return [address_text(opened) for opened in self._sockets]

    @property
    def port(self) -> int:
        return int(self._sockets[0].getsockname()[1])

    def _watch_connections(self, loop: asyncio.AbstractEventLoop) -> None:
        """Renew the coarse clock and end connections that are idle or withhold a frame."""
        now_s = self._admission.now_s = time.monotonic()
        self._admission.forget_quotas(now_s)
        for connection in list(self.connections):
            reason = connection.overdue(now_s)
            if reason is not None:
                log.info("connection closed", peer=connection.peer, reason=reason)
                connection.abort(reason)
        self._watch = loop.call_later(WATCH_INTERVAL_S, self._watch_connections, loop)

    def stop_accepting(self) -> None:
        """Close the listening sockets and handle no further request; answers still leave."""
        self._admission.is_draining = True
        if self._acceptor is not None:
            self._acceptor.stop()
        else:
            for opened in self._sockets:
                opened.close()
        for connection in self.connections:
            connection.pause_reading()

    async def drain(self, deadline_s: float) -> int:
        """Wait until every answer under way has left, then close all connections.

        Args:
            deadline_s: Monotonic seconds after which connections are cut.

        Returns:
            How many connections were cut with something still under way.
        """
        while any(not connection.is_idle for connection in self.connections):
            if time.monotonic() >= deadline_s:
                break
            await asyncio.sleep(DRAIN_POLL_S)
        cut = 0
        for connection in list(self.connections):
            if connection.is_idle:
                connection.close("shutdown")
            else:
                cut += 1
                connection.abort("shutdown")
        if self._watch is not None:
            self._watch.cancel()
        await asyncio.sleep(0)
        return cut
