"""TimeIndex: from a timestamp to an offset in the segment, sparsely (R12 to R18).

The layout is in `protocol.stored.index_entries`. An entry (timestamp, offset) says: the batch that
holds `offset` is the first of the segment that reaches `timestamp`, its largest one.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from sys import byteorder
from typing import ClassVar, Final, cast

from broker.storage.index_cache import IndexEntries
from broker.storage.index_file import WRITE_BEHIND_ENTRIES, IndexFile
from broker.storage.index_words import words, words_to_bytes
from protocol.errors import IndexFullError
from protocol.identifiers import NO_TIMESTAMP
from protocol.limits import INT32_MAX
from protocol.stored.index_entries import TIME_INDEX_ENTRY_BYTES, TimeIndexEntry

TIMESTAMP: Final = struct.Struct(">q")
OFFSET: Final = struct.Struct(">i")

_HIGH, _LOW = (1, 0) if byteorder == "little" else (0, 1)


class _Column:
    """One field of the entries in an index's bytes, decoded when it is looked at: few ever are."""

    __slots__ = ("_data", "_position", "_unpack", "itemsize")

    def __init__(self, data: bytes, field: struct.Struct, position: int) -> None:
        """Args:
        position: Of the field in an entry.
        """
        self._data, self._position, self._unpack = data, position, field.unpack_from
        self.itemsize = field.size

    def __len__(self) -> int:
        return len(self._data) // TIME_INDEX_ENTRY_BYTES

    def __getitem__(self, number: int) -> int:
        count = len(self)
        if number < 0:
            number += count
        if not 0 <= number < count:
            raise IndexError(number)
        value: int = self._unpack(self._data, number * TIME_INDEX_ENTRY_BYTES + self._position)[0]
        return value


class TimeIndex(IndexFile):
    """Timestamp, strictly growing, and relative offset."""

    ENTRY_BYTES: ClassVar[int] = TIME_INDEX_ENTRY_BYTES

    __slots__ = ()

    @staticmethod
    def _decode(data: bytes) -> tuple[array[int], array[int]]:
        numbers = words(data)
        halves = array("i", bytes(8 * (len(numbers) // 3)))
        halves[_HIGH::2] = numbers[0::3]
        halves[_LOW::2] = numbers[1::3]
        return array("q", halves.tobytes()), numbers[2::3]

    @staticmethod
    def _view(data: bytes) -> tuple[array[int], array[int]]:
        timestamps, offsets = _Column(data, TIMESTAMP, 0), _Column(data, OFFSET, TIMESTAMP.size)
        return cast("array[int]", timestamps), cast("array[int]", offsets)

    @staticmethod
    def _encode(keys: array[int], values: array[int]) -> bytes:
        halves = array("i", keys.tobytes())
        numbers = array("i", bytes(12 * len(keys)))
        numbers[0::3] = halves[_HIGH::2]
        numbers[1::3] = halves[_LOW::2]
        numbers[2::3] = values
        return words_to_bytes(numbers)

    def _has_sane_end(self, entries: IndexEntries) -> bool:
        keys, values = entries.keys, entries.values
        if not keys:
            return True
        if keys[-1] < 0 or values[-1] < 0:
            return False
        return len(keys) < 2 or (keys[-1] > keys[-2] and values[-1] >= values[-2])

    @property
    def is_full(self) -> bool:
        """Whether to roll first. The last place is kept for the entry that `seal` adds."""
        return len(self.load().keys) >= self.entries_max - 1

    def append(self, timestamp: int, offset: int, *, last: bool = False) -> bool:
        """Add an entry, if it is above the last one (R14); return whether it was.

        Args:
            last: It may take the last place: the segment is being sealed or closed.

        Raises:
            IndexFullError: there is no room.
            ValueError: the offset is 2^31 above the base, or below it.
        """
        entries = self.active_entries
        assert entries is not None, "append to the index of a sealed segment"
        keys, values = entries.keys, entries.values
        count = len(keys)
        relative = offset - self.base_offset
        if not 0 <= relative <= INT32_MAX:  # B14: never wrap around
            raise ValueError(f"offset {offset} cannot be entered into {self!r}")
        if timestamp <= (keys[-1] if count else NO_TIMESTAMP) or (count and relative < values[-1]):
            return False
        if count >= self.entries_max - (not last):
            raise IndexFullError(f"{self!r} holds {count} of {self.entries_max} entries")
        keys.append(timestamp)
        values.append(relative)
        if count - self._written_entries >= WRITE_BEHIND_ENTRIES:
            self.write_out()
        return True

    def floor(self, timestamp: int) -> int:
        """Return the number of the last entry at or below `timestamp`; -1 if there is none."""
        return bisect_right(self.load().keys, timestamp) - 1

    def lookup(self, timestamp: int) -> TimeIndexEntry:
        """Return the last entry at or below `timestamp`; without one (-1, base offset) (R15)."""
        number = self.floor(timestamp)
        return self.entry(number) if number >= 0 else self._none()

    def entry(self, number: int) -> TimeIndexEntry:
        """Return an entry, counted from 0.

        Raises:
            IndexError: there are not so many.
        """
        if number < 0:
            raise IndexError(number)
        entries = self.load()
        return TimeIndexEntry(entries.keys[number], self.base_offset + entries.values[number])

    @property
    def last_entry(self) -> TimeIndexEntry:
        """The last entry; (-1, base offset) if there is none."""
        entries = self.entries
        return self.entry(entries - 1) if entries else self._none()

    @property
    def last_offset(self) -> int:
        """The last entry's offset; the base offset if there is none."""
        return self.last_entry.offset

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset` (R16)."""
        self.truncate_to_entries(bisect_left(self.load().values, offset - self.base_offset))

    def _none(self) -> TimeIndexEntry:
        return TimeIndexEntry(NO_TIMESTAMP, self.base_offset)
