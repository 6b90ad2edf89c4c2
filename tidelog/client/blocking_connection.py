"""BlockingConnection: calls over one socket, one thread at a time."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from protocol.errors import FrameError
from tidelog.client.address import Address
from tidelog.client.calls import Call
from tidelog.client.errors import ConnectionLostError

T = TypeVar("T")

LENGTH: Final = struct.Struct(">i")
DISCARD_BYTES: Final = 1024 * 1024


class BlockingConnection:
    """A connection that is made when first used, and again after it was lost.

    Args:
        timeout_s: How long to wait for the broker in one read or write, beside a call's own wait.
        response_bytes_max: Larger answers are dropped as they come in, not buffered.
    """

    def __init__(self, address: Address, *, timeout_s: float, response_bytes_max: int) -> None:
        self._address, self._timeout_s = address, timeout_s
        self._response_bytes_max = response_bytes_max
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process_id = os.getpid()

    def call(self, call: Call[T], *, extra_wait_s: float = 0.0) -> T:
        """Send one request and return what its answer says.

        Raises:
            ConnectionLostError: no answer came; the next call connects anew.
            ResponseTooLargeError: the answer was dropped; the connection stays usable.
            BrokerError: the broker's error code.
        """
        outcome = self.call_all([call], extra_wait_s=extra_wait_s)[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    def call_all(self, calls: Sequence[Call[Any]], *, extra_wait_s: float = 0.0) -> list[Any]:
        """Send the requests in one go, then read the answers; exceptions stand in the list.

        Raises:
            ConnectionLostError: for all of them; which were carried out is not known.
        """
        self._leave_to_parent()
        with self._lock:
            try:
                connection = self._connected()
                connection.settimeout(self._timeout_s + extra_wait_s)
                connection.sendall(b"".join(part for call in calls for part in call.parts))
                return [self._outcome(connection, call) for call in calls]
            except (OSError, FrameError) as error:
                self._disconnect()
                raise ConnectionLostError(
                    f"{self._address}: {str(error) or 'timed out'}"
                ) from error
            except BaseException:  # interrupted between request and answer: out of step
                self._disconnect()
                raise

    def close(self) -> None:
        """Close the connection; a later call would make a new one."""
        self._leave_to_parent()
        with self._lock:
            self._disconnect()

    def _leave_to_parent(self) -> None:
        """In a forked process: drop the parent's connection, whose lock may be held for ever."""
        if self._process_id != os.getpid():
            self._process_id, self._lock = os.getpid(), threading.Lock()
            self._disconnect()  # closes this process's descriptor only

    def _connected(self) -> socket.socket:
        if self._socket is not None and _is_stale(self._socket):
            self._disconnect()
        if self._socket is None:
            self._socket = socket.create_connection(self._address, self._timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _outcome(self, connection: socket.socket, call: Call[Any]) -> Any:
        if not call.has_answer:
            return None
        (size,) = LENGTH.unpack(self._read(connection, LENGTH.size))
        if size < 2:
            raise FrameError(f"an answer of {size} bytes")
        if size > self._response_bytes_max:
            self._discard(connection, size)
            return call.too_large(size, self._response_bytes_max)
        frame = self._read(connection, size)
        try:
            return call.parse(frame)
        except FrameError:
            raise
        except Exception as error:
            return error

    def _read(self, connection: socket.socket, size: int) -> memoryview:
        frame = memoryview(bytearray(size))
        filled = 0
        while filled < size:
            got = connection.recv_into(frame[filled:])
            if not got:
                raise ConnectionResetError("the broker closed the connection")
            filled += got
        return frame

    def _discard(self, connection: socket.socket, size: int) -> None:
        piece = memoryview(bytearray(min(size, DISCARD_BYTES)))
        while size:
            got = connection.recv_into(piece[: min(size, len(piece))])
            if not got:
                raise ConnectionResetError("the broker closed the connection")
            size -= got


def _is_stale(connection: socket.socket) -> bool:
    """Whether a connection that nothing is expected from has ended: the broker closes idle ones."""
    connection.settimeout(0)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True  # its end, or an answer that nobody asked for
