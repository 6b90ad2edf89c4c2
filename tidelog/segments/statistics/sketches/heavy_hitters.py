"""HeavyHitters: the values that come most often, and how often, in room for a thousand.

Misra and Gries, "Finding repeated elements" (1982), as P. Agarwal et al. merge it, "Mergeable
summaries" (2012): with too many counters, the largest that does not fit is taken off all. A count
is then too small by at most what was taken off, which is never more than a share of
1 / (capacity + 1) of all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["CAPACITY", "HeavyHitters", "Hitter"]

CAPACITY: Final = 1024


class Hitter(NamedTuple):
    """A value and how often it came."""

    name: bytes
    times: int
    """At least this often, and at most this and `HeavyHitters.error`."""


class HeavyHitters:
    """Counters of values, by their hashes; two values of one hash would be one."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._hashes = np.empty(0, dtype=np.uint64)
        self._counts = np.empty(0, dtype=np.int64)
        self._names: dict[int, bytes] = {}
        self.error = 0
        """A count is too small by this at most; 0: all are exact, and no value is left out."""

    def add(self, hashes: NDArray[Any], name_of: Callable[[int], bytes]) -> None:
        """Take note of values.

        Args:
            hashes: uint64.
            name_of: The name of the value of that row of `hashes`; asked for few.
        """
        found, rows, counts = np.unique(hashes, return_index=True, return_counts=True)
        self._count(found, counts)
        for row in np.flatnonzero(np.isin(found, self._hashes)).tolist():
            number = int(found[row])
            if number not in self._names:
                self._names[number] = name_of(int(rows[row]))

    def merge(self, other: HeavyHitters) -> None:
        """Take note of all that the other has seen."""
        self.error += other.error
        self._names = {**other._names, **self._names}
        self._count(other._hashes, other._counts)

    def __len__(self) -> int:
        return len(self._hashes)

    def top(self, count: int) -> list[Hitter]:
        """Return the most frequent ones, the first first; of equal ones the smaller name."""
        ranked = sorted(
            zip(self._hashes.tolist(), self._counts.tolist(), strict=True),
            key=lambda each: (-each[1], self._names[each[0]]),
        )
        return [Hitter(self._names[number], times) for number, times in ranked[:count]]

    def _count(self, hashes: NDArray[Any], counts: NDArray[Any]) -> None:
        """Add to the counters; make room where there are too many."""
        both = np.concatenate([self._hashes, hashes])
        self._hashes, places = np.unique(both, return_inverse=True)
        self._counts, before = np.zeros(len(self._hashes), dtype=np.int64), self._counts
        np.add.at(self._counts, places, np.concatenate([before, counts]))
        if len(self._hashes) <= self._capacity:
            return
        cut = len(self._counts) - self._capacity - 1
        taken_off = int(np.partition(self._counts, cut)[cut])
        self.error += taken_off
        self._counts -= taken_off
        is_kept = self._counts > 0
        self._hashes, self._counts = self._hashes[is_kept], self._counts[is_kept]
        kept = set(self._hashes.tolist())
        self._names = {number: name for number, name in self._names.items() if number in kept}
