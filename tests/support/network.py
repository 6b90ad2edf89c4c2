"""A transport and a handler for tests of connections without sockets."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any, cast

from broker.network.answers import Answer, HandledFrames
from broker.network.connection import Connection
from broker.network.limits import Admission, ConnectionLimits
from broker.network.receive_buffer import SharedReceiveBuffer


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


class FakeTransport(asyncio.Transport):
    """Collects what is written and does what the protocol asks, at once."""

    def __init__(self, *, gathers: bool = True) -> None:
        super().__init__({"peername": ("203.0.113.9", 4242)})
        self.written = bytearray()
        self.writes = 0
        self.reading = True
        self.closed = self.aborted = False
        self.unsent_bytes = 0
        self.client_reads = True
        self.high = 0

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high or 0

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def write(self, data: Any) -> None:
        self.writelines([data])

    def writelines(self, list_of_data: Any) -> None:
        self.writes += 1
        for data in list_of_data:
            self.written += data
            if not self.client_reads:
                self.unsent_bytes += len(data)
        if self.unsent_bytes > self.high:
            cast(asyncio.Protocol, self._protocol).pause_writing()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def is_closing(self) -> bool:
        return self.closed


class FakeLoop:
    """Runs call_soon callbacks when told to; keeps call_later ones with their delay."""

    def __init__(self) -> None:
        self.soon: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.later: list[tuple[float, Callable[..., None]]] = []

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        self.soon.append((callback, args))

    def call_later(self, delay: float, callback: Callable[..., None], *args: Any) -> None:
        self.later.append((delay, lambda: callback(*args)))

    def turn(self) -> None:
        ready, self.soon = self.soon, []
        for callback, args in ready:
            callback(*args)


class ClosedCounter:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def connection_closed(self, reason: str) -> None:
        self.reasons.append(reason)


class ScriptedHandler:
    """Answers with what `script` makes of each frame's bytes, and keeps the frames."""

    def __init__(self, script: Callable[[bytes], Answer]) -> None:
        self.script = script
        self.frames: list[bytes] = []

    def handle_frames(
        self, frames: memoryview, start: int, frame_end: int, end: int, connection: Connection
    ) -> HandledFrames:
        body = bytes(frames[start:frame_end])
        self.frames.append(body)
        return self.script(body), 1, frame_end


class ConnectionUnderTest:
    """A connection over a fake transport and loop; `receive` feeds it as a kernel would."""

    def __init__(
        self,
        script: Callable[[bytes], Answer],
        *,
        limits: ConnectionLimits | None = None,
        admission: Admission | None = None,
    ) -> None:
        self.loop = FakeLoop()
        self.admission = admission or Admission(limits or ConnectionLimits(), lambda: self.time_s)
        self.time_s = 0.0
        self.handler = ScriptedHandler(script)
        self.closed = ClosedCounter()
        self.transport = FakeTransport()
        self.lost: list[Connection] = []
        self.connection = Connection(
            self.loop,  # type: ignore[arg-type]
            self.admission,
            SharedReceiveBuffer(),
            lambda connection: self.handler,
            self.closed,
            self.lost.append,
        )
        self.transport.set_protocol(self.connection)
        self.connection.connection_made(self.transport)

    def receive(self, data: bytes, piece_bytes: int = 1 << 30) -> None:
        """Deliver bytes in pieces, a loop turn each; stops where reading stays paused."""
        view = memoryview(data)
        while view and not self.transport.closed:
            self.loop.turn()
            if not self.transport.reading:
                break
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(view), piece_bytes)
            buffer[:count] = view[:count]
            self.connection.buffer_updated(count)
            view = view[count:]
        self.undelivered = bytes(view)

    @property
    def written(self) -> bytes:
        return bytes(self.transport.written)
