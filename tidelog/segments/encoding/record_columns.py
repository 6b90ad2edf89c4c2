"""RecordColumns: the columns of an Arrow batch as what the encode kernels read: spans and numbers.

The way back of `columns`. Of keys, values and headers nothing is copied.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from numpy.typing import NDArray

from protocol.identifiers import NO_TIMESTAMP
from protocol.limits import HEADERS_PER_RECORD_MAX, INT64_MAX
from tidelog.segments.columns import HEADERS
from tidelog.segments.errors import OptionError
from tidelog.segments.record_spans import NULL_END

__all__ = ["HeaderColumns", "RecordColumns", "Spans", "record_columns", "spans_of"]

Column = NDArray[Any]

TIMESTAMP_MS_MAX: Final = 2**62 - 1
"""So that no difference of two of them leaves int64."""
UNITS: Final = {"s": (1_000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}
"""Of Arrow: what makes milliseconds of them, by multiplication and division."""


class Spans(NamedTuple):
    """The bytes of each row: `data[start:end]`; null where the end is -1.

    Made by `spans_of`.
    """

    data: Column
    """uint8."""
    start: Column
    """int64."""
    end: Column


class HeaderColumns(NamedTuple):
    """The headers of each row: so many, from `first_item` on."""

    counts: Column
    """int64."""
    first_item: Column
    names: Spans
    values: Spans


class RecordColumns(NamedTuple):
    """One row a record, int64 where nothing else is said."""

    offset: Column
    timestamp: Column
    """Milliseconds; -1 is none."""
    is_append_time: Column
    """bool: the timestamp is the broker's, and the batch's."""
    key: Spans
    value: Spans
    headers: HeaderColumns | None
    """None where no record has any."""


def spans_of(data: Column, start: Column, end: Column) -> Spans:
    return Spans(read_only(data), read_only(start), read_only(end))


def read_only(column: Column) -> Column:
    """Return a column as a kernel reads it: numba would compile once more for one it may write."""
    view = column.view()
    view.flags.writeable = False
    return view


def record_columns(rows: pa.RecordBatch, base_offset: int | None) -> RecordColumns:
    """Return the columns of records; see `encode.encode` for what there may be.

    Raises:
        OptionError: a column is missing, of another type, or holds what no record can have.
    """
    count = rows.num_rows
    if "value" not in rows.schema.names:
        raise OptionError("there is no column 'value': it holds what the records are")
    is_append_time = _numbers(rows, "timestampType", np.zeros(count, dtype=np.int64)) == 1
    return RecordColumns(
        read_only(_offsets(rows, base_offset)),
        read_only(_timestamps(rows)),
        is_append_time,
        _spans(rows, "key"),
        _spans(rows, "value"),
        _headers(rows),
    )


def _column(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    return rows.column(name) if name in rows.schema.names else None


def _numbers(rows: pa.RecordBatch, name: str, otherwise: Column) -> Column:
    column = _column(rows, name)
    if column is None:
        return otherwise
    if not kinds.is_integer(column.type):
        raise OptionError(f"the column {name!r} is {column.type}; it must be an integer")
    if column.null_count:
        raise OptionError(f"the column {name!r} holds a null, which it may not")
    return np.asarray(column.cast(pa.int64()))


def _offsets(rows: pa.RecordBatch, base_offset: int | None) -> Column:
    counted = np.arange(base_offset or 0, (base_offset or 0) + rows.num_rows, dtype=np.int64)
    if base_offset is not None:
        return counted
    offset = _numbers(rows, "offset", counted)
    if len(offset) and (offset[0] < 0 or offset[-1] == INT64_MAX or (np.diff(offset) <= 0).any()):
        raise OptionError("the offsets must be 0 or more, and each above the one before")
    return offset


def _timestamps(rows: pa.RecordBatch) -> Column:
    column = _column(rows, "timestamp")
    if column is None:
        return np.full(rows.num_rows, NO_TIMESTAMP, dtype=np.int64)
    if not kinds.is_timestamp(column.type):
        raise OptionError(f"the column 'timestamp' is {column.type}; it must be a timestamp")
    times = np.asarray(column.cast(pa.int64()).fill_null(0))
    factor, divisor = UNITS[column.type.unit]
    times, farthest = times // divisor, TIMESTAMP_MS_MAX // factor
    if ((times > farthest) | (times < -farthest)).any():
        raise OptionError("a timestamp is too far from 1970 to be stored")
    times = times * factor
    if column.null_count:
        times = np.where(np.asarray(column.is_null()), NO_TIMESTAMP, times)
    return times


def _spans(rows: pa.RecordBatch, name: str) -> Spans:
    column = _column(rows, name)
    if column is None or kinds.is_null(column.type):
        nothing = np.zeros(rows.num_rows, dtype=np.int64)
        return spans_of(np.empty(0, dtype=np.uint8), nothing, nothing + NULL_END)
    return _array_spans(column, name)


def _array_spans(array: pa.Array, name: str) -> Spans:
    """Return the spans of an array of strings or bytes.

    Raises:
        OptionError: it is an array of something else.
    """
    kind = array.type
    if not (kinds.is_binary(kind) or kinds.is_string(kind)):
        is_large = kinds.is_large_binary(kind) or kinds.is_large_string(kind)
        if not is_large and not kinds.is_fixed_size_binary(kind):
            raise OptionError(f"the column {name!r} is {kind}; it must be binary or string")
        array = array.cast(pa.large_binary() if is_large else pa.binary())
    width = np.int64 if kinds.is_large_binary(array.type) else np.int32
    _, offset_buffer, data_buffer = array.buffers()
    if not len(array) or offset_buffer is None:
        return spans_of(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64))
    offsets = np.frombuffer(offset_buffer, dtype=width)[array.offset :][: len(array) + 1]
    offsets = offsets.astype(np.int64)
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
    end = offsets[1:]
    if array.null_count:
        end = np.where(np.asarray(array.is_null()), NULL_END, end)
    return spans_of(data, offsets[:-1], end)


def _headers(rows: pa.RecordBatch) -> HeaderColumns | None:
    column = _column(rows, HEADERS)
    if column is None or kinds.is_null(column.type):
        return None
    kind = column.type
    is_list = kinds.is_list(kind) or kinds.is_large_list(kind)
    if not is_list or not kinds.is_struct(kind.value_type) or kind.value_type.num_fields != 2:
        raise OptionError(
            f"the column {HEADERS!r} is {kind}; it must be a list of structs of a string and binary"
        )
    offsets = np.asarray(column.offsets).astype(np.int64)
    counts = np.diff(offsets)
    if column.null_count:
        counts[np.asarray(column.is_null())] = 0
    if not counts.any():
        return None
    if counts.max() > HEADERS_PER_RECORD_MAX:
        raise OptionError(f"a record has more than {HEADERS_PER_RECORD_MAX} headers")
    names, values = (_array_spans(each, HEADERS) for each in column.values.flatten())
    if (names.end < 0).any():
        raise OptionError("a header has no name: a name may be empty, but not null")
    return HeaderColumns(read_only(counts), read_only(offsets[:-1]), names, values)
