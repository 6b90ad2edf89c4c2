"""Murmur2: the partition of many keys at once, as Kafka's default partitioner chooses it.

The hash is MurmurHash2 of Austin Appleby with Kafka's seed, as in `tidelog.client.partitioner`. All
keys are hashed side by side: the n-th word of each with one step of NumPy, those with the most
words first in the arrays, so that each step works on as many keys as still have a word.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["key_partitions", "murmur2"]

SEED: Final = np.uint32(0x9747B28C)
FACTOR: Final = np.uint32(0x5BD1E995)
POSITIVE: Final = np.uint32(0x7FFFFFFF)
WORD_BYTES: Final = 4


def key_partitions(keys: pa.Array, partitions: int) -> NDArray[Any]:
    """Return the partition of each key, int32; of null ones too, which is for the caller to set.

    Args:
        keys: Binary.
        partitions: Of the topic, at least 1.
    """
    return ((murmur2(keys) & POSITIVE) % np.uint32(partitions)).astype(np.int32)


def murmur2(keys: pa.Array) -> NDArray[Any]:
    """Return the hash of each key, uint32; that of b"" for null.

    Args:
        keys: Binary, 32 bit offsets.
    """
    if not len(keys):
        return np.empty(0, dtype=np.uint32)
    buffers = keys.buffers()
    offsets = np.frombuffer(buffers[1], dtype=np.int32, count=keys.offset + len(keys) + 1)
    offsets = offsets[keys.offset :].astype(np.int64)
    data = np.frombuffer(buffers[2] or b"", dtype=np.uint8)
    starts, sizes = offsets[:-1], np.diff(offsets)
    if keys.null_count:  # a null may have bytes
        sizes = np.where(keys.is_valid().to_numpy(zero_copy_only=False), sizes, 0)
    order = np.argsort(-sizes, kind="stable")
    starts, sizes = starts[order], sizes[order]
    hashed = np.empty(len(sizes), dtype=np.uint32)
    hashed[order] = _hashes(data, starts, sizes)
    return hashed


def _hashes(data: NDArray[Any], starts: NDArray[Any], sizes: NDArray[Any]) -> NDArray[Any]:
    """Return the hashes of spans, the longest of which are first."""
    values = SEED ^ sizes.astype(np.uint32)
    words = sizes // WORD_BYTES
    for number in range(int(words[0])):
        count = int(np.searchsorted(-words, -number, side="left"))  # those with more words
        at = starts[:count] + number * WORD_BYTES
        word = _word(data, at) * FACTOR
        word = (word ^ (word >> np.uint32(24))) * FACTOR
        values[:count] = values[:count] * FACTOR ^ word
    rests = sizes % WORD_BYTES
    at = starts + words * WORD_BYTES
    for place in (2, 1, 0):
        has = np.flatnonzero(rests > place)
        values[has] ^= data[at[has] + place].astype(np.uint32) << np.uint32(8 * place)
    values = np.where(rests > 0, values * FACTOR, values)
    values = (values ^ (values >> np.uint32(13))) * FACTOR
    return values ^ (values >> np.uint32(15))


def _word(data: NDArray[Any], at: NDArray[Any]) -> NDArray[Any]:
    """Return the little-endian words at these positions."""
    word: NDArray[Any] = data[at].astype(np.uint32)
    for place in range(1, WORD_BYTES):
        word |= data[at + place].astype(np.uint32) << np.uint32(8 * place)
    return word
