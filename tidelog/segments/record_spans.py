"""RecordSpans: where the records of many batches lie, as columns; what the decode kernels fill.

A key, value, header name or header value is a span `[start, end)` of the buffer that was decoded. A
null one has `end` -1. Nothing is copied and no object is made for a record.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["NULL_END", "HeaderSpans", "RecordSpans", "SpanRoom", "header_spans", "record_spans"]

NULL_END: Final = -1

Column = NDArray[Any]


class RecordSpans(NamedTuple):
    """One row a record; positions are int64, of the buffer."""

    batch: Column
    """int32, the row of the batch in its table."""
    offset: Column
    timestamp: Column
    """int64 milliseconds: the record's own, or the batch's where that is LogAppendTime."""
    key_start: Column
    key_end: Column
    value_start: Column
    value_end: Column
    header_count: Column
    """int32."""
    header_position: Column
    """Of the first header, behind the count."""
    end: Column
    """Of the record."""


class HeaderSpans(NamedTuple):
    """One row a header, in the order of their records."""

    name_start: Column
    name_end: Column
    value_start: Column
    value_end: Column


def record_spans(count: int) -> RecordSpans:
    """Return room for so many records, not filled."""
    is_narrow = ("batch", "header_count")
    columns = {
        name: np.empty(count, dtype=np.int32 if name in is_narrow else np.int64)
        for name in RecordSpans._fields
    }
    return RecordSpans(**columns)


class SpanRoom:
    """Room for records that is used again and again: the first touch of fresh memory is slow.

    What was taken holds until room is taken anew; but `offset`, which Arrow keeps as it is.
    """

    def __init__(self) -> None:
        self._spans = record_spans(0)

    def take(self, count: int) -> RecordSpans:
        """Return room for so many records, not filled."""
        if count > len(self._spans.offset):
            self._spans = record_spans(count + count // 4)
        spans = RecordSpans(*(column[:count] for column in self._spans))
        return spans._replace(offset=np.empty(count, dtype=np.int64))


def header_spans(count: int) -> HeaderSpans:
    """Return room for so many headers, not filled."""
    return HeaderSpans(*(np.empty(count, dtype=np.int64) for _ in range(4)))
