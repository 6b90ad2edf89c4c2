"""The decode kernel: records of many batches to spans, compiled with numba or by NumPy alone.

Both give the same for the same bytes; see `kernel_choice`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from protocol.record_batch_header import LOG_APPEND_TIME_FLAG, RECORD_BYTES_MIN
from tidelog.segments.batch_table import BatchTable
from tidelog.segments.inflate import InflatedRecords
from tidelog.segments.kernel_choice import chosen_kernel as _kernel
from tidelog.segments.kernel_choice import kernel_name
from tidelog.segments.record_spans import (
    HeaderSpans,
    RecordSpans,
    SpanRoom,
    header_spans,
    record_spans,
)

__all__ = ["decode", "decode_headers", "gather", "kernel_name"]

SOUND: Final = -1


def decode(
    inflated: InflatedRecords, table: BatchTable, room: SpanRoom | None = None
) -> tuple[RecordSpans, int | None]:
    """Decode the records of all batches; return them, and the row of the first unsound batch.

    With an unsound batch the spans are those of the batches before it.

    Args:
        room: For the spans; else they get their own.
    """
    possible = _possible(inflated, table)
    table, starts, ends = table[:possible], inflated.starts[:possible], inflated.ends[:possible]
    count = int(table["record_count"].sum())
    spans = record_spans(count) if room is None else room.take(count)
    attributes = table["attributes"]
    bad = _kernel().decode_records(
        inflated.buffer, starts, ends, table["record_count"].astype(np.int64),
        table["base_offset"].copy(), table["last_offset"] - table["base_offset"],
        table["base_timestamp"].copy(), table["max_timestamp"].copy(),
        attributes & LOG_APPEND_TIME_FLAG != 0, *spans,
    )  # fmt: skip
    if bad == SOUND:
        return spans, None if possible == len(inflated.starts) else possible
    count = int(table["record_count"][:bad].sum())
    return RecordSpans(*(column[:count] for column in spans)), int(bad)


def _possible(inflated: InflatedRecords, table: BatchTable) -> int:
    """Return how many batches there are before the first whose records have no room in its bytes.

    Before room is made for them: a compressed batch of a hundred bytes may claim millions.
    """
    claimed = table["record_count"] * np.int64(RECORD_BYTES_MIN)
    impossible = claimed > inflated.ends - inflated.starts
    return int(np.argmax(impossible)) if impossible.any() else len(table)


def decode_headers(inflated: InflatedRecords, spans: RecordSpans) -> tuple[HeaderSpans, int | None]:
    """Decode the headers of all records; return them, and the row of the first unsound record."""
    headers = header_spans(int(spans.header_count.sum()))
    bad = _kernel().decode_headers(
        inflated.buffer, spans.header_count, spans.header_position, spans.end, *headers
    )
    return headers, None if bad == SOUND else int(bad)


def gather(
    buffer: NDArray[Any], starts: NDArray[Any], ends: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the bytes of spans, one behind the other, after where each begins (and the last ends).

    Args:
        starts: Of spans in the buffer that go up and do not overlap, of less than 2 GB in all.
        ends: One before its start, such as `NULL_END`: the span is empty.

    Returns:
        int32, one more than there are spans, and uint8: what an Arrow array of binary values needs.
    """
    offsets, values = _kernel().gather(buffer, starts, ends)
    return offsets, values
