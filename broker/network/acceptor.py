"""Acceptor: takes connections in, and waits while the process is out of file descriptors.

Event loops do neither well: libuv accepts what it has no descriptor for and throws it away,
asyncio logs each failure of a whole backlog. Here the listening sockets are let alone until there
are descriptors again: clients wait in the kernel's queue, and nothing spins. Some descriptors are
kept back, so that what is open already goes on being served: files must be opened for it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
from collections.abc import Callable
from typing import Final

import structlog

log = structlog.get_logger("tidelog.network")

ACCEPTS_PER_TURN: Final = 16
"""Some tens of microseconds each; then the clients that are there already have their turn."""
RETRY_S: Final = 0.5
DESCRIPTORS_KEPT_MAX: Final = 256
DESCRIPTORS_KEPT_PART: Final = 8
"""One part in so many of all, but no more than the above, is kept for files."""

ROOM_MIN: Final = 8
"""So many descriptors must be free before connections are accepted again."""

_NOT_NOW: Final = frozenset(
    {errno.EAGAIN, errno.EINTR, errno.ECONNABORTED, errno.EPROTO, errno.EPERM}
)
"""Nobody waits, or who waited is gone, or a firewall said no: try the next one."""


class Acceptor:
    """Of the sockets of one listener; on the event loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sockets: list[socket.socket],
        make_connection: Callable[[], asyncio.BaseProtocol],
        *,
        on_out_of_files: Callable[[], object],
        descriptors_max: int | None = None,
    ) -> None:
        """Args:
        sockets: Listening, and not blocking; `stop` closes them.
        on_out_of_files: Is told at each try while there are no descriptors, to close some.
        descriptors_max: What connections may use, files counted; else by the process's limit.
        """
        self._loop, self._sockets, self._make_connection = loop, sockets, make_connection
        self._on_out_of_files = on_out_of_files
        self._descriptors_max = descriptors_max
        self._adopting: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self.is_paused = False
        """No descriptors: connections wait in the kernel's queue."""

    def start(self) -> None:
        """Begin to accept."""
        for listening in self._sockets:
            self._loop.add_reader(listening, self._accept_some, listening)

    def stop(self) -> None:
        """Accept no more, and close the sockets. A second call does nothing."""
        if self._is_stopped:
            return
        self._is_stopped = True
        if self._retry is not None:
            self._retry.cancel()
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()

    def _accept_some(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                accepted, _ = listening.accept()
            except OSError as error:
                if error.errno not in _NOT_NOW:  # EMFILE, ENFILE, ENOBUFS, ENOMEM, ...
                    self._pause(error.strerror or str(error))
                return
            self._adopt_soon(accepted)
            if accepted.fileno() >= self._bound():
                self._pause("too few file descriptors are left")
                return
            self._note_resumed()

    def _bound(self) -> int:
        """Return the first descriptor that connections may not use.

        Descriptors are numbers from 0 on, and a new one is the lowest that is free.
        """
        if self._descriptors_max is not None:
            return self._descriptors_max
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return 1 << 62
        return soft - min(DESCRIPTORS_KEPT_MAX, soft // DESCRIPTORS_KEPT_PART)

    def _adopt_soon(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._adopt(accepted))
        self._adopting.add(task)
        task.add_done_callback(self._adopting.discard)

    async def _adopt(self, accepted: socket.socket) -> None:
        try:
            if not self._is_stopped:
                await self._loop.connect_accepted_socket(self._make_connection, accepted)
                return
        except OSError as error:
            log.info("connection lost before it was served", error=error.strerror)
        accepted.close()

    # --- out of descriptors ---------------------------------------------------------------------

    def _pause(self, reason: str) -> None:
        """Leave the queue alone for a while; said once."""
        if not self.is_paused:
            self.is_paused = True
            log.error("no new connections are accepted for the time being", reason=reason)
        for listening in self._sockets:
            self._loop.remove_reader(listening)
        self._on_out_of_files()
        self._retry = self._loop.call_later(RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        if self._has_room():
            self.start()
        else:
            self._on_out_of_files()
            self._retry = self._loop.call_later(RETRY_S, self._try_again)

    def _has_room(self) -> bool:
        """Whether the next few connections would get descriptors that they may have.

        For one alone it is not worth it: the one after it would have to wait again.
        """
        probes: list[int] = []
        try:
            for _ in range(ROOM_MIN):
                probe = os.dup(self._sockets[0].fileno())
                probes.append(probe)  # at once: those before a failure are closed too
        except OSError:
            return False
        finally:
            for opened in probes:
                os.close(opened)
        return max(probes) < self._bound()

    def _note_resumed(self) -> None:
        if self.is_paused:
            self.is_paused = False
            log.warning("connections are accepted again")
