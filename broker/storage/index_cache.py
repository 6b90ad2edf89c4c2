"""IndexCache: the entries of sealed segments' indexes, loaded when asked for, bounded in bytes."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from typing import Final

INDEX_CACHE_BYTES: Final = 32 * 1024 * 1024
"""Both indexes of a segment of 1 GiB with an entry every 4 KiB take 5 MiB."""


class IndexEntries:
    """The entries of one index, as two columns, so that `bisect` runs over one of them in C.

    Keys are relative offsets and values positions in an offset index; timestamps and relative
    offsets in a time index.
    """

    __slots__ = ("_checked", "disk_entries", "is_whole", "keys", "values")

    def __init__(self, keys: array[int], values: array[int], *, from_disk: bool = False) -> None:
        self.keys, self.values = keys, values
        self.disk_entries = len(keys) if from_disk else 0
        """How many of them, the first ones, were read from a disk: those are checked at use."""
        self.is_whole = not from_disk
        """Made from the log by this process, from the first entry on."""
        self._checked = bytearray(self.disk_entries)

    def is_trusted(self, number: int) -> bool:
        """Whether an entry was made by this process, or was compared with the log already."""
        return number >= self.disk_entries or bool(self._checked[number])

    def set_checked(self, number: int) -> None:
        """Take note that an entry agrees with the log."""
        if number < self.disk_entries:
            self._checked[number] = 1

    def cut(self, count: int) -> None:
        """Keep the first `count` entries."""
        del self.keys[count:], self.values[count:], self._checked[count:]
        self.disk_entries = min(self.disk_entries, count)

    @property
    def size_bytes(self) -> int:
        """What they take in memory."""
        return len(self.keys) * (self.keys.itemsize + self.values.itemsize)


class IndexCache:
    """Entries by their index, least recently used out first; shared by the logs of a broker.

    One index larger than the bound is kept alone, since reading it for each look-up would be worse.
    """

    __slots__ = ("_entries", "index_rebuilds", "size_bytes", "size_bytes_max")

    def __init__(self, size_bytes_max: int = INDEX_CACHE_BYTES) -> None:
        self.size_bytes_max = size_bytes_max
        self.size_bytes = 0
        self.index_rebuilds = 0
        """How often a segment had to build its indexes anew, recovery not counted: for metrics."""
        self._entries: OrderedDict[object, IndexEntries] = OrderedDict()

    def get(self, index: object) -> IndexEntries | None:
        """Return the entries of an index, if they are here."""
        entries = self._entries.get(index)
        if entries is not None:
            self._entries.move_to_end(index)
        return entries

    def put(self, index: object, entries: IndexEntries) -> None:
        """Keep the entries of an index in place of what was here for it."""
        self.forget(index)
        self._entries[index] = entries
        self.size_bytes += entries.size_bytes
        while self.size_bytes > self.size_bytes_max and len(self._entries) > 1:
            _, evicted = self._entries.popitem(last=False)
            self.size_bytes -= evicted.size_bytes

    def forget(self, index: object) -> None:
        """Drop the entries of an index, if they are here."""
        entries = self._entries.pop(index, None)
        if entries is not None:
            self.size_bytes -= entries.size_bytes

    def __len__(self) -> int:
        return len(self._entries)
