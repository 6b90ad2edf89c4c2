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
    """The records of each batch: `buffer[starts[n]:ends[n]]`."""

    buffer: NDArray[Any]
    """uint8."""
    starts: NDArray[Any]
    """int64."""
    ends: NDArray[Any]
    faults: dict[int, str]
    """What could not be decompressed, by row, and why; its span is empty."""


def inflate(
    data: Buffer, table: BatchTable, *, size_bytes_max: int = limits.DECOMPRESSED_BYTES_MAX
) -> InflatedRecords:
    """Find the records of the batches of a table that was walked over `data`.

    Args:
        size_bytes_max: Of one batch, decompressed.
    """
    raw = np.frombuffer(data, dtype=np.uint8)
    starts = table["position"] + HEADER_BYTES
    ends = table["position"] + table["size_bytes"]
    codecs = table["attributes"] & CODEC_MASK
    if not codecs.any():
        return InflatedRecords(raw, starts, ends, {})
    pieces: list[Buffer] = []
    faults: dict[int, str] = {}
    view = memoryview(data)
    for row, (start, end, codec) in enumerate(
        zip(starts.tolist(), ends.tolist(), codecs.tolist(), strict=True)
    ):
        piece: Buffer = view[start:end]
        if codec != Codec.NONE and len(piece):
            try:
                piece = decompress(codec, piece, size_bytes_max=size_bytes_max)
            except TidelogError as error:
                faults[row] = str(error)
                piece = b""
        pieces.append(piece)
    sizes = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
    ends = np.cumsum(sizes)
    buffer = np.frombuffer(b"".join(pieces), dtype=np.uint8)
    return InflatedRecords(buffer, ends - sizes, ends, faults)
