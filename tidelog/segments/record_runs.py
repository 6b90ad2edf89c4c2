"""RecordRuns: sound batches as runs of decoded records, and the batches that do not decode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from numpy.typing import NDArray

from tidelog.segments import kernel
from tidelog.segments.batch_table import BatchTable
from tidelog.segments.inflate import InflatedRecords, inflate
from tidelog.segments.record_spans import RecordSpans

__all__ = ["RecordRun", "Undecodable", "record_runs"]

BUFFER_BYTES: Final = 16 * 1024 * 1024
"""Decompressed at once: bounds the memory, whatever the codecs make of a window."""


class RecordRun(NamedTuple):
    """Batches that were decoded."""

    table: BatchTable
    buffer: NDArray[Any]
    """uint8; what the spans are of."""
    starts: NDArray[Any]
    """int64, a row a batch: where in the buffer its records begin."""
    ends: NDArray[Any]
    spans: RecordSpans


class Undecodable(NamedTuple):
    """A batch whose CRC is right and whose records are none."""

    row: Any
    """Of the table."""
    reason: str


def record_runs(
    data: memoryview, table: BatchTable, *, with_headers: bool = False
) -> Iterator[RecordRun | Undecodable]:
    """Decode batches, all of them in their order.

    Args:
        data: What the table's positions are of.
        with_headers: See that the records' headers decode, too.
    """
    while len(table):
        inflated = inflate(data, table, buffer_bytes=BUFFER_BYTES)
        count, reason = len(inflated.starts), inflated.fault
        spans, bad = kernel.decode(inflated, table[:count])
        if bad is not None:
            text = f"they are not {int(table[bad]['record_count'])} whole records"
            count, reason = bad, text
        bad = _bad_headers(inflated, spans) if with_headers else None
        if bad is not None:
            count, reason = bad, "their headers are not whole"
            spans = RecordSpans(*(column[spans.batch < bad] for column in spans))
        if count:
            starts, ends = inflated.starts[:count], inflated.ends[:count]
            yield RecordRun(table[:count], inflated.buffer, starts, ends, spans)
        if reason is not None:
            yield Undecodable(table[count], reason)
            count += 1
        table = table[count:]


def _bad_headers(inflated: InflatedRecords, spans: RecordSpans) -> int | None:
    """Return the row of the first batch with a record whose headers do not decode."""
    _, bad_record = kernel.decode_headers(inflated, spans)
    return None if bad_record is None else int(spans.batch[bad_record])
