"""LogHistogram: a distribution of sizes, each known to one per cent, in 9 KB.

Bounds grow by a constant factor, as in C. Masson et al., "DDSketch: a fast and fully-mergeable
quantile sketch with relative-error guarantees" (2019); sizes have a largest one, so all buckets are
there from the beginning.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["RELATIVE_ERROR", "LogHistogram"]

RELATIVE_ERROR: Final = 0.01
"""Of a quantile, against the value at the same place of the sorted sizes."""
_FACTOR: Final = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_LOG_FACTOR: Final = math.log(_FACTOR)
SIZE_MAX: Final = 2**32
BUCKETS: Final = 2 + math.ceil(math.log(SIZE_MAX) / _LOG_FACTOR)
"""The first is of 0 alone, the second of 1, bucket n of sizes up to factor^(n-1)."""


class LogHistogram:
    """Sizes seen: whole numbers from 0 to 2^32."""

    def __init__(self) -> None:
        self.counts = np.zeros(BUCKETS, dtype=np.int64)
        self.count = self.total = self.largest = 0
        self.smallest = SIZE_MAX

    def add(self, sizes: NDArray[Any]) -> None:
        """Take note of sizes."""
        if not len(sizes):
            return
        smallest, largest = int(sizes.min()), int(sizes.max())
        if largest < SMALL_MAX:  # a logarithm for each size, not for each record
            counts = np.bincount(sizes)
            self.counts += np.bincount(_SMALL_BUCKETS[: len(counts)], counts, BUCKETS).astype(int)
        else:
            self.counts += np.bincount(_buckets(sizes), minlength=BUCKETS)
        self.count += len(sizes)
        self.total += int(sizes.sum())
        self.smallest = min(self.smallest, smallest)
        self.largest = max(self.largest, largest)

    def merge(self, other: LogHistogram) -> None:
        """Take note of all that the other has seen."""
        self.counts += other.counts
        self.count += other.count
        self.total += other.total
        self.smallest = min(self.smallest, other.smallest)
        self.largest = max(self.largest, other.largest)

    def quantile(self, share: float) -> float | None:
        """Return the size at a share, 0 to 1, of the sorted sizes; None without any."""
        if not self.count:
            return None
        rank = math.floor(share * (self.count - 1))
        bucket = int(np.searchsorted(np.cumsum(self.counts), rank, side="right"))
        return min(max(_middle(bucket), self.smallest), self.largest)

    @property
    def mean(self) -> float | None:
        """The exact mean; None without any size."""
        return self.total / self.count if self.count else None

    def powers_of_two(self) -> list[tuple[int, int]]:
        """Return (upper bound, count) by powers of two, from the first to the last that has any.

        A size that is just above such a bound may count as below it.
        """
        bounds = [1 << power for power in range(33)]
        middles = np.array([_middle(bucket) for bucket in range(BUCKETS)])
        places = np.searchsorted(bounds, middles)
        found = np.bincount(places, weights=self.counts, minlength=len(bounds)).astype(int)
        used = np.flatnonzero(found)
        if not len(used):
            return []
        return [(bounds[place], int(found[place])) for place in range(used[0], used[-1] + 1)]


def _buckets(sizes: NDArray[Any]) -> NDArray[Any]:
    logs = np.log(np.maximum(sizes, 1)) / _LOG_FACTOR
    return np.where(sizes == 0, 0, 1 + np.ceil(logs - 1e-9)).astype(np.int64)


SMALL_MAX: Final = 4096
_SMALL_BUCKETS: Final = _buckets(np.arange(SMALL_MAX))


def _middle(bucket: int) -> float:
    """Return what is off by the same share from both bounds of a bucket."""
    if bucket <= 1:
        return float(bucket)
    return float(2 * _FACTOR ** (bucket - 1) / (_FACTOR + 1))
