"""TimeBuckets: records and bytes over time; buckets double where there would be too many."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["BUCKETS_MAX", "Bucket", "TimeBuckets"]

BUCKETS_MAX: Final = 20_000
"""That have any record: two weeks of minutes. Gaps in time take no room."""

Column = NDArray[Any]


class Bucket(NamedTuple):
    """What came in one interval."""

    start_ms: int
    records: int
    size_bytes: int


class TimeBuckets:
    """Records and bytes by interval; intervals begin at whole multiples of their width."""

    def __init__(self, width_ms: int, *, buckets_max: int = BUCKETS_MAX) -> None:
        self.width_ms, self._buckets_max = width_ms, buckets_max
        self._numbers = np.empty(0, dtype=np.int64)
        self._records = np.empty(0, dtype=np.int64)
        self._bytes = np.empty(0, dtype=np.int64)

    def add(self, timestamps: Column, sizes: Column) -> None:
        """Take note of records: their times (ms) and sizes in bytes."""
        if not len(timestamps):
            return
        numbers = timestamps // self.width_ms
        first = int(numbers.min())
        if int(numbers.max()) - first < len(numbers):  # close together, as a rule: do not sort
            places, numbers = numbers - first, np.arange(first, int(numbers.max()) + 1)
        else:
            numbers, places = np.unique(numbers, return_inverse=True)
        records = np.bincount(places, minlength=len(numbers))
        size_bytes = _summed(places, len(numbers), sizes)
        is_used = records > 0
        self._add(numbers[is_used], records[is_used], size_bytes[is_used])

    def merge(self, other: TimeBuckets) -> None:
        """Take note of all that the other has seen.

        Both began with the same width, so the one is a power of two times the other.
        """
        while self.width_ms < other.width_ms:
            self._widen()
        factor = self.width_ms // other.width_ms
        self._add(other._numbers // factor, other._records, other._bytes)

    def buckets(self) -> list[Bucket]:
        """Return the intervals that have any record, in their order."""
        starts = (self._numbers * self.width_ms).tolist()
        columns = starts, self._records.tolist(), self._bytes.tolist()
        return [Bucket(*row) for row in zip(*columns, strict=True)]

    def _add(self, numbers: Column, records: Column, size_bytes: Column) -> None:
        both = np.concatenate([self._numbers, numbers])
        self._numbers, places = np.unique(both, return_inverse=True)
        self._records = _summed(places, len(self._numbers), self._records, records)
        self._bytes = _summed(places, len(self._numbers), self._bytes, size_bytes)
        while len(self._numbers) > self._buckets_max:
            self._widen()

    def _widen(self) -> None:
        self.width_ms *= 2
        self._numbers, places = np.unique(self._numbers // 2, return_inverse=True)
        self._records = _summed(places, len(self._numbers), self._records)
        self._bytes = _summed(places, len(self._numbers), self._bytes)


def _summed(places: Column, count: int, *parts: Column) -> Column:
    found: Column = np.zeros(count, dtype=np.int64)
    np.add.at(found, places, np.concatenate(parts))
    return found
