"""Which partition a message goes to: the same one a Kafka client would choose for its key."""

from __future__ import annotations

import itertools


def murmur2(data: bytes) -> int:
    """Return the hash that Kafka's Java client takes of a key, as an unsigned 32-bit number.

    Source: Austin Appleby's MurmurHash2 with Kafka's seed 0x9747b28c.
    """
    mask, factor, length = 0xFFFFFFFF, 0x5BD1E995, len(data)
    value = 0x9747B28C ^ length
    for start in range(0, length & ~3, 4):
        word = int.from_bytes(data[start : start + 4], "little") * factor & mask
        word = (word ^ (word >> 24)) * factor & mask
        value = (value * factor & mask) ^ word
    rest = data[length & ~3 :]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * factor & mask
    value = (value ^ (value >> 13)) * factor & mask
    return value ^ (value >> 15)


class Partitioner:
    """Messages with a key by its hash; messages without one in turn, a run of them at a time.

    A run keeps batches large where many messages are produced, and still uses all partitions.
    """

    def __init__(self, run_length: int = 100) -> None:
        self._run_length = run_length
        self._counter = itertools.count()

    def partition(self, key: bytes | None, partitions: int) -> int:
        """Return a partition from 0 to `partitions` - 1."""
        if key is not None:
            return (murmur2(key) & 0x7FFFFFFF) % partitions
        return next(self._counter) // self._run_length % partitions
