"""IndexFile: what the offset index and the time index of a segment have in common.

The active segment's entries are in memory; its file is preallocated (a hole of zeros) and gets them
by pwrite, WRITE_BEHIND_ENTRIES at a time: after an unclean stop the indexes of every segment from
the recovery point on are built anew, so nothing relies on a later entry before seal or close. A
sealed segment's file is trimmed to its entries; they are loaded when asked for and live in a shared
IndexCache.

An index is a hint. Nothing here fails because of a bad or missing file: the index says
`needs_rebuild`, and the segment builds it from the log. What is read is checked where it is used.
"""

from __future__ import annotations

import abc
from array import array
from pathlib import Path
from typing import ClassVar, Final, Self

import structlog

from broker.storage.disk import write_whole
from broker.storage.file_handles import FileHandles
from broker.storage.file_place import FilePlace
from broker.storage.index_cache import IndexCache, IndexEntries

WRITE_BEHIND_ENTRIES: Final = 512

_log = structlog.get_logger(__name__)


class IndexFile(abc.ABC):
    """Entries of strictly growing keys in a file; entry n at byte n * ENTRY_BYTES."""

    ENTRY_BYTES: ClassVar[int]

    __slots__ = (
        "_cache", "_handles", "_is_stale", "_place", "_written_entries", "active_entries",
        "base_offset", "entries_max", "is_dirty", "needs_rebuild", "size_bytes_max",
    )  # fmt: skip

    def __init__(
        self,
        handles: FileHandles,
        path: Path | FilePlace,
        base_offset: int,
        size_bytes_max: int,
        cache: IndexCache,
    ) -> None:
        """Args as for `open`, which is what callers use."""
        self._handles, self._cache = handles, cache
        self._place, self.base_offset = path, base_offset
        self.entries_max = size_bytes_max // self.ENTRY_BYTES
        self.size_bytes_max = self.entries_max * self.ENTRY_BYTES
        self.needs_rebuild = False
        """The file is missing, unreadable, wrong, or behind: it has to be written anew."""
        self.active_entries: IndexEntries | None = None
        """All entries of an active index; None of a sealed one."""
        self._written_entries = 0
        self.is_dirty = False  # entries were written or cut since the last sync
        self._is_stale = False  # the file holds what `reset` dropped

    @property
    def path(self) -> Path:
        """The file, under its name now."""
        if isinstance(self._place, FilePlace):
            self._place = self._place.path
        return self._place

    @path.setter
    def path(self, path: Path) -> None:
        self._place = path

    @classmethod
    def open(
        cls,
        handles: FileHandles,
        path: Path | FilePlace,
        base_offset: int,
        size_bytes_max: int,
        *,
        active: bool,
        cache: IndexCache,
        create: bool = False,
        file_bytes: int | None = None,
    ) -> Self:
        """Open an index; never fails for what the file holds.

        Args:
            size_bytes_max: Full size, rounded down to a whole number of entries (R13).
            active: Appends will follow: the file is grown to its full size.
            create: The segment is new: what the file holds is thrown away.
            file_bytes: The file's size, if it is known; -1: there is none. A new segment's that has
                its full size was just made, and holds nothing.
        """
        index = cls(handles, path, base_offset, size_bytes_max, cache)
        if create:
            index.reset()
            index._is_stale = file_bytes != index.size_bytes_max
            if index._is_stale:
                index.settle()
        elif active:
            index.activate()
        elif file_bytes is None:
            index.needs_rebuild = not handles.disk.exists(index.path)
        else:
            index.needs_rebuild = file_bytes < 0 or file_bytes % cls.ENTRY_BYTES != 0
        return index

    # --- entries ------------------------------------------------------------------------------

    @staticmethod
    @abc.abstractmethod
    def _decode(data: bytes) -> tuple[array[int], array[int]]:
        """Return keys and values of whole entries, to be appended to."""

    @staticmethod
    @abc.abstractmethod
    def _view(data: bytes) -> tuple[array[int], array[int]]:
        """As `_decode`, to be looked at only: a file of megabytes must not hold up a look-up."""

    @staticmethod
    @abc.abstractmethod
    def _encode(keys: array[int], values: array[int]) -> bytes:
        """Return the bytes of the entries."""

    @abc.abstractmethod
    def _has_sane_end(self, entries: IndexEntries) -> bool:
        """Whether the last entry may be one of this segment, and is above the one before."""

    def load(self) -> IndexEntries:
        """Return the entries, from memory, the cache or the file.

        A file that cannot be read, or is not a whole number of entries, answers no entries and
        sets `needs_rebuild`.
        """
        if self.active_entries is not None:
            return self.active_entries
        entries = self._cache.get(self)
        if entries is None:
            entries = self._read()
            if not self._has_sane_end(entries):
                self.needs_rebuild = True
            if not self.needs_rebuild:
                self._cache.put(self, entries)
        return entries

    def _read(self, *, for_appends: bool = False) -> IndexEntries:
        """Read the file. Only the active segment's may have a zero tail: others are trimmed."""
        try:
            file = self._handles.get(self.path)
            size_bytes = file.size()
            data = file.read(size_bytes, 0)
        except OSError as error:
            _log.warning("an index cannot be read", path=str(self.path), error=str(error))
            size_bytes, data = 1, b""
        if size_bytes % self.ENTRY_BYTES or len(data) != size_bytes:
            self.needs_rebuild = True
            data = b""
        file_entries = len(data) // self.ENTRY_BYTES
        has_tail = data.endswith(b"\0")
        count = -(-len(data.rstrip(b"\0") if has_tail else data) // self.ENTRY_BYTES)
        if file_entries - count > (count == 0) and not for_appends:
            self.needs_rebuild = True  # entries were lost (a lone zero entry may be a real one)
        columns = self._decode if for_appends else self._view
        return IndexEntries(*columns(data[: count * self.ENTRY_BYTES]), from_disk=True)

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return len(self.load().keys)

    @property
    def size_bytes(self) -> int:
        """What the entries take in the file; the file itself may have a zero tail (R13)."""
        return self.entries * self.ENTRY_BYTES

    @property
    def is_active(self) -> bool:
        """Whether appends are possible."""
        return self.active_entries is not None

    def sanity_check(self) -> bool:
        """Whether the file can be what was written: its size, its end, no zero tail (R17).

        False means that the segment has to rebuild it, and sets `needs_rebuild`. Only the end of a
        sealed index is read: every entry is checked against the log when it is used.
        """
        entries = self.active_entries or self._cache.get(self)
        if entries is None and not self.needs_rebuild:
            entries = self._read_end()
        if entries is None or not self._has_sane_end(entries):
            self.needs_rebuild = True
        if self.needs_rebuild:
            self._cache.forget(self)
        return not self.needs_rebuild

    def _read_end(self) -> IndexEntries | None:
        """Return the last two entries of a sealed index; None where the file cannot be right."""
        try:
            file = self._handles.get(self.path)
            size_bytes = file.size()
            start = max(0, size_bytes - 2 * self.ENTRY_BYTES)
            data = file.read(size_bytes - start, start)
        except OSError:
            return None
        is_zero = not any(data[-self.ENTRY_BYTES :])
        if size_bytes % self.ENTRY_BYTES or (is_zero and size_bytes > self.ENTRY_BYTES):
            return None
        return IndexEntries(*self._decode(data), from_disk=True)

    # --- changes ------------------------------------------------------------------------------

    def write_out(self) -> None:
        """Write the entries that are in memory only. Errors set `needs_rebuild` (R18)."""
        entries = self.active_entries
        if entries is None or self._written_entries == len(entries.keys):
            return
        start = self._written_entries
        data = self._encode(entries.keys[start:], entries.values[start:])
        try:
            file = self._handles.get(self.path, create=True)
            self.is_dirty = True
            if self._is_stale:
                file.truncate(0)
                self._is_stale = False
            write_whole(file, [data], start * self.ENTRY_BYTES)
        except OSError as error:
            self._write_failed(error)
            return
        self._written_entries = len(entries.keys)

    def _write_failed(self, error: OSError) -> None:
        if not self.needs_rebuild:
            _log.warning("an index cannot be written", path=str(self.path), error=str(error))
        self.needs_rebuild = True

    def _set_file_size(self, size_bytes: int, *, keep_bytes: int) -> None:
        """Keep the file's first bytes, and make the rest of it a hole."""
        try:
            file = self._handles.get(self.path, create=True)
            if file.size() != keep_bytes:
                self.is_dirty = True
                file.truncate(keep_bytes)
            self._is_stale = False
            if size_bytes != keep_bytes:
                file.truncate(size_bytes)
        except OSError as error:
            self._write_failed(error)

    def activate(self) -> None:
        """Take the entries into memory and grow the file to its full size (R13)."""
        if self.active_entries is not None:
            return
        entries = self._cache.get(self)
        if entries is None or not isinstance(entries.keys, array):
            if self._handles.disk.exists(self.path):
                entries = self._read(for_appends=True)
            else:
                self.needs_rebuild = True
                entries = IndexEntries(*self._decode(b""), from_disk=True)
        self._cache.forget(self)
        self.active_entries = entries
        self._written_entries = len(entries.keys)
        if not self.needs_rebuild:
            self.resize(self.size_bytes_max)

    def reset(self) -> None:
        """Become an active, empty index, to be filled from the log, then settled or sealed: until
        then the file is left as it is."""
        self._cache.forget(self)
        self.active_entries = IndexEntries(*self._decode(b""))
        self._written_entries = 0
        self.needs_rebuild = False
        self._is_stale = True

    def limit_to(self, size_bytes: int) -> None:
        """Let an active index become so large; never smaller than its entries."""
        entries = self.active_entries
        assert entries is not None, "limit of the index of a sealed segment"
        self.entries_max = max(size_bytes // self.ENTRY_BYTES, len(entries.keys))
        self.size_bytes_max = self.entries_max * self.ENTRY_BYTES

    def settle(self) -> None:
        """Give the file of an active index its full size (R13)."""
        written_bytes = self._written_entries * self.ENTRY_BYTES
        self._set_file_size(self.size_bytes_max, keep_bytes=written_bytes)

    def distrust(self) -> None:
        """Have a sealed index built anew by its next look-up: its file is not right."""
        if self.active_entries is None:
            self._cache.forget(self)
            self.needs_rebuild = True

    def resize(self, size_bytes: int) -> None:
        """Give the file of an active index another full size; never below its entries (R16)."""
        self.limit_to(size_bytes)
        self.settle()

    def truncate_to_entries(self, count: int) -> None:
        """Keep the first `count` entries of an active index; its file keeps its full size (R16)."""
        entries = self.active_entries
        assert entries is not None, "truncation of the index of a sealed segment"
        if count >= len(entries.keys):
            return
        entries.cut(count)
        if self._written_entries > count:
            self._written_entries = count
            self._set_file_size(self.size_bytes_max, keep_bytes=count * self.ENTRY_BYTES)

    def truncate(self) -> None:
        """Drop all entries (R16)."""
        self.truncate_to_entries(0)

    def trim_to_valid_size(self) -> None:
        """Write all entries and cut the file after them (R16). Where that fails, even the second
        time, the file is removed: else it would pass for a whole one after a restart."""
        entries = self.active_entries
        if entries is None:
            return
        if self.needs_rebuild and entries.is_whole:  # a write has failed: write them all again
            self._written_entries = 0
            self.needs_rebuild = False
        self.write_out()
        if not self.needs_rebuild:
            size_bytes = len(entries.keys) * self.ENTRY_BYTES
            self._set_file_size(size_bytes, keep_bytes=size_bytes)
        if self.needs_rebuild:
            self._remove_file()

    def _remove_file(self) -> None:
        self._handles.forget(self.path)
        try:
            self._handles.disk.unlink(self.path)
        except FileNotFoundError:
            pass  # it was missing in the first place
        except OSError as error:
            _log.error("a stale index stays", path=str(self.path), error=str(error))

    # --- life of the file ---------------------------------------------------------------------

    def seal(self) -> None:
        """Trim the file; from now on the entries are read from it when asked for (R27)."""
        entries = self.active_entries
        if entries is None:
            return
        self.trim_to_valid_size()
        self.active_entries = None
        if entries.is_whole or not self.needs_rebuild:
            self._cache.put(self, entries)

    def flush(self) -> None:
        """Write what is in memory only, and sync the file.

        An index whose sync fails is removed: what it holds now, nobody knows (R18).
        """
        self.write_out()
        if not self.is_dirty or self.needs_rebuild:
            return
        try:
            self._handles.get(self.path).sync()
        except OSError as error:
            self._write_failed(error)
            self._remove_file()
        self.is_dirty = False

    def close(self) -> None:
        """Trim the file, sync it, and let go of it (R13)."""
        self.seal()
        self.flush()
        self._cache.forget(self)
        self._handles.forget(self.path)

    def abandon(self) -> None:
        """Let go of the file and save nothing: it is going to be deleted."""
        self.active_entries = None
        self._cache.forget(self)
        self._handles.forget(self.path)

    def delete(self) -> None:
        """Unlink the file; one that is missing is no error."""
        self.abandon()
        try:
            self._handles.disk.unlink(self.path)
        except FileNotFoundError:
            pass  # an index may be missing at any time

    def rename_to(self, path: Path) -> None:
        """Rename the file; one that is missing is no error."""
        try:
            self._handles.disk.rename(self.path, path)
        except FileNotFoundError:
            self._handles.forget(self.path)
        else:
            self._handles.renamed(self.path, path)
        self.path = path

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path.name})"
