"""FrameReader: bytes that arrive in pieces to whole frames; sans-IO, for clients and tests.

A frame is `length:i32`, big-endian, then so many bytes; a request's length is its `size`, an
answer's its `total_length`, so one reader serves both directions.
"""

from __future__ import annotations

import struct
from typing import Final

from protocol.errors import FrameError, FrameTooLargeError
from protocol.identifiers import Buffer

LENGTH: Final = struct.Struct(">i")
LENGTH_BYTES: Final = 4

FRAME_BYTES_MIN: Final = 2
"""A request holds its type, an answer its error code."""


class FrameReader:
    """Turns bytes that arrive in pieces of any size into whole frames.

    Args:
        frame_bytes_max: The largest length that is taken; for a client its `response_bytes_max`.
    """

    __slots__ = ("_buffer", "_discard_bytes", "_frame_bytes_max")

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray()
        self._discard_bytes = 0

    @property
    def buffered_bytes(self) -> int:
        """Bytes fed and not yet given out; 0 between frames."""
        return len(self._buffer)

    def feed(self, data: Buffer) -> None:
        """Take the next bytes of the stream."""
        if self._discard_bytes:
            skipped = min(self._discard_bytes, len(data))
            self._discard_bytes -= skipped
            data = memoryview(data)[skipped:]
        self._buffer += data

    def next_frame(self) -> memoryview | None:
        """Return the next frame without its length, or None if more bytes are needed.

        The view is of memory that is the caller's alone from now on.

        Raises:
            FrameTooLargeError: the length is over `frame_bytes_max`; again at each call, until
                `discard_frame`. Noticed before any of the frame is waited for.
            FrameError: the length is under 2: the stream makes no sense any more.
        """
        buffer = self._buffer
        if len(buffer) < LENGTH_BYTES:
            return None
        (frame_bytes,) = LENGTH.unpack_from(buffer)
        if frame_bytes < FRAME_BYTES_MIN:
            raise FrameError(f"a frame of {frame_bytes} bytes is under {FRAME_BYTES_MIN}")
        if frame_bytes > self._frame_bytes_max:
            raise FrameTooLargeError(frame_bytes, self._frame_bytes_max)
        end: int = LENGTH_BYTES + frame_bytes
        if len(buffer) < end:
            return None
        if len(buffer) == end:  # the usual case: hand the whole buffer over, uncopied
            self._buffer = bytearray()
            return memoryview(buffer)[LENGTH_BYTES:]
        frame = buffer[LENGTH_BYTES:end]
        del buffer[:end]
        return memoryview(frame)

    def discard_frame(self) -> None:
        """Skip the frame that is next, as its bytes come in; after FrameTooLargeError.

        The stream stays usable: the frame behind it is given out as ever.
        """
        (frame_bytes,) = LENGTH.unpack_from(self._buffer)
        assert frame_bytes >= FRAME_BYTES_MIN, "nothing follows a length that makes no sense"
        end = LENGTH_BYTES + frame_bytes
        self._discard_bytes = max(0, end - len(self._buffer))
        del self._buffer[:end]
