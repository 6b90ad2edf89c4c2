"""Encode: records as Arrow to record batches of format v2, compiled with numba or by NumPy alone.

The way back of `decode`, chosen by TIDELOG_KERNEL like that; both write the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.checksum import crc32c
from protocol.compression import Codec, compress
from protocol.errors import MessageTooLargeError
from protocol.identifiers import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Buffer,
)
from protocol.limits import BATCH_BYTES_MAX, INT32_MAX, RECORDS_PER_BATCH_MAX
from protocol.record_batch_header import (
    ATTRIBUTES_POSITION,
    CRC,
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC,
)
from protocol.varint import size_of_varint, size_of_varlong
from tidelog.segments.encoding.record_columns import (
    HeaderColumns,
    RecordColumns,
    Spans,
    record_columns,
    spans_of,
)
from tidelog.segments.errors import OptionError
from tidelog.segments.kernel import kernel_name

__all__ = ["BATCH_BYTES", "EncodedBatch", "encode"]

Column = NDArray[Any]

BATCH_BYTES: Final = 64 * 1024
"""Room for some hundred records of a hundred bytes: they compress well, and readers still seek."""
CHUNK_BYTES: Final = 4 * 1024 * 1024
"""How much is encoded in one go: what a batch costs beside its records is then nothing."""
VARINT_BYTES_MAX: Final = 5
NUMBER_BYTES_MAX: Final = 1 + 3 * VARINT_BYTES_MAX + HEADER_BYTES
HEADER_PLACE: Final = bytes(HEADER_BYTES)


class EncodedBatch(NamedTuple):
    """A record batch, and what has to be known of it to store it."""

    base_offset: int
    last_offset: int
    record_count: int
    max_timestamp: int
    """Milliseconds; -1 is none."""
    data: Buffer


@cache
def _kernel() -> ModuleType:
    if kernel_name() == "numba":
        from tidelog.segments.encoding import encode_numba

        return encode_numba
    from tidelog.segments.encoding import encode_numpy

    return encode_numpy


def encode(
    rows: pa.RecordBatch,
    *,
    base_offset: int | None = None,
    codec: Codec = Codec.NONE,
    batch_bytes: int = BATCH_BYTES,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> Iterator[EncodedBatch]:
    """Encode records as batches, in their order.

    A batch ends when it is full, or where its header could not say what is to be kept: where the
    timestamp type changes, where the broker's time does, and where offsets are 2^31 apart.

    Args:
        rows: With the column `value`, and as many as wanted of `key`, `headers`, `timestamp`,
            `timestampType` and `offset`, with the types of `columns`; keys, values and header
            names may be strings or bytes. What is missing or null is null (-1 as a timestamp).
            Other columns are left out.
        base_offset: What the first record gets, the others following; None keeps the column
            `offset`, or begins at 0 where there is none.
        batch_bytes: How large a batch may be before it is compressed. One record that is larger
            has a batch of its own.

    Raises:
        OptionError: a column is missing or of another type, offsets do not go up, or a number of
            the arguments cannot be.
        MessageTooLargeError: a record is over 2 GiB.
    """
    if not 0 < batch_bytes <= BATCH_BYTES_MAX:
        raise OptionError(f"batch_bytes is {batch_bytes}; it may be 1 to {BATCH_BYTES_MAX}")
    if base_offset is not None and base_offset < 0:
        raise OptionError(f"base_offset is {base_offset}; it must be 0 or more")
    records = record_columns(rows, base_offset)
    tails = _tails(records.headers, rows.num_rows)
    bounds = _size_bounds(records, tails)
    first_rows = _first_rows(records, bounds, batch_bytes)
    for chunk in _chunks(first_rows, bounds):
        yield from _encode_chunk(records, tails, bounds, chunk, int(codec), leader_epoch)


def _tails(headers: HeaderColumns | None, count: int) -> Spans:
    """Return what each record ends with: its headers, as bytes."""
    start = np.zeros(count, dtype=np.int64)
    if headers is None:
        return spans_of(np.zeros(1, dtype=np.uint8), start, start + 1)
    names, values = headers.names, headers.values
    bytes_max = len(names.data) + len(values.data)
    bytes_max += VARINT_BYTES_MAX * (count + 2 * len(names.start))
    data, end = np.empty(bytes_max, dtype=np.uint8), np.empty_like(start)
    _kernel().encode_headers(data, start, end, headers.counts, headers.first_item, *names, *values)
    return spans_of(data, start, end)


def _size_bounds(records: RecordColumns, tails: Spans) -> Column:
    """Return how many bytes each record takes at most: a little more than it does.

    Raises:
        MessageTooLargeError: a record is over 2 GiB.
    """
    bounds = tails.end - tails.start
    for spans in (records.key, records.value):
        bounds += np.maximum(spans.end - spans.start, 0)
    if not len(bounds):
        return bounds
    times, offset = records.timestamp, records.offset
    bounds += size_of_varlong(int(times.max()) - int(times.min()))
    bounds += size_of_varint(min(int(offset[-1] - offset[0]), INT32_MAX))
    largest = int(bounds.max()) + NUMBER_BYTES_MAX
    if largest > BATCH_BYTES_MAX:
        raise MessageTooLargeError(largest, BATCH_BYTES_MAX)
    bounds += 1 + 3 * size_of_varint(largest)  # attributes; the lengths of record, key and value
    return bounds


def _first_rows(records: RecordColumns, bounds: Column, batch_bytes: int) -> list[int]:
    """Return the rows where batches begin, and the end."""
    count = len(bounds)
    ends = np.cumsum(bounds)
    offset = records.offset
    cuts = [*_forced_cuts(records).tolist(), count]
    room = batch_bytes - HEADER_BYTES
    rows, row, cut = [0], 0, 0
    while row < count:
        while cuts[cut] <= row:
            cut += 1
        used = int(ends[row] - bounds[row])
        end = max(row + 1, int(np.searchsorted(ends, used + room, side="right")))
        end = min(end, cuts[cut], row + RECORDS_PER_BATCH_MAX)
        if offset[end - 1] - offset[row] > INT32_MAX:
            end = int(np.searchsorted(offset, offset[row] + INT32_MAX, side="right"))
        row = end
        rows.append(row)
    return rows


def _forced_cuts(records: RecordColumns) -> Column:
    """Return the rows that cannot be in one batch with the row before."""
    is_append_time, times = records.is_append_time, records.timestamp
    if not is_append_time.any():
        return np.empty(0, dtype=np.int64)
    changes = is_append_time[1:] != is_append_time[:-1]
    changes |= is_append_time[1:] & (times[1:] != times[:-1])
    return np.flatnonzero(changes) + 1


def _chunks(first_rows: list[int], bounds: Column) -> Iterator[Column]:
    """Yield the first rows of some batches, and their end, so that they are large together."""
    rows = np.array(first_rows, dtype=np.int64)
    if len(rows) < 2:
        return
    batch_bytes = np.add.reduceat(bounds, rows[:-1])
    number = np.cumsum(batch_bytes) // CHUNK_BYTES
    begins = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(rows) - 1]
    for begin, end in pairwise(begins):
        yield rows[begin : end + 1]


def _encode_chunk(
    records: RecordColumns,
    tails: Spans,
    bounds: Column,
    rows: Column,
    codec: int,
    leader_epoch: int,
) -> Iterator[EncodedBatch]:
    """Encode some batches; `rows` are where they begin, and the end."""
    batches = len(rows) - 1
    bytes_max = int(bounds[rows[0] : rows[-1]].sum()) + HEADER_BYTES * batches
    out = np.empty(bytes_max, dtype=np.uint8)
    ends = np.empty(batches, dtype=np.int64)
    offset, timestamp = records.offset, records.timestamp
    _kernel().encode_records(
        out, ends, rows, offset, timestamp, *records.key, *records.value, *tails
    )
    first, last = rows[:-1], rows[1:] - 1
    facts = zip(
        ends.tolist(), offset[first].tolist(), offset[last].tolist(), timestamp[first].tolist(),
        np.maximum.reduceat(timestamp[: rows[-1]], first).tolist(),
        records.is_append_time[first].tolist(), np.diff(rows).tolist(), strict=True,
    )  # fmt: skip
    view, start = out.data, 0
    for end, base_offset, last_offset, base_time, max_time, is_append_time, count in facts:
        attributes = codec | (LOG_APPEND_TIME_FLAG if is_append_time else 0)
        data = view[start:end]
        if codec != Codec.NONE:
            packed = compress(codec, data[HEADER_BYTES:])
            data = memoryview(bytearray().join((HEADER_PLACE, packed)))
        HEADER.pack_into(
            data, 0, base_offset, len(data) - LOG_OVERHEAD_BYTES, leader_epoch, MAGIC, 0,
            attributes, last_offset - base_offset, base_time, max_time,
            NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, count,
        )  # fmt: skip
        CRC.pack_into(data, CRC_POSITION, crc32c(data[ATTRIBUTES_POSITION:]))
        yield EncodedBatch(base_offset, last_offset, count, max_time, data)
        start = end
