"""IndexScrub: holds a sealed segment's index files against the batches, as they go by."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.storage.index_words import words
from protocol import record_batch
from protocol.stored.file_names import offset_index_file_name, time_index_file_name
from protocol.stored.index_entries import OFFSET_INDEX_ENTRY_BYTES, TIME_INDEX_ENTRY_BYTES

if TYPE_CHECKING:
    from broker.storage.disk import Disk
    from broker.storage.entry_walk import EntryHeader

OFFSET_WORDS: Final = OFFSET_INDEX_ENTRY_BYTES // 4
"""offset and position"""
TIME_WORDS: Final = TIME_INDEX_ENTRY_BYTES // 4
"""timestamp, in two, and offset"""
WORD: Final = 1 << 32


class IndexScrub:
    """Both indexes of one segment. An entry that is right is one that a look-up would accept."""

    __slots__ = ("_base_offset", "_fault", "_offset_at", "_offsets", "_time_at", "_times")

    def __init__(
        self, base_offset: int, offsets: array[int], times: array[int], fault: str = ""
    ) -> None:
        """Args:
        offsets, times: The files' words, whole entries only.
        fault: What is known to be wrong with them.
        """
        self._base_offset = base_offset
        self._offsets, self._times = offsets, times
        self._offset_at = self._time_at = 0  # which entries come next
        self._fault = fault

    @classmethod
    def load(cls, disk: Disk, directory: Path, base_offset: int) -> IndexScrub:
        """Read both files; what cannot be read is a fault, never an error."""
        offsets, fault = _read(
            disk, directory / offset_index_file_name(base_offset), OFFSET_INDEX_ENTRY_BYTES
        )
        times, other_fault = _read(
            disk, directory / time_index_file_name(base_offset), TIME_INDEX_ENTRY_BYTES
        )
        return cls(base_offset, offsets, times, fault or other_fault)

    def see(self, position: int, header: EntryHeader) -> None:
        """Take the next batch, in the order of the file."""
        first = header.base_offset - self._base_offset
        at, offsets = self._offset_at, self._offsets
        if at < len(offsets) and offsets[at + 1] <= position:
            before = offsets[at - OFFSET_WORDS] if at else -1
            if offsets[at + 1] != position or not before < first <= offsets[at]:
                self._note(f"the offset index names no batch at position {offsets[at + 1]}")
            self._offset_at = at + OFFSET_WORDS
        last = header.last_offset - self._base_offset
        at, times = self._time_at, self._times
        while at < len(times) and times[at + 2] <= last:
            timestamp = _timestamp(times, at)
            before = _timestamp(times, at - TIME_WORDS) if at else -1
            is_inside = first <= times[at + 2] or header.magic != record_batch.MAGIC
            if not is_inside or timestamp != header.max_timestamp or timestamp <= before:
                self._note(f"the time index has another time than the batch at {position}")
            at += TIME_WORDS
        self._time_at = at

    def finish(self) -> str:
        """Return what is wrong, when all batches have gone by; "" if nothing is."""
        if self._offset_at < len(self._offsets):
            self._note("the offset index goes on behind the log")
        if self._time_at < len(self._times):
            self._note("the time index goes on behind the log")
        return self._fault

    def _note(self, fault: str) -> None:
        self._fault = self._fault or fault  # one is enough: both are built anew


def _timestamp(times: array[int], at: int) -> int:
    return times[at] * WORD + times[at + 1] % WORD


def _read(disk: Disk, path: Path, entry_bytes: int) -> tuple[array[int], str]:
    """Return the words of the whole entries in a file, and what is wrong with it."""
    try:
        file = disk.open(path, read_only=True)
        try:
            data = file.read(file.size(), 0)
        finally:
            file.close()
    except OSError as error:
        return words(b""), f"{path.name} cannot be read: {error.strerror or error}"
    rest = len(data) % entry_bytes
    return words(data[: len(data) - rest]), f"{path.name} ends inside an entry" if rest else ""
