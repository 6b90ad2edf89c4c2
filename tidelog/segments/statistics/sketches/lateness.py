"""Lateness: records that are older than one before them, and how many are much older.

Exact over pieces that are looked at apart from each other: a piece keeps its first timestamps, for
only as long as none of its own is larger does it matter how large those of the pieces before were.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Lateness"]

HEAD_RECORDS: Final = 8192
BEFORE_ALL: Final = -(2**62)

Column = NDArray[Any]


class Lateness:
    """Timestamps in the order of their offsets."""

    def __init__(self, threshold_ms: int) -> None:
        """Args:
        threshold_ms: A record is late if it is older than the largest before by more than this.
        """
        self._threshold_ms = threshold_ms
        self._largest = BEFORE_ALL
        self._head = np.empty(0, dtype=np.int64)
        self._count = 0
        self.out_of_order = 0
        """Records older than one before them."""
        self.late = 0
        self.latest_by_ms = 0
        """How much older the latest one is."""
        self.is_exact = True
        """If not, the three are too small: a piece goes on for long below what was before it."""

    def add(self, timestamps: Column) -> None:
        """Take note of the next records' timestamps (ms)."""
        if not len(timestamps):
            return
        room = HEAD_RECORDS - len(self._head)
        if room > 0:
            self._head = np.concatenate([self._head, timestamps[:room]])
        behind = _behind(timestamps, self._largest)
        self._count += len(timestamps)
        self.out_of_order += int((behind > 0).sum())
        self.late += int((behind > self._threshold_ms).sum())
        self.latest_by_ms = max(self.latest_by_ms, int(behind.max()))
        self._largest = max(self._largest, int(timestamps.max()))

    def merge(self, other: Lateness) -> None:
        """Add what the other has found, where the two have nothing to do with each other."""
        self.out_of_order += other.out_of_order
        self.late += other.late
        self.latest_by_ms = max(self.latest_by_ms, other.latest_by_ms)
        self.is_exact &= other.is_exact

    def append(self, other: Lateness) -> None:
        """Take note of all that the other has seen, which came after all that this one has."""
        self.merge(other)
        head = other._head
        if len(head):
            alone, here = _behind(head, BEFORE_ALL), _behind(head, self._largest)
            self.out_of_order += int((here > 0).sum() - (alone > 0).sum())
            threshold = self._threshold_ms
            self.late += int((here > threshold).sum() - (alone > threshold).sum())
            self.latest_by_ms = max(self.latest_by_ms, int(here.max()))
            is_whole = other._count == len(head)
            self.is_exact &= is_whole or int(head.max()) >= self._largest
        room = HEAD_RECORDS - len(self._head)
        if room > 0 and self._count == len(self._head):
            self._head = np.concatenate([self._head, head[:room]])
        self._count += other._count
        self._largest = max(self._largest, other._largest)


def _behind(timestamps: Column, largest: int) -> Column:
    """Return how much older each is than the largest before it; 0 for those that are not."""
    before = np.empty_like(timestamps)
    before[0] = largest
    before[1:] = timestamps[:-1]
    np.maximum.accumulate(before, out=before)
    found: Column = np.maximum(before - timestamps, 0)
    return found
