"""The encode kernel without a compiler: the same bytes by NumPy and Arrow.

All numbers of one kind are written side by side, a step for each of their bytes. Arrow then joins
the pieces of each record, and by that all records.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from protocol.record_batch_header import HEADER_BYTES
from protocol.varint import encode_varint
from tidelog.segments.kernel_numpy import gather

Column = NDArray[Any]

NULL: Final = encode_varint(-1)


def encode_records(
    out: Column, batch_ends: Column, first_rows: Column, offset: Column, timestamp: Column,
    keys: Column, key_start: Column, key_end: Column,
    values: Column, value_start: Column, value_end: Column,
    tails: Column, tail_start: Column, tail_end: Column,
) -> None:  # fmt: skip
    """Write the records of each batch, room for its header in front; fill where batches end."""
    begin, end = int(first_rows[0]), int(first_rows[-1])
    rows, firsts = slice(begin, end), first_rows[:-1]
    first = np.repeat(firsts, np.diff(first_rows))
    time_delta, delta = timestamp[rows] - timestamp[first], offset[rows] - offset[first]
    key, key_bytes = _pieces(keys, key_start[rows], key_end[rows])
    value, value_bytes = _pieces(values, value_start[rows], value_end[rows])
    tail, tail_bytes = _pieces(tails, tail_start[rows], tail_end[rows])
    length = (
        1 + _width(time_delta) + _width(delta) + _width(key_bytes) + np.maximum(key_bytes, 0)
        + _width(value_bytes) + np.maximum(value_bytes, 0) + tail_bytes
    )  # fmt: skip
    room = np.zeros(end - begin, dtype=np.int64)
    room[firsts - begin] = HEADER_BYTES
    numbers = (length, np.zeros_like(length), time_delta, delta, key_bytes)  # 0: attributes
    head, between = _varints(room, numbers), _varints(np.zeros_like(room), (value_bytes,))
    joined = pc.binary_join_element_wise(head, key, between, value, tail, pa.scalar(b""))
    ends = np.frombuffer(joined.buffers()[1], dtype=np.int32)[: end - begin + 1]
    out[: ends[-1]] = np.frombuffer(joined.buffers()[2], dtype=np.uint8)[: ends[-1]]
    batch_ends[:] = ends[first_rows[1:] - begin]


def _pieces(data: Column, start: Column, end: Column) -> tuple[pa.Array, Column]:
    """Return spans as an array, empty where they are null, and their lengths, -1 where null."""
    base = start[0]
    offsets, values = gather(data[base:], start - base, np.where(end < 0, -1, end - base))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    array = pa.Array.from_buffers(pa.binary(), len(start), buffers)
    return array, np.where(end < 0, -1, end - start)


def _varints(room: Column, columns: tuple[Column, ...]) -> pa.Array:
    """Return for each row so many zeros, and behind them the numbers of the columns as varints."""
    widths = [_width(column) for column in columns]
    offsets = np.zeros(len(room) + 1, dtype=np.int32)
    np.cumsum(room + sum(widths), out=offsets[1:])
    data = np.zeros(offsets[-1], dtype=np.uint8)
    position = offsets[:-1] + room
    for column, width in zip(columns, widths, strict=True):
        _put(data, position, column, width)
        position += width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(room), buffers)


def _zigzag(number: Column) -> Column:
    return ((number << 1) ^ (number >> 63)).astype(np.uint64)


def _width(number: Column) -> Column:
    """Return how many bytes each number takes as a varint."""
    raw = _zigzag(number) >> np.uint64(7)
    width = np.ones(len(raw), dtype=np.int64)
    while raw.any():
        width += raw != 0
        raw >>= np.uint64(7)
    return width


def _put(out: Column, position: Column, number: Column, width: Column) -> None:
    """Write each number as a varint of the width it takes."""
    raw = _zigzag(number)
    for step in range(int(width.max(initial=0))):
        rows = np.flatnonzero(width > step)
        more = np.where(width[rows] > step + 1, 0x80, 0).astype(np.uint64)
        out[position[rows] + step] = (raw[rows] >> np.uint64(7 * step)) & np.uint64(0x7F) | more


def encode_headers(
    out: Column, tail_start: Column, tail_end: Column, counts: Column, first_items: Column,
    names: Column, name_start: Column, name_end: Column,
    values: Column, value_start: Column, value_end: Column,
) -> None:  # fmt: skip
    """Write the headers of each record, their count in front; fill where they are."""
    pieces: list[bytes] = []
    for count, first in zip(counts.tolist(), first_items.tolist(), strict=True):
        parts = [encode_varint(count)]
        for item in range(first, first + count):
            name = names[name_start[item] : name_end[item]].tobytes()
            parts += (encode_varint(len(name)), name)
            if value_end[item] < 0:
                parts.append(NULL)
                continue
            value = values[value_start[item] : value_end[item]].tobytes()
            parts += (encode_varint(len(value)), value)
        pieces.append(b"".join(parts))
    data = b"".join(pieces)
    out[: len(data)] = np.frombuffer(data, dtype=np.uint8)
    sizes = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
    tail_end[:] = np.cumsum(sizes)
    tail_start[:] = tail_end - sizes
