"""Inflate: the records of many batches as spans of one buffer, decompressed where they have to be.

Batches that are not compressed are left where they are. With compressed ones among them the spans
are of a new buffer, which holds all.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol import limits
from protocol.compression import Codec, decompress
from protocol.compressors import decompress_zstd_into
from protocol.errors import TidelogError
from protocol.identifiers import Buffer
from protocol.record_batch_header import CODEC_MASK, HEADER_BYTES
from tidelog.segments.batch_table import BatchTable

__all__ = ["InflateRoom", "InflatedRecords", "inflate"]

BUFFER_BYTES_MAX: Final = 2**31 - 1
"""Arrow's binary columns have 32 bit offsets."""
LIKELY_RATIO: Final = 6
"""Of log lines and JSON, with room to spare; where there is more the buffer grows."""
SPARE_BYTES: Final = 1024 * 1024
"""Behind what fills the buffer: most batches that begin before its end have room in it."""


class InflatedRecords(NamedTuple):
    """The records of the first batches of a table: `buffer[starts[n]:ends[n]]`."""

    buffer: NDArray[Any]
    """uint8."""
    starts: NDArray[Any]
    """int64."""
    ends: NDArray[Any]
    fault: str | None
    """Why the next row could not be decompressed, if that is why it ends here."""


class InflateRoom:
    """Memory for what is decompressed, used again: fresh memory costs as much as a copy does."""

    def __init__(self, size_bytes: int = 0) -> None:
        self._buffer = memoryview(bytearray(size_bytes))
        self.taken_bytes = 0

    def array(self) -> NDArray[Any]:
        """Return what has been added since the room was cleared."""
        return np.frombuffer(self._buffer[: self.taken_bytes], dtype=np.uint8)

    def clear(self, size_bytes: int) -> None:
        """Begin anew, with room for so many bytes at least."""
        self.taken_bytes = 0
        self._grow(size_bytes)

    def add(self, codec: int, piece: memoryview, size_bytes_max: int) -> int:
        """Add what a piece is decompressed; return its bytes. Errors as those of `decompress`."""
        if codec == Codec.ZSTD:
            begin = self.taken_bytes
            target = self._buffer[begin : begin + size_bytes_max + 1]
            size = decompress_zstd_into(piece, target)
            if size is not None:
                self.taken_bytes += size
                return size
        is_whole = codec == Codec.NONE or not len(piece)
        data = piece if is_whole else decompress(codec, piece, size_bytes_max=size_bytes_max)
        end = self.taken_bytes + len(data)
        self._grow(end)
        self._buffer[self.taken_bytes : end] = data
        self.taken_bytes = end
        return len(data)

    def _grow(self, size_bytes: int) -> None:
        if size_bytes > len(self._buffer):
            buffer = memoryview(bytearray(max(size_bytes, 2 * len(self._buffer))))
            buffer[: self.taken_bytes] = self._buffer[: self.taken_bytes]
            self._buffer = buffer


def inflate(
    data: Buffer,
    table: BatchTable,
    *,
    size_bytes_max: int = limits.DECOMPRESSED_BYTES_MAX,
    buffer_bytes: int = BUFFER_BYTES_MAX - limits.DECOMPRESSED_BYTES_MAX,
    room: InflateRoom | None = None,
) -> InflatedRecords:
    """Find the records of the batches of a table that was walked over `data`, in its order.

    With compressed ones it ends before the first that cannot be decompressed, and when the buffer
    is full: call again with the rows that are left.

    Args:
        size_bytes_max: Of one batch, decompressed.
        buffer_bytes: Take no further batch when so many are in the buffer.
        room: For the buffer, which is then valid until it is used again; else a new one.
    """
    raw = np.frombuffer(data, dtype=np.uint8)
    starts = table["position"] + HEADER_BYTES
    ends = table["position"] + table["size_bytes"]
    codecs = table["attributes"] & CODEC_MASK
    if not codecs.any():
        return InflatedRecords(raw, starts, ends, None)
    room = room or InflateRoom()
    likely_bytes = LIKELY_RATIO * int(table["size_bytes"].sum())
    room.clear(min(buffer_bytes + SPARE_BYTES, likely_bytes))
    sizes: list[int] = []
    fault = None
    view = memoryview(data)
    for start, end, codec in zip(starts.tolist(), ends.tolist(), codecs.tolist(), strict=True):
        if room.taken_bytes >= buffer_bytes:
            break
        try:
            sizes.append(room.add(codec, view[start:end], size_bytes_max))
        except TidelogError as error:
            fault = str(error)
            break
    ends = np.cumsum(np.array(sizes, dtype=np.int64))
    return InflatedRecords(room.array(), ends - sizes, ends, fault)
