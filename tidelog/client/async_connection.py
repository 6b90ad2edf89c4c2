"""AsyncConnection: calls over one asyncio connection, any number under way at once."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, TypeVar, cast

from protocol.errors import FrameError, FrameTooLargeError
from protocol.identifiers import Buffer
from protocol.native.frame_reader import FrameReader
from tidelog.client.address import Address
from tidelog.client.calls import Call
from tidelog.client.errors import ClientClosedError, ConnectionLostError

T = TypeVar("T")


class _Wire(asyncio.Protocol):
    """One TCP connection: answers come in the order of the requests."""

    def __init__(self, address: Address, response_bytes_max: int) -> None:
        self._address = address
        self._reader = FrameReader(response_bytes_max)
        self._waiting: deque[tuple[Call[Any], asyncio.Future[Any]]] = deque()
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def is_usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while True:
                try:
                    frame = self._reader.next_frame()
                except FrameTooLargeError as error:
                    self._reader.discard_frame()
                    call, future = self._waiting.popleft()
                    _fail(future, call.too_large(error.frame_bytes, error.frame_bytes_max))
                    continue
                if frame is None:
                    return
                call, future = self._waiting.popleft()
                _resolve(call, future, frame)
        except (FrameError, IndexError) as error:  # IndexError: an answer nobody asked for
            self._lose(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._writable.set()
        self._lose(exc or ConnectionResetError("the broker closed the connection"))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def send(self, call: Call[T]) -> asyncio.Future[T]:
        await self._writable.wait()
        if self._transport is None or self._transport.is_closing():
            raise ConnectionLostError(f"{self._address}: the connection is closed")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if call.has_answer:
            self._waiting.append((call, future))
        else:
            future.set_result(cast(T, None))
        _write(self._transport, call.parts)
        return future

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close without sending what the broker has not taken yet."""
        if self._transport is not None:
            self._transport.abort()

    def _lose(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, future in waiting:
            _fail(future, ConnectionLostError(f"{self._address}: {error}"))
        self.close()


def _write(transport: asyncio.Transport, parts: list[Buffer]) -> None:
    for part in parts:
        transport.write(part)


def _resolve(call: Call[Any], future: asyncio.Future[Any], frame: memoryview) -> None:
    try:
        value = call.parse(frame)
    except FrameError:
        if not future.done():
            future.set_exception(ConnectionLostError("an answer that makes no sense"))
        raise
    except Exception as error:
        _fail(future, error)
    else:
        if not future.done():
            future.set_result(value)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


class AsyncConnection:
    """A connection that is made when first used, and again after it was lost."""

    def __init__(self, address: Address, *, timeout_s: float, response_bytes_max: int) -> None:
        self._address, self._timeout_s = address, timeout_s
        self._response_bytes_max = response_bytes_max
        self._wire: _Wire | None = None
        self._connecting = asyncio.Lock()
        self._is_closed = False

    async def call(self, call: Call[T], *, extra_wait_s: float = 0.0) -> T:
        """Send one request and return what its answer says; calls may overlap.

        Raises:
            ConnectionLostError: no answer came; the next call connects anew.
            ResponseTooLargeError: the answer was dropped; the connection stays usable.
            BrokerError: the broker's error code.
        """
        wire = await self._connected()
        try:
            async with asyncio.timeout(self._timeout_s + extra_wait_s):
                return await (await wire.send(call))
        except TimeoutError as error:
            wire.abort()  # a late answer must not be taken for the next one's
            raise ConnectionLostError(f"{self._address}: timed out") from error

    async def close(self) -> None:
        """Close the connection for good."""
        self._is_closed = True
        if self._wire is not None:
            self._wire.close()
            await asyncio.sleep(0)

    async def _connected(self) -> _Wire:
        async with self._connecting:
            self._check_open()
            if self._wire is None or not self._wire.is_usable:
                loop = asyncio.get_running_loop()
                try:
                    async with asyncio.timeout(self._timeout_s):
                        _, self._wire = await loop.create_connection(
                            lambda: _Wire(self._address, self._response_bytes_max), *self._address
                        )
                except (OSError, TimeoutError) as error:
                    reason = str(error) or "timed out"
                    raise ConnectionLostError(f"{self._address}: {reason}") from error
                if self._is_closed:  # while this waited
                    self._wire.abort()
                self._check_open()
            return self._wire

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosedError("the client is closed")
