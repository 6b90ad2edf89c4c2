"""SpanHash: 64 bit hashes of many byte strings in one buffer, eight bytes of all of them at a time.

Each word is mixed into its string's state by a multiplication, as FNV does with bytes; Murmur3's
finaliser spreads what comes out. Not for adversaries: keys that collide can be made on purpose.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["hash_spans"]

Column = NDArray[Any]

WORD_BYTES: Final = 8
LONG_BYTES: Final = 256
"""Longer strings are hashed one by one: each round below costs the same for one string or all."""
SEED: Final = np.uint64(0x9E3779B97F4A7C15)
MULTIPLIER: Final = np.uint64(0xFF51AFD7ED558CCD)
FINAL_MULTIPLIER: Final = np.uint64(0xC4CEB9FE1A85EC53)
HALF: Final = np.uint64(32)
MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(WORD_BYTES + 1)], dtype=np.uint64)


def hash_spans(buffer: Column, starts: Column, ends: Column) -> Column:
    """Return the hashes (uint64) of `buffer[start:end]`; the same bytes have the same hash.

    Args:
        buffer: uint8, contiguous.
        starts, ends: int64.
    """
    if len(buffer) < WORD_BYTES:
        buffer = np.concatenate([buffer, np.zeros(WORD_BYTES, dtype=np.uint8)])
    last = len(buffer) - WORD_BYTES
    words: Column = np.ndarray((last + 1,), dtype="<u8", buffer=buffer, strides=(1,))
    lengths = ends - starts
    state = lengths.astype(np.uint64) * SEED
    is_long = lengths > LONG_BYTES
    rows = np.flatnonzero((lengths > 0) & ~is_long)
    at, left = starts[rows], lengths[rows]
    while len(rows):
        begin = np.minimum(at, last)
        # Near the buffer's end the word begins earlier; what precedes it is shifted out.
        word = words[begin] >> (8 * (at - begin)).astype(np.uint64)
        word &= MASKS[np.minimum(left, WORD_BYTES)]
        mixed = (state[rows] ^ word) * MULTIPLIER
        state[rows] = mixed ^ (mixed >> HALF)
        goes_on = left > WORD_BYTES
        rows, at = rows[goes_on], at[goes_on] + WORD_BYTES
        left = left[goes_on] - WORD_BYTES
    for row in np.flatnonzero(is_long).tolist():
        digest = blake2b(buffer[starts[row] : ends[row]].tobytes(), digest_size=WORD_BYTES)
        state[row] = int.from_bytes(digest.digest(), "little")
    return _spread(state)


def _spread(state: Column) -> Column:
    """Have each bit of the input change each bit of the output with a chance of a half."""
    shift = np.uint64(33)
    state = (state ^ (state >> shift)) * MULTIPLIER
    state = (state ^ (state >> shift)) * FINAL_MULTIPLIER
    spread: Column = state ^ (state >> shift)
    return spread
