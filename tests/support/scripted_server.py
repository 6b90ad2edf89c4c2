"""A server that answers each request with what a script says: for clients' tests of bad days."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Container

Script = Callable[[int, bytes], bytes | None]
"""From the request's number and frame to the bytes to send; None closes the connection."""


class ScriptedServer:
    """Listens on loopback, serves connections one after the other on a thread of its own.

    Args:
        closes_after: Numbers of requests that are the last of their connection, though answered.
    """

    def __init__(self, script: Script, closes_after: Container[int] = ()) -> None:
        self._script, self._closes_after = script, closes_after
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.requests: list[bytes] = []
        self.connections = 0
        self.connection_ended = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Listen no more; again is fine."""
        if self._listening.fileno() >= 0:
            self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                self._answer(connection)
            self.connection_ended.release()

    def _answer(self, connection: socket.socket) -> None:
        while (head := _read(connection, 4)) is not None:
            frame = _read(connection, struct.unpack(">i", head)[0])
            if frame is None:
                return
            number = len(self.requests)
            self.requests.append(frame)
            answer = self._script(number, frame)
            if answer is None:
                return
            try:
                connection.sendall(answer)
            except OSError:
                return  # the client did not wait for it
            if number in self._closes_after:
                return


def _read(connection: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        try:
            piece = connection.recv(size - len(data))
        except OSError:
            return None
        if not piece:
            return None
        data += piece
    return data
