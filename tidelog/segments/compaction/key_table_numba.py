"""The hash table of keys, compiled: open addressing over the keys' own bytes, so it is exact.

A slot holds the number of a key, plus 1; of key n there are its hash, its bytes in the arena, and
the ordinal of its last record. The hash has a seed, so that nobody can choose keys that collide.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)


@njit(inline="always")
def _hash(data: Any, start: Any, end: Any, seed: Any) -> Any:
    value = seed ^ (np.uint64(end - start) * FACTOR)
    position = start
    while end - position >= 8:
        word = np.uint64(0)
        for place in range(8):
            word |= np.uint64(data[position + place]) << np.uint64(8 * place)
        value = (value ^ word) * FACTOR
        value ^= value >> np.uint64(32)
        position += 8
    word = np.uint64(0)
    shift = np.uint64(0)
    while position < end:
        word |= np.uint64(data[position]) << shift
        shift += np.uint64(8)
        position += 1
    value = (value ^ word) * FACTOR
    value ^= value >> np.uint64(29)
    value *= FACTOR
    return value ^ (value >> np.uint64(32))


@njit(cache=True, nogil=True)
def mark(
    data: Any, starts: Any, ends: Any, ordinals: Any, first: Any, seed: Any, bucket: Any,
    buckets: Any, slots: Any, hashes: Any, places: Any, sizes: Any, lasts: Any, arena: Any,
    filled: Any, bits: Any,
) -> Any:  # fmt: skip
    """Note the keys from row `first` on, and set and clear bits; return the row it stopped at.

    That is where the keys, or their bytes, have no room; `filled` holds how many there are.
    """
    keys, arena_bytes, mask = filled[0], filled[1], len(slots) - 1
    row = first
    while row < len(starts):
        start, end = starts[row], ends[row]
        hashed = _hash(data, start, end, seed)
        if buckets > 1 and hashed % np.uint64(buckets) != np.uint64(bucket):
            row += 1
            continue
        slot = np.int64((hashed >> np.uint64(16)) & np.uint64(mask))
        size = end - start
        while True:
            key = slots[slot] - 1
            if key < 0:
                break
            if hashes[key] == hashed and sizes[key] == size:
                place, same = places[key], True
                for at in range(size):
                    if arena[place + at] != data[start + at]:
                        same = False
                        break
                if same:
                    break
            slot = (slot + 1) & mask
        if key < 0:
            if keys == len(hashes) or arena_bytes + size > len(arena):
                break
            key = keys
            slots[slot] = key + 1
            hashes[key], places[key], sizes[key] = hashed, arena_bytes, size
            for at in range(size):
                arena[arena_bytes + at] = data[start + at]
            keys, arena_bytes = keys + 1, arena_bytes + size
        else:
            last = lasts[key]
            bits[last >> 3] &= ~np.uint8(1 << (last & 7))
        ordinal = ordinals[row]
        lasts[key] = ordinal
        bits[ordinal >> 3] |= np.uint8(1 << (ordinal & 7))
        row += 1
    filled[0], filled[1] = keys, arena_bytes
    return row


@njit(cache=True, nogil=True)
def rehash(slots: Any, hashes: Any, keys: Any) -> None:
    """Put keys into empty slots."""
    mask = len(slots) - 1
    for key in range(keys):
        slot = np.int64((hashes[key] >> np.uint64(16)) & np.uint64(mask))
        while slots[slot]:
            slot = (slot + 1) & mask
        slots[slot] = key + 1
