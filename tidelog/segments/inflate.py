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
from protocol.errors import TidelogError
from protocol.identifiers import Buffer
from protocol.record_batch_header import CODEC_MASK, HEADER_BYTES
from tidelog.segments.batch_table import BatchTable

__all__ = ["InflatedRecords", "inflate"]

BUFFER_BYTES_MAX: Final = 2**31 - 1
"""Arrow's binary columns have 32 bit offsets."""


class InflatedRecords(NamedTuple):
    """The records of the first batches of a table: `buffer[starts[n]:ends[n]]`."""

    buffer: NDArray[Any]
    """uint8."""
    starts: NDArray[Any]
    """int64."""
    ends: NDArray[Any]
    fault: str | None
    """Why the next row could not be decompressed, if that is why it ends here."""


def inflate(
    data: Buffer,
    table: BatchTable,
    *,
    size_bytes_max: int = limits.DECOMPRESSED_BYTES_MAX,
    buffer_bytes: int = BUFFER_BYTES_MAX - limits.DECOMPRESSED_BYTES_MAX,
) -> InflatedRecords:
    """Find the records of the batches of a table that was walked over `data`, in its order.

    With compressed ones it ends before the first that cannot be decompressed, and when the buffer
    is full: call again with the rows that are left.

    Args:
        size_bytes_max: Of one batch, decompressed.
        buffer_bytes: Take no further batch when so many are in the buffer.
    """
    raw = np.frombuffer(data, dtype=np.uint8)
    starts = table["position"] + HEADER_BYTES
    ends = table["position"] + table["size_bytes"]
    codecs = table["attributes"] & CODEC_MASK
    if not codecs.any():
        return InflatedRecords(raw, starts, ends, None)
    pieces: list[Buffer] = []
    fault = None
    room = buffer_bytes
    view = memoryview(data)
    for start, end, codec in zip(starts.tolist(), ends.tolist(), codecs.tolist(), strict=True):
        if room <= 0:
            break
        piece: Buffer = view[start:end]
        if codec != Codec.NONE and len(piece):
            try:
                piece = decompress(codec, piece, size_bytes_max=size_bytes_max)
            except TidelogError as error:
                fault = str(error)
                break
        pieces.append(piece)
        room -= len(piece)
    sizes = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
    ends = np.cumsum(sizes)
    buffer = np.frombuffer(b"".join(pieces), dtype=np.uint8)
    return InflatedRecords(buffer, ends - sizes, ends, fault)
