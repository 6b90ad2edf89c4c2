"""The decode kernel without a compiler: the same columns by NumPy, or in plain Python.

Records of a batch can only be found one after another. So many batches are decoded side by side: a
step decodes the next record of each of them, and costs about the same for one batch as for some
hundred. Few batches are decoded in plain Python, which is quicker then.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.record import NULL
from protocol.record_batch_header import (
    HEADER_BYTES,
    LENGTH_MIN,
    LOG_OVERHEAD_BYTES,
    MAGIC,
)
from protocol.varint import raw_varint, raw_varlong

SOUND: Final = -1
LANES_MIN: Final = 48
"""Below so many batches side by side, plain Python is quicker."""
VARINT_BYTES: Final = 5
VARLONG_BYTES: Final = 10
UINT32_MAX: Final = np.uint64(0xFFFFFFFF)

Column = NDArray[Any]

_length_and_magic = struct.Struct(">8xi4xb").unpack_from


def find_batches(data: Column, position: int, positions: Column) -> tuple[int, int]:
    """Fill in where whole batches are that follow each other; return their count and their end."""
    found: list[int] = []
    view, end = data.data, len(data)
    while end - position >= HEADER_BYTES:
        length, magic = _length_and_magic(view, position)
        behind = position + LOG_OVERHEAD_BYTES + length
        if magic != MAGIC or length < LENGTH_MIN or behind > end:
            break
        found.append(position)
        position = behind
    positions[: len(found)] = found
    return len(found), position


def decode_records(
    data: Column, starts: Column, ends: Column, counts: Column, base_offsets: Column,
    deltas_max: Column, base_timestamps: Column, append_timestamps: Column,
    uses_append_time: Column, *columns: Column,
) -> int:  # fmt: skip
    """Fill the columns; return `SOUND`, or the row of the first batch that is not."""
    if not len(data):
        return int(np.argmax(counts > 0)) if (counts > 0).any() else SOUND
    order = np.argsort(-counts, kind="stable")
    lanes = _Lanes(data, starts[order], ends[order], counts[order], deltas_max[order])
    first_rows = (np.cumsum(counts) - counts)[order]
    alive = int((counts > 0).sum())
    step = 0
    while alive >= LANES_MIN:
        fields = lanes.step(alive)
        rows = first_rows[:alive] + step
        times = _times(base_timestamps[order[:alive]], fields[1], lanes, alive)
        stamped = np.where(uses_append_time[order[:alive]], append_timestamps[order[:alive]], times)
        values = (order[:alive], base_offsets[order[:alive]] + fields[0], stamped, *fields[2:])
        for column, value in zip(columns, values, strict=True):
            column[rows] = value
        step += 1
        alive = int(np.searchsorted(-lanes.counts, -step))
    for lane in range(alive):
        row = int(order[lane])
        if not lanes.is_bad[lane]:
            state = (int(lanes.position[lane]), int(lanes.previous[lane]), step)
            facts = (
                int(lanes.ends[lane]), int(counts[row]), int(base_offsets[row]),
                int(deltas_max[row]), int(base_timestamps[row]),
                int(append_timestamps[row]) if uses_append_time[row] else None,
            )  # fmt: skip
            first_row = int(first_rows[lane])
            lanes.is_bad[lane] = not _decode_batch(data, row, first_row, state, facts, columns)
            lanes.position[lane] = lanes.ends[lane]
    lanes.is_bad |= lanes.position != lanes.ends
    bad = order[lanes.is_bad]
    return int(bad.min()) if len(bad) else SOUND


class _Lanes:
    """Batches side by side, those with most records first; a bad one goes on without effect."""

    def __init__(
        self, data: Column, starts: Column, ends: Column, counts: Column, deltas_max: Column
    ) -> None:
        self.data, self.position, self.ends = data, starts.astype(np.int64), ends
        self.counts, self.deltas_max = counts, deltas_max
        self.previous = np.full(len(starts), -1, dtype=np.int64)
        self.is_bad = np.zeros(len(starts), dtype=bool)

    def step(self, alive: int) -> tuple[Column, ...]:
        """Decode the next record of the first lanes; return delta, time delta and the spans."""
        bad = self.is_bad[:alive]
        position, stop = self.position[:alive], self.ends[:alive]
        length, position = self._number(position, stop, VARINT_BYTES, bad)
        bad |= (length < 0) | (length > stop - position)
        end = np.where(bad, position, position + length)
        time_delta, position = self._number(position + 1, end, VARLONG_BYTES, bad)
        delta, position = self._number(position, end, VARINT_BYTES, bad)
        bad |= (delta <= self.previous[:alive]) | (delta > self.deltas_max[:alive])
        key_start, key_end, position = self._span(position, end, bad)
        value_start, value_end, position = self._span(position, end, bad)
        headers, position = self._number(position, end, VARINT_BYTES, bad)
        bad |= (headers < 0) | (headers > (end - position) // 2)
        bad |= (headers == 0) & (position != end)
        self.position[:alive], self.previous[:alive] = end, delta
        return (
            delta, time_delta, key_start, key_end, value_start, value_end, headers, position, end,
        )  # fmt: skip

    def _span(self, position: Column, end: Column, bad: Column) -> tuple[Column, Column, Column]:
        size, start = self._number(position, end, VARINT_BYTES, bad)
        bad |= (size < -1) | (size > end - start)
        behind = np.where(bad, start, start + np.maximum(size, 0))
        return start, np.where(size < 0, -1, behind), behind

    def _number(
        self, position: Column, end: Column, bytes_max: int, bad: Column
    ) -> tuple[Column, Column]:
        """Read a zig-zag number in each lane; return them, and the positions behind them."""
        data, last = self.data, len(self.data) - 1
        raw = np.zeros(len(position), dtype=np.uint64)
        position = position.copy()
        is_open = ~bad
        for number in range(bytes_max):
            cut = is_open & (position >= end)
            bad |= cut
            is_open &= ~cut
            byte = data[np.minimum(position, last)].astype(np.uint64)
            part = (byte & np.uint64(0x7F)) << np.uint64(7 * number)
            raw = np.where(is_open, raw | part, raw)
            position += is_open
            if number == VARLONG_BYTES - 1:
                bad |= is_open & (byte > np.uint64(1))
            is_open &= byte >= np.uint64(0x80)
            if not is_open.any():
                break
        bad |= is_open
        if bytes_max == VARINT_BYTES:
            bad |= raw > UINT32_MAX
        value = (raw >> np.uint64(1)).astype(np.int64) ^ -(raw & np.uint64(1)).astype(np.int64)
        return value, position


def _times(base: Column, delta: Column, lanes: _Lanes, alive: int) -> Column:
    with np.errstate(over="ignore"):
        times = base + delta
    lanes.is_bad[:alive] |= (times < base) != (delta < 0)
    return times


def _decode_batch(
    data: Column, number: int, first_row: int, state: tuple[int, int, int],
    facts: tuple[int, int, int, int, int, int | None], columns: tuple[Column, ...],
) -> bool:  # fmt: skip
    """Decode the rest of a batch in plain Python; return whether it is sound."""
    position, previous, step = state
    stop, count, base_offset, delta_max, base_timestamp, append_timestamp = facts
    view = bytes(data[position:stop])
    begin, rows = position, []
    try:
        at = 0
        for _ in range(count - step):
            row, at, previous = _decode_record(view, at, previous, delta_max, begin)
            rows.append(row)
    except (IndexError, ValueError):
        return False
    if at != len(view):
        return False
    if not rows:
        return True
    first = first_row + step
    delta, time_delta, *spans = (np.array(column) for column in zip(*rows, strict=True))
    with np.errstate(over="ignore"):
        times = base_timestamp + time_delta.astype(np.int64)
    if ((times < base_timestamp) != (time_delta < 0)).any():
        return False
    if append_timestamp is not None:
        times[:] = append_timestamp
    for column, value in zip(columns, (number, base_offset + delta, times, *spans), strict=True):
        column[first : first + len(rows)] = value
    return True


def _decode_record(
    data: bytes, position: int, previous: int, delta_max: int, begin: int
) -> tuple[tuple[int, ...], int, int]:
    """Return delta, time delta and spans (from `begin` on), the end, and the delta once more."""
    raw, position = raw_varint(data, position)
    position += 1
    end = position + (raw >> 1)
    if raw & 1 or end > len(data):
        raise ValueError("length")
    raw, position = raw_varlong(data, position + 1)
    time_delta = raw >> 1 ^ -(raw & 1)
    raw, position = raw_varint(data, position + 1)
    delta = raw >> 1
    if raw & 1 or not previous < delta <= delta_max:
        raise ValueError("offset")
    spans: list[int] = []
    for _ in range(2):
        raw, position = raw_varint(data, position + 1)
        if raw & 1 and raw != NULL:
            raise ValueError("size")
        spans += (begin + position + 1, -1 if raw & 1 else begin + position + 1 + (raw >> 1))
        position += raw >> 1 if not raw & 1 else 0
    raw, position = raw_varint(data, position + 1)
    position += 1
    headers = raw >> 1
    if raw & 1 or position > end or headers > (end - position) // 2:
        raise ValueError("headers")
    if not headers and position != end:
        raise ValueError("end")
    return (delta, time_delta, *spans, headers, begin + position, begin + end), end, delta


def decode_headers(
    data: Column, counts: Column, positions: Column, ends: Column, *columns: Column
) -> int:
    """Fill the columns of all headers; return `SOUND`, or the row of the first unsound record."""
    row = 0
    for number in np.flatnonzero(counts).tolist():
        begin = int(positions[number])
        view = bytes(data[begin : int(ends[number])])
        position = 0
        try:
            for _ in range(int(counts[number])):
                raw, position = raw_varint(view, position)
                if raw & 1:
                    return number
                name, position = position + 1, position + 1 + (raw >> 1)
                columns[0][row], columns[1][row] = begin + name, begin + position
                raw, position = raw_varint(view, position)
                if raw & 1 and raw != NULL:
                    return number
                value, position = position + 1, position + 1 + (0 if raw & 1 else raw >> 1)
                columns[2][row] = begin + value
                columns[3][row] = -1 if raw & 1 else begin + position
                row += 1
        except (IndexError, ValueError):
            return number
        if position != len(view):
            return number
    return SOUND


def gather(data: Column, starts: Column, ends: Column) -> tuple[Column, Column]:
    """Return where each span begins among the bytes of all, one more for the end, and the bytes.

    Arrow copies them: the spans, and what is between them, are one binary array over all of the
    data, of which every second element is taken.
    """
    count = len(starts)
    if not count:
        return np.zeros(1, dtype=np.int32), np.empty(0, dtype=np.uint8)
    bounds = np.empty(2 * count, dtype=np.int32)
    bounds[0::2] = starts
    bounds[1::2] = np.maximum(starts, ends)
    spans = pa.Array.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    taken = spans.take(pa.array(np.arange(0, 2 * count - 1, 2, dtype=np.int32)))
    _, offsets, values = taken.buffers()
    return (
        np.frombuffer(offsets, dtype=np.int32, count=count + 1),
        np.frombuffer(values or b"", dtype=np.uint8),
    )
