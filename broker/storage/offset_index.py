"""OffsetIndex: from an offset to a position in the segment's file, sparsely (R12 to R18).

The layout is in `protocol.stored.index_entries`. An entry is (last offset of what was appended,
position of its first byte), as Kafka's LogSegment.append writes it: what lies before the position
has smaller offsets than the entry *before* it, and the batch at the position begins above that.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import ClassVar, cast

from broker.storage.index_cache import IndexEntries
from broker.storage.index_file import WRITE_BEHIND_ENTRIES, IndexFile
from broker.storage.index_words import words, words_to_bytes
from protocol.errors import IndexFullError
from protocol.limits import INT32_MAX
from protocol.stored.index_entries import OFFSET_INDEX_ENTRY_BYTES, OffsetIndexEntry


class OffsetIndex(IndexFile):
    """Relative offset and position, both strictly growing."""

    ENTRY_BYTES: ClassVar[int] = OFFSET_INDEX_ENTRY_BYTES

    __slots__ = ()

    @staticmethod
    def _decode(data: bytes) -> tuple[array[int], array[int]]:
        numbers = words(data)
        return numbers[0::2], numbers[1::2]

    @staticmethod
    def _view(data: bytes) -> tuple[array[int], array[int]]:
        numbers = memoryview(words(data))
        return cast("array[int]", numbers[0::2]), cast("array[int]", numbers[1::2])

    @staticmethod
    def _encode(keys: array[int], values: array[int]) -> bytes:
        numbers = array("i", bytes(8 * len(keys)))
        numbers[0::2] = keys
        numbers[1::2] = values
        return words_to_bytes(numbers)

    def _has_sane_end(self, entries: IndexEntries) -> bool:
        keys, values = entries.keys, entries.values
        if not keys:
            return True
        if keys[-1] < 0 or values[-1] < 0:
            return False
        return len(keys) < 2 or (keys[-1] > keys[-2] and values[-1] > values[-2])

    @property
    def is_full(self) -> bool:
        """Whether the next append would be refused: roll first."""
        return len(self.load().keys) >= self.entries_max

    def append(self, offset: int, position: int) -> None:
        """Add an entry at the end of an active index.

        Raises:
            IndexFullError: there is no room.
            ValueError: the offset is not above the last entry's, or is 2^31 above the base.
        """
        entries = self.active_entries
        assert entries is not None, "append to the index of a sealed segment"
        keys = entries.keys
        count = len(keys)
        if count >= self.entries_max:
            raise IndexFullError(f"{self!r} holds its {count} entries")
        relative = offset - self.base_offset
        if not (keys[-1] if count else -1) < relative <= INT32_MAX:  # B14: never wrap around
            raise ValueError(f"offset {offset} cannot be entered into {self!r}")
        keys.append(relative)
        entries.values.append(position)
        if count - self._written_entries >= WRITE_BEHIND_ENTRIES:
            self.write_out()

    def floor(self, offset: int) -> int:
        """Return the number of the last entry at or below `offset`; -1 if there is none."""
        return bisect_right(self.load().keys, offset - self.base_offset) - 1

    def lookup(self, offset: int) -> OffsetIndexEntry:
        """Return the last entry at or below `offset`; without one (base offset, 0) (R15)."""
        number = self.floor(offset)
        return self.entry(number) if number >= 0 else OffsetIndexEntry(self.base_offset, 0)

    def entry(self, number: int) -> OffsetIndexEntry:
        """Return an entry, counted from 0.

        Raises:
            IndexError: there are not so many.
        """
        if number < 0:
            raise IndexError(number)
        entries = self.load()
        return OffsetIndexEntry(self.base_offset + entries.keys[number], entries.values[number])

    @property
    def last_entry(self) -> OffsetIndexEntry:
        """The last entry; (base offset, 0) if there is none."""
        entries = self.entries
        return self.entry(entries - 1) if entries else OffsetIndexEntry(self.base_offset, 0)

    @property
    def last_offset(self) -> int:
        """The last entry's offset; the base offset if there is none."""
        return self.last_entry.offset

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset` (R16)."""
        self.truncate_to_entries(bisect_left(self.load().keys, offset - self.base_offset))

    def truncate_to_position(self, position: int) -> None:
        """Drop the entries for what lies at or behind a position."""
        self.truncate_to_entries(bisect_left(self.load().values, position))
