"""HyperLogLog: how many different values there are, from their hashes, in 16 KiB.

P. Flajolet et al., "HyperLogLog: the analysis of a near-optimal cardinality estimation algorithm"
(2007), with the estimator of O. Ertl, "New cardinality estimation algorithms for HyperLogLog
sketches" (2017, algorithm 6), which needs no tables of corrections and is as good for few values
as for many.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["STANDARD_ERROR", "HyperLogLog"]

PRECISION: Final = 14
REGISTERS: Final = 1 << PRECISION
RANK_MAX: Final = 64 - PRECISION
STANDARD_ERROR: Final = 1.04 / math.sqrt(REGISTERS)
"""Relative: 0.81 %. In 95 of 100 cases the estimate is off by twice this at most."""

_SENTINEL: Final = np.uint64(1 << (PRECISION - 1))
_EXACT_SHIFT: Final = np.uint64(11)
"""What is left of 64 bits is exact in a double; the sentinel is above it."""


class HyperLogLog:
    """Different values seen."""

    def __init__(self) -> None:
        self.registers = np.zeros(REGISTERS, dtype=np.uint8)

    def add(self, hashes: NDArray[Any]) -> None:
        """Take note of values by their hashes (uint64, well spread)."""
        register = (hashes >> np.uint64(RANK_MAX)).astype(np.int64)
        rest = (hashes << np.uint64(PRECISION)) | _SENTINEL
        _, bits = np.frexp((rest >> _EXACT_SHIFT).astype(np.float64))
        rank = (54 - bits).astype(np.uint8)  # 1 and the number of leading zeros
        np.maximum.at(self.registers, register, rank)

    def merge(self, other: HyperLogLog) -> None:
        """Take note of all that the other has seen."""
        np.maximum(self.registers, other.registers, out=self.registers)

    def estimate(self) -> float:
        """Return how many different values there were; see `STANDARD_ERROR`."""
        counts = np.bincount(self.registers, minlength=RANK_MAX + 2).tolist()
        total = REGISTERS * _tau(1 - counts[RANK_MAX + 1] / REGISTERS)
        for count in counts[RANK_MAX:0:-1]:
            total = (total + count) / 2
        total += REGISTERS * _sigma(counts[0] / REGISTERS)
        return REGISTERS * REGISTERS / (2 * math.log(2) * total)


def _sigma(x: float) -> float:
    """Return x + sum of x^(2^k) * 2^(k-1) for k from 1 on."""
    if x == 1:
        return math.inf
    power, total, previous = 1.0, x, -1.0
    while total != previous:
        x, previous = x * x, total
        total += x * power
        power *= 2
    return total


def _tau(x: float) -> float:
    """Return (1 - x - sum of (1 - x^(2^-k))^2 * 2^-k for k from 1 on) / 3."""
    if x in (0, 1):
        return 0.0
    power, total, previous = 1.0, 1 - x, -1.0
    while total != previous:
        x, previous = math.sqrt(x), total
        power /= 2
        total -= (1 - x) ** 2 * power
    return total / 3
