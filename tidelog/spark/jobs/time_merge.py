"""TimeMerge: streams of records, each in its own order, as one that follows the time.

Each record counts with the largest timestamp its stream has had up to it, so that no stream's order
is changed. Of the same time, the first stream's come first. So the result is the same however the
streams are cut into pieces: it can be made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["merge_by_time"]


def merge_by_time(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Yield the records of all streams; they have the column `timestamp`, and one schema."""
    heads = [head for stream in streams if (head := _Head(stream)).refill()]
    while heads:
        owner = min(range(len(heads)), key=lambda number: (heads[number].times[-1], number))
        bound = heads[owner].times[-1]
        # What others still have to come is behind this one's last record: up to it all is there.
        parts, times = [], []
        for number, head in enumerate(heads):
            rows, of_rows = head.take(head.count(bound, with_bound=number <= owner))
            parts.append(rows)
            times.append(of_rows)
        order = np.argsort(np.concatenate(times), kind="stable")
        merged = pa.Table.from_batches(parts).combine_chunks().take(pa.array(order))
        yield from merged.combine_chunks().to_batches()
        heads = [head for head in heads if len(head.times) or head.refill()]


class _Head:
    """The next records of a stream."""

    def __init__(self, stream: Iterator[pa.RecordBatch]) -> None:
        self._stream = stream
        self._rows: Any = None
        self._largest = np.iinfo(np.int64).min
        self.times: NDArray[Any] = np.empty(0, dtype=np.int64)
        """Of each record the largest up to it, microseconds."""

    def refill(self) -> bool:
        """Have more records, all others being taken; False: there are none."""
        for rows in self._stream:
            if rows.num_rows:
                times = rows["timestamp"].cast(pa.int64()).to_numpy(zero_copy_only=False)
                self.times = np.maximum(np.maximum.accumulate(times), self._largest)
                self._rows, self._largest = rows, self.times[-1]
                return True
        return False

    def count(self, bound: int, *, with_bound: bool) -> int:
        """Return how many records are before a time, or at it."""
        return int(np.searchsorted(self.times, bound, side="right" if with_bound else "left"))

    def take(self, count: int) -> tuple[pa.RecordBatch, NDArray[Any]]:
        """Return the first so many records, and their times."""
        rows, times = self._rows.slice(0, count), self.times[:count]
        self._rows, self.times = self._rows.slice(count), self.times[count:]
        return rows, times
