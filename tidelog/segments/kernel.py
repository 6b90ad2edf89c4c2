"""The decode kernel: records of many batches to spans, compiled with numba or by NumPy alone.

Both give the same for the same bytes; see `kernel_choice`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from protocol.record_batch_header import LOG_APPEND_TIME_FLAG
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

__all__ = ["decode", "decode_headers", "kernel_name"]

SOUND: Final = -1


def decode(
    inflated: InflatedRecords, table: BatchTable, room: SpanRoom | None = None
) -> tuple[RecordSpans, int | None]:
    """Decode the records of all batches; return them, and the row of the first unsound batch.

    With an unsound batch the spans are those of the batches before it.

    Args:
        room: For the spans; else they get their own.
    """
    count = int(table["record_count"].sum())
    spans = record_spans(count) if room is None else room.take(count)
    attributes = table["attributes"]
    bad = _kernel().decode_records(
        inflated.buffer, inflated.starts, inflated.ends, table["record_count"].astype(np.int64),
        table["base_offset"].copy(), table["last_offset"] - table["base_offset"],
        table["base_timestamp"].copy(), table["max_timestamp"].copy(),
        attributes & LOG_APPEND_TIME_FLAG != 0, *spans,
    )  # fmt: skip
    if bad == SOUND:
        return spans, None
    count = int(table["record_count"][:bad].sum())
    return RecordSpans(*(column[:count] for column in spans)), int(bad)


def decode_headers(inflated: InflatedRecords, spans: RecordSpans) -> tuple[HeaderSpans, int | None]:
    """Decode the headers of all records; return them, and the row of the first unsound record."""
    headers = header_spans(int(spans.header_count.sum()))
    bad = _kernel().decode_headers(
        inflated.buffer, spans.header_count, spans.header_position, spans.end, *headers
    )
    return headers, None if bad == SOUND else int(bad)
