"""Columns: records as Arrow, under the names and types of Spark's own Kafka source.

    key binary, value binary, topic string, partition int32, offset int64,
    timestamp timestamp[us, UTC], timestampType int32,
    headers list<struct<key string, value binary>>

Values are copied once, from where they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.limits import INT64_MAX
from protocol.record_batch_header import LOG_APPEND_TIME_FLAG
from tidelog.segments.batch_table import NO_TIMESTAMP_FLAG, BatchTable
from tidelog.segments.errors import OptionError
from tidelog.segments.kernel import gather
from tidelog.segments.record_spans import NULL_END, HeaderSpans, RecordSpans

__all__ = ["COLUMNS", "HEADERS", "arrow_schema", "header_array", "to_record_batch"]

HEADERS: Final = "headers"
HEADER_TYPE: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
TYPES: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    HEADERS: pa.list_(HEADER_TYPE),
}
COLUMNS: Final = tuple(name for name in TYPES if name != HEADERS)
"""What is read if nobody says otherwise."""
NO_TIMESTAMP_TYPE: Final = -1
"""Of messages of format 0, as in Kafka's clients."""
MICROSECONDS: Final = 1_000
TIME_MAX_MS: Final = INT64_MAX // MICROSECONDS
"""In the year 294,247: what microseconds can say. Times beyond, either way, become this one."""


def arrow_schema(columns: Sequence[str] = COLUMNS) -> pa.Schema:
    """Return the schema of these columns, in this order. OptionError for one that is not there."""
    for name in columns:
        if name not in TYPES:
            raise OptionError(f"there is no column {name!r}; there are {', '.join(TYPES)}")
    return pa.schema([(name, TYPES[name]) for name in columns])


def to_record_batch(
    spans: RecordSpans,
    table: BatchTable,
    buffer: NDArray[Any],
    headers: HeaderSpans | None,
    *,
    topic: str,
    partition: int,
    columns: Sequence[str] = COLUMNS,
) -> pa.RecordBatch:
    """Return the columns of the records.

    Args:
        headers: Needed for the column of that name only.
    """
    count = len(spans.offset)

    def array(name: str) -> pa.Array:
        if name == "key":
            return binary_array(buffer, spans.key_start, spans.key_end)
        if name == "value":
            return binary_array(buffer, spans.value_start, spans.value_end)
        if name == "topic":
            return _repeated(topic, count)
        if name == "partition":
            return pa.array(np.full(count, partition, dtype=np.int32))
        if name == "offset":
            return pa.array(spans.offset)
        if name == "timestamp":
            return _times(spans.timestamp)
        if name == "timestampType":
            attributes = table["attributes"]
            types = (attributes & LOG_APPEND_TIME_FLAG != 0).astype(np.int32)
            types[attributes & NO_TIMESTAMP_FLAG != 0] = NO_TIMESTAMP_TYPE
            return pa.array(types[spans.batch])
        assert headers is not None, "the headers were not decoded"
        return header_array(buffer, spans, headers)

    schema = arrow_schema(columns)
    return pa.RecordBatch.from_arrays([array(name) for name in columns], schema=schema)


def binary_array(buffer: NDArray[Any], starts: NDArray[Any], ends: NDArray[Any]) -> pa.Array:
    """Return the spans of a buffer, which go up and do not overlap; null where the end is -1."""
    offsets, values = gather(buffer, starts, ends)
    validity = None
    is_null = ends == NULL_END
    if is_null.any():
        validity = pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.binary(), len(starts), buffers)


def header_array(buffer: NDArray[Any], spans: RecordSpans, headers: HeaderSpans) -> pa.Array:
    """Return the list of headers of each record; empty where there is none, never null."""
    names = binary_array(buffer, headers.name_start, headers.name_end)
    values = binary_array(buffer, headers.value_start, headers.value_end)
    offsets = np.zeros(len(spans.offset) + 1, dtype=np.int32)
    np.cumsum(spans.header_count, out=offsets[1:])
    items = pa.StructArray.from_arrays([_text(names), values], fields=list(HEADER_TYPE))
    return pa.ListArray.from_arrays(pa.array(offsets), items, type=TYPES[HEADERS])


def _times(milliseconds: NDArray[Any]) -> pa.Array:
    microseconds = np.clip(milliseconds, -TIME_MAX_MS, TIME_MAX_MS)
    microseconds *= MICROSECONDS
    return pa.array(microseconds).cast(TYPES["timestamp"])


def _text(names: pa.Array) -> pa.Array:
    """Return names as strings; bytes that are not UTF-8 become replacement characters."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()])


def _repeated(text: str, count: int) -> pa.Array:
    data = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * len(data)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)
