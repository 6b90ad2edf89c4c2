"""LargeFrame: a frame too long to be carried from read to read, received into its own buffer."""

from __future__ import annotations

from broker.network.buffer_pool import BufferPool, FrameBuffer
from protocol.identifiers import Buffer


class LargeFrame:
    """Takes a pooled buffer, is filled by the transport, and gives the buffer back."""

    __slots__ = ("_buffer", "_filled_bytes", "_pool", "fills", "size_bytes", "view")

    def __init__(self, pool: BufferPool, buffer: FrameBuffer, size_bytes: int) -> None:
        self._pool, self._buffer, self.size_bytes = pool, buffer, size_bytes
        self._filled_bytes = self.fills = 0
        self.view = memoryview(buffer)[:size_bytes]
        """The frame without its length; whole once `fill` has said so."""

    @property
    def room(self) -> memoryview:
        """Where the next bytes go."""
        return self.view[self._filled_bytes :]

    def copy(self, data: Buffer) -> None:
        """Take the frame's start, which came in a read with other frames."""
        self.view[: len(data)] = data
        self._filled_bytes = len(data)

    def fill(self, size_bytes: int) -> bool:
        """Take note of bytes that were received into `room`; return True if the frame is whole."""
        self._filled_bytes += size_bytes
        self.fills += 1
        return self._filled_bytes == self.size_bytes

    def give_back(self) -> None:
        """Return the memory; nobody may hold a view of it any more."""
        self._pool.give_back(self._buffer)
