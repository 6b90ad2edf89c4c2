"""LatestRecords: which record of a log is the last one of its key, in a bounded amount of memory.

A record's *ordinal* is its place among all of the log. A table holds the last ordinal of each key,
and one bit a record says whether it is that one: so the log is read once to find out, and needs no
look at its keys when it is filtered.

Where the keys do not fit the memory, they are looked at in several readings, each of which takes
those of one *bucket*, by their hash.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tidelog.segments.errors import DataLossError
from tidelog.segments.kernel import kernel_name

__all__ = ["KeySpans", "LatestRecords", "find_latest"]

MEMORY_BYTES_MIN: Final = 1 << 20
KEYS_MIN: Final = 1 << 12
ARENA_BYTES_MIN: Final = 1 << 16
KEY_BYTES: Final = 8 + 8 + 4 + 8 + 2 * 8
"""Of one key in the table: its columns, and two slots."""
DICT_KEY_BYTES: Final = 130
"""Of one key in a dict, beside its own bytes: slot, both objects' heads, the number."""

Column = NDArray[Any]


class KeySpans(NamedTuple):
    """The keys of some records, in their order; no null ones."""

    buffer: Column
    """uint8."""
    starts: Column
    """int64, as `ends` and `ordinals`."""
    ends: Column
    ordinals: Column


class LatestRecords(NamedTuple):
    """What was found."""

    bits: Column
    """uint8; bit n & 7 of byte n >> 3 is that of ordinal n."""
    readings: int
    """How often the keys were read."""
    keys: int

    def mask(self, first: int, count: int) -> Column:
        """Return for `count` records from an ordinal on whether each is the last of its key."""
        start, end = first >> 3, (first + count + 7) >> 3
        bits = np.unpackbits(self.bits[start:end], bitorder="little")
        return bits[first & 7 : (first & 7) + count].view(bool)


class _KeyTable(Protocol):
    @property
    def keys(self) -> int: ...

    def mark(self, spans: KeySpans, bits: Column) -> int | None: ...


def find_latest(
    read_keys: Callable[[], Iterable[KeySpans]], records: int, *, memory_bytes_max: int
) -> LatestRecords:
    """Find the last record of each key.

    Args:
        read_keys: Begins a reading of all keys.
        records: How many ordinals there are.
        memory_bytes_max: What the table may take, beside one bit a record; more where one key does.

    Raises:
        DataLossError: there are more records now: the log is another one.
    """
    limit = max(memory_bytes_max, MEMORY_BYTES_MIN)
    buckets, readings = 1, 0
    while True:
        bits = np.zeros((records + 7) >> 3, dtype=np.uint8)
        keys = 0
        for bucket in range(buckets):
            table = _new_table(bucket, buckets, limit)
            readings += 1
            full_at = _mark_all(table, read_keys(), bits)
            if full_at is not None:
                # As many as would have done if the rest is like what was seen, and some.
                buckets = max(2 * buckets, int(1.2 * buckets * records / (full_at + 1)))
                break
            keys += table.keys
        else:
            return LatestRecords(bits, readings, keys)


def _mark_all(table: _KeyTable, keys: Iterable[KeySpans], bits: Column) -> int | None:
    """Note all keys; return the ordinal for which there was no room, None if there was."""
    for spans in keys:
        if len(spans.ordinals) and spans.ordinals[-1] >= 8 * len(bits):  # a kernel would not see it
            raise DataLossError("the log was replaced while it was read: it has more records now")
        full_at = table.mark(spans, bits)
        if full_at is not None:
            return full_at
    return None


def _new_table(bucket: int, buckets: int, memory_bytes_max: int) -> _KeyTable:
    if kernel_name() == "numba":
        return _CompiledTable(bucket, buckets, memory_bytes_max)
    return _DictTable(bucket, buckets, memory_bytes_max)


