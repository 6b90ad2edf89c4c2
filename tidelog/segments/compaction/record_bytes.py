"""Record bytes: stored records taken as they are, or with another timestamp delta, many at once.

The layout of a record is drawn in `protocol.record`: its length, a byte of attributes and the
timestamp delta come first, and nothing behind them depends on them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tidelog.segments.kernel import gather

__all__ = ["moved", "taken"]

Column = NDArray[Any]

VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10
MORE: Final = np.uint64(0x80)
LOW_BITS: Final = np.uint64(0x7F)


def taken(buffer: Column, starts: Column, ends: Column) -> tuple[Column, Column]:
    """Return the bytes of some spans, one behind the other, and where each ends.

    They go up and do not overlap.
    """
    offsets, values = gather(buffer, starts, ends)
    return values, offsets[1:].astype(np.int64)


def moved(buffer: Column, starts: Column, ends: Column, deltas: Column) -> tuple[Column, Column]:
    """Return sound records with other timestamp deltas, one behind the other, and their ends.

    Args:
        deltas: int64, of each record.
    """
    attributes_at = _behind_number(buffer, starts, VARINT_BYTES_MAX)
    rest_starts = _behind_number(buffer, attributes_at + 1, VARLONG_BYTES_MAX)
    rest_sizes = ends - rest_starts
    times = (deltas << 1 ^ deltas >> 63).view(np.uint64)  # zigzag
    time_sizes = _sizes(times, VARLONG_BYTES_MAX)
    lengths = (1 + time_sizes + rest_sizes).astype(np.uint64) << np.uint64(1)
    length_sizes = _sizes(lengths, VARINT_BYTES_MAX)
    sizes = length_sizes + 1 + time_sizes + rest_sizes
    out_ends = np.cumsum(sizes)
    out = np.empty(int(out_ends[-1]) if len(out_ends) else 0, dtype=np.uint8)
    at = out_ends - sizes
    _put_numbers(out, at, lengths, length_sizes)
    at = at + length_sizes
    out[at] = buffer[attributes_at]
    _put_numbers(out, at + 1, times, time_sizes)
    at = at + 1 + time_sizes
    total = int(rest_sizes.sum())
    rest_ends = np.cumsum(rest_sizes)
    out[_ragged(at, rest_sizes, rest_ends, total)] = buffer[
        _ragged(rest_starts, rest_sizes, rest_ends, total)
    ]
    return out, out_ends


def _ragged(starts: Column, sizes: Column, ends: Column, total: int) -> Column:
    """Return the positions of all bytes of spans; `ends` are the sums of `sizes`."""
    return np.repeat(starts - (ends - sizes), sizes) + np.arange(total)


def _behind_number(buffer: Column, at: Column, bytes_max: int) -> Column:
    """Return the positions behind variable-length numbers."""
    at = at.copy()
    open_ = np.arange(len(at))
    for _ in range(bytes_max):
        goes_on = buffer[at[open_]] >= 0x80
        at[open_] += 1
        open_ = open_[goes_on]
        if not len(open_):
            break
    return at


def _sizes(numbers: Column, bytes_max: int) -> Column:
    """Return how many bytes unsigned numbers take."""
    sizes = np.ones(len(numbers), dtype=np.int64)
    for count in range(1, bytes_max):
        sizes += numbers >= np.uint64(1 << 7 * count)
    return sizes


def _put_numbers(out: Column, at: Column, numbers: Column, sizes: Column) -> None:
    """Write unsigned numbers of known sizes."""
    for place in range(int(sizes.max()) if len(sizes) else 0):
        rows = np.flatnonzero(sizes > place)
        part = numbers[rows] >> np.uint64(7 * place)
        more = np.where(sizes[rows] > place + 1, MORE, np.uint64(0))
        out[at[rows] + place] = (part & LOW_BITS | more).astype(np.uint8)
