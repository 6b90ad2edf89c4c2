"""The decode kernel, compiled: the records of many batches to columns of numbers, in one pass.

Record by record, as `protocol.record` draws it; each byte that is read is bounds-checked, so that
any bytes give columns, or the number of the batch that is unsound. Compiled at its first use, in
some seconds, and kept on disk, from where it is loaded in tenths of one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from protocol.record_batch_header import (
    HEADER_BYTES,
    LENGTH_MIN,
    LENGTH_POSITION,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
)

SOUND: Final = -1
VARINT_BITS: Final = 35
VARLONG_BITS: Final = 70
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1


@njit(inline="always")
def _raw(data: Any, position: int, end: int, bits_max: int) -> Any:
    """Return an unsigned number and the position behind it; that is -1 if it is cut or too long."""
    value = np.uint64(0)
    shift = 0
    while position < end and shift < bits_max:
        byte = data[position]
        position += 1
        value |= np.uint64(byte & 0x7F) << np.uint64(shift)
        if byte < 0x80:
            if bits_max == VARINT_BITS and value > np.uint64(0xFFFFFFFF):
                return np.int64(0), -1
            if shift == 63 and byte > 1:
                return np.int64(0), -1
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), position
        shift += 7
    return np.int64(0), -1


@njit(inline="always")
def _span(data: Any, position: int, end: int) -> Any:
    """Return start and end (-1: null) of what a length stands before, and the position behind it.

    That is -1 if the length is cut, negative or reaches beyond the end.
    """
    size, position = _raw(data, position, end, VARINT_BITS)
    if position < 0 or size < -1 or size > end - position:
        return position, position, -1
    if size < 0:
        return position, -1, position
    return position, position + size, position + size


@njit(cache=True, nogil=True)
def find_batches(data: Any, position: Any, positions: Any) -> Any:
    """Fill in where whole batches are that follow each other; return their count and their end."""
    count, last = 0, len(data) - HEADER_BYTES
    while position <= last and data[position + MAGIC_POSITION] == MAGIC:
        length: Any = np.int64(0)
        for number in range(LENGTH_POSITION, LENGTH_POSITION + 4):
            length = (length << 8) | np.int64(data[position + number])
        behind = position + LOG_OVERHEAD_BYTES + length
        if length < LENGTH_MIN or behind > len(data):
            break
        positions[count] = position
        count, position = count + 1, behind
    return count, position


@njit(cache=True, nogil=True)
def decode_records(
    data: Any, starts: Any, ends: Any, counts: Any, base_offsets: Any, deltas_max: Any,
    base_timestamps: Any, append_timestamps: Any, uses_append_time: Any,
    batch: Any, offset: Any, timestamp: Any, key_start: Any, key_end: Any, value_start: Any,
    value_end: Any, header_count: Any, header_position: Any, record_end: Any,
) -> Any:  # fmt: skip
    """Fill the columns; return `SOUND`, or the row of the first batch that is not."""
    row = 0
    for number in range(len(starts)):
        position, stop, previous = starts[number], ends[number], -1
        for _ in range(counts[number]):
            length, position = _raw(data, position, stop, VARINT_BITS)
            if position < 0 or length < 0 or length > stop - position:
                return number
            end = position + length
            time_delta, position = _raw(data, position + 1, end, VARLONG_BITS)
            if position < 0:
                return number
            delta, position = _raw(data, position, end, VARINT_BITS)
            if position < 0 or delta <= previous or delta > deltas_max[number]:
                return number
            key_start[row], key_end[row], position = _span(data, position, end)
            if position < 0:
                return number
            value_start[row], value_end[row], position = _span(data, position, end)
            if position < 0:
                return number
            headers, position = _raw(data, position, end, VARINT_BITS)
            if position < 0 or headers < 0 or headers > (end - position) // 2:
                return number
            # Not by the sum: where it would wrap around, the compiler may take it that it does not.
            if time_delta < 0:
                left_int64 = base_timestamps[number] < INT64_MIN - time_delta
            else:
                left_int64 = base_timestamps[number] > INT64_MAX - time_delta
            if left_int64 or (headers == 0 and position != end):
                return number
            time = base_timestamps[number] + time_delta
            batch[row], offset[row] = number, base_offsets[number] + delta
            timestamp[row] = append_timestamps[number] if uses_append_time[number] else time
            header_count[row], header_position[row], record_end[row] = headers, position, end
            position, previous = end, delta
            row += 1
        if position != stop:
            return number
    return SOUND


@njit(cache=True, nogil=True)
def decode_headers(
    data: Any, counts: Any, positions: Any, ends: Any,
    name_start: Any, name_end: Any, value_start: Any, value_end: Any,
) -> Any:  # fmt: skip
    """Fill the columns of all headers; return `SOUND`, or the row of the first unsound record."""
    row = 0
    for number in range(len(counts)):
        position, end = positions[number], ends[number]
        for _ in range(counts[number]):
            name_start[row], name_end[row], position = _span(data, position, end)
            if position < 0 or name_end[row] < 0:
                return number
            value_start[row], value_end[row], position = _span(data, position, end)
            if position < 0:
                return number
            row += 1
        if position != end:
            return number
    return SOUND


def _memcpy(_context: Any, target: Any, at: Any, source: Any, start: Any, size: Any) -> Any:
    """Copy bytes from one array into another; nothing is checked. A loop takes eight times longer.

    https://numba.readthedocs.io/en/stable/extending/high-level.html#implementing-intrinsics
    """

    def generated(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        into, out_of = (
            builder.gep(context.make_array(kind)(context, builder, array).data, [position])
            for kind, array, position in (
                (signature.args[0], values[0], values[1]),
                (signature.args[2], values[2], values[3]),
            )
        )
        cgutils.raw_memcpy(builder, into, out_of, values[4], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(target, at, source, start, size), generated


_copy: Any = intrinsic(_memcpy)


@njit(cache=True, nogil=True)
def gather(data: Any, starts: Any, ends: Any) -> Any:
    """Return where each span begins among the bytes of all, one more for the end, and the bytes."""
    offsets = np.empty(len(starts) + 1, dtype=np.int32)
    total: Any = np.int64(0)
    for row in range(len(starts)):
        offsets[row] = total
        total += max(np.int64(ends[row]) - np.int64(starts[row]), np.int64(0))
    offsets[len(starts)] = total
    values = np.empty(total, dtype=np.uint8)
    for row in range(len(starts)):
        size = np.int64(offsets[row + 1]) - np.int64(offsets[row])
        _copy(values, np.int64(offsets[row]), data, np.int64(starts[row]), size)
    return offsets, values