class _CompiledTable:
    """The arrays of `key_table_numba`, which grow by doubling."""

    _seed = np.uint64(int.from_bytes(os.urandom(8)))  # one for all buckets

    def __init__(self, bucket: int, buckets: int, memory_bytes_max: int) -> None:
        from tidelog.segments.compaction import key_table_numba

        self._kernel = key_table_numba
        self._bucket, self._buckets, self._limit = bucket, buckets, memory_bytes_max
        self._filled = np.zeros(2, dtype=np.int64)
        self._hashes = np.empty(KEYS_MIN, dtype=np.uint64)
        self._places = np.empty(KEYS_MIN, dtype=np.int64)
        self._sizes = np.empty(KEYS_MIN, dtype=np.int32)
        self._lasts = np.empty(KEYS_MIN, dtype=np.int64)
        self._arena = np.empty(ARENA_BYTES_MIN, dtype=np.uint8)
        self._slots = np.zeros(2 * KEYS_MIN, dtype=np.int64)

    @property
    def keys(self) -> int:
        return int(self._filled[0])

    def mark(self, spans: KeySpans, bits: Column) -> int | None:
        """Note the keys; return the first ordinal for which there is no room."""
        row = 0
        while True:
            row = self._kernel.mark(
                spans.buffer, spans.starts, spans.ends, spans.ordinals, row, self._seed,
                self._bucket, self._buckets, self._slots, self._hashes, self._places, self._sizes,
                self._lasts, self._arena, self._filled, bits,
            )  # fmt: skip
            if row == len(spans.starts):
                return None
            if not self._grow(int(spans.ends[row] - spans.starts[row])):
                return int(spans.ordinals[row])

    def _grow(self, key_bytes: int) -> bool:
        """Make room for a key; False: there would be more than the limit while it is copied."""
        keys, arena_bytes = len(self._hashes), len(self._arena)
        if self.keys == keys:
            keys *= 2
        while arena_bytes < int(self._filled[1]) + key_bytes:
            arena_bytes *= 2
        if keys * KEY_BYTES + arena_bytes > max(self._limit, KEYS_MIN * KEY_BYTES + 4 * key_bytes):
            return False
        if arena_bytes > len(self._arena):
            self._arena = _grown(self._arena, arena_bytes)
        if keys > len(self._hashes):
            self._hashes, self._places = _grown(self._hashes, keys), _grown(self._places, keys)
            self._sizes, self._lasts = _grown(self._sizes, keys), _grown(self._lasts, keys)
            self._slots = np.zeros(2 * keys, dtype=np.int64)
            self._kernel.rehash(self._slots, self._hashes, self.keys)
        return True


def _grown(column: Column, size: int) -> Column:
    grown = np.empty(size, dtype=column.dtype)
    grown[: len(column)] = column
    return grown


class _DictTable:
    """The same by a dict, where numba is missing."""

    def __init__(self, bucket: int, buckets: int, memory_bytes_max: int) -> None:
        self._bucket, self._buckets, self._limit = bucket, buckets, memory_bytes_max
        self._lasts: dict[bytes, int] = {}
        self._bytes = 0

    @property
    def keys(self) -> int:
        return len(self._lasts)

    def mark(self, spans: KeySpans, bits: Column) -> int | None:
        """Note the keys; return the first ordinal for which there is no room."""
        data, lasts, buckets = spans.buffer.tobytes(), self._lasts, self._buckets
        for start, end, ordinal in zip(
            spans.starts.tolist(), spans.ends.tolist(), spans.ordinals.tolist(), strict=True
        ):
            key = data[start:end]
            if buckets > 1 and hash(key) % buckets != self._bucket:
                continue
            last = lasts.get(key)
            if last is None:
                self._bytes += len(key) + DICT_KEY_BYTES
                if self._bytes > max(self._limit, 4 * len(key)):
                    return int(ordinal)
            else:
                bits[last >> 3] &= 0xFF ^ (1 << (last & 7))
            lasts[key] = ordinal
            bits[ordinal >> 3] |= 1 << (ordinal & 7)
        return None
