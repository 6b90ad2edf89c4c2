"""CleanedSegment: the files `<base offset>.log.cleaned` and its indexes, while they are written.

For the cleaner's process alone: the broker has none of these files open. Indexes are made as an
append makes them (R19), in memory, and written whole at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from broker.storage.disk import Disk, DiskFile, write_whole
from protocol.identifiers import NO_TIMESTAMP, Buffer
from protocol.stored import transaction_index
from protocol.stored.file_names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
)
from protocol.stored.index_entries import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from protocol.stored.transaction_index import AbortedTransaction

WRITE_BYTES: Final = 1024 * 1024
SYNC_BYTES: Final = 8 * 1024 * 1024
"""So much is left to one sync: a bigger one would keep the syncs of produces waiting behind it."""

KINDS: Final = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


class CleanedSegment:
    """One segment in the making; `finish` or `discard` it."""

    __slots__ = (
        "_base_offset", "_directory", "_disk", "_file", "_index_interval_bytes", "_indexed_at",
        "_largest", "_note_written", "_offset_index", "_offset_of_largest", "_pending",
        "_pending_bytes", "_time_index", "_timestamp_indexed", "_unsynced_bytes", "size_bytes",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        base_offset: int,
        index_interval_bytes: int,
        note_written: Callable[[int], object],
    ) -> None:
        """Make the `.log.cleaned`, in the place of one that an earlier try has left.

        Raises:
            OSError: the disk refused.
        """
        self._disk, self._directory, self._base_offset = disk, directory, base_offset
        self._index_interval_bytes, self._note_written = index_interval_bytes, note_written
        self.size_bytes = 0
        self._indexed_at = 0
        self._pending: list[Buffer] = []
        self._pending_bytes = self._unsynced_bytes = 0
        self._largest: int = NO_TIMESTAMP
        self._timestamp_indexed: int = NO_TIMESTAMP
        self._offset_of_largest = base_offset
        self._offset_index, self._time_index = bytearray(), bytearray()
        self.discard()
        self._file: DiskFile = disk.open(self._path(LOG_SUFFIX), create=True)

    def _path(self, kind: str) -> Path:
        return self._directory / segment_file_name(self._base_offset, kind, CLEANED_SUFFIX)

    def append(self, batch: Buffer, last_offset: int, largest_timestamp: int) -> None:
        """Add a batch; errors as those of writing, OSError."""
        position = self.size_bytes
        if largest_timestamp > self._largest:
            self._largest, self._offset_of_largest = largest_timestamp, last_offset
        if position - self._indexed_at > self._index_interval_bytes:
            self._offset_index += OFFSET_INDEX_ENTRY.pack(last_offset - self._base_offset, position)
            self._index_time()
            self._indexed_at = position
        size = len(batch)
        self.size_bytes = position + size
        self._pending.append(batch)
        self._pending_bytes += size
        if self._pending_bytes >= WRITE_BYTES:
            self._write()

    def _index_time(self) -> None:
        if self._largest > self._timestamp_indexed:
            self._timestamp_indexed = self._largest
            relative = self._offset_of_largest - self._base_offset
            self._time_index += TIME_INDEX_ENTRY.pack(self._largest, relative)

    def _write(self) -> None:
        pending, self._pending = self._pending, []
        size, position = self._pending_bytes, self.size_bytes - self._pending_bytes
        write_whole(self._file, pending, position)
        self._unsynced_bytes += size
        if self._unsynced_bytes >= SYNC_BYTES:
            self._file.sync()
            self._unsynced_bytes = 0
        else:
            self._file.start_writeback(position, size)
        self._note_written(size)
        self._pending_bytes = 0

    def finish(self, aborted: Iterable[AbortedTransaction], modified_at_ms: int) -> int:
        """Write the rest, make all of it durable, close; return the size of the log file.

        Args:
            aborted: For the index of aborted transactions; without any there is no file.
            modified_at_ms: Its modification time: that of the newest segment it is made from.

        Raises:
            OSError: the disk refused; `discard` it.
        """
        self._write()
        self._file.sync()
        self._file.close()
        self._index_time()
        contents = {
            OFFSET_INDEX_SUFFIX: bytes(self._offset_index),
            TIME_INDEX_SUFFIX: bytes(self._time_index),
        }
        transactions = transaction_index.encode(aborted)
        if transactions:
            contents[TRANSACTION_INDEX_SUFFIX] = transactions
        for kind, content in contents.items():
            file = self._disk.open(self._path(kind), create=True)
            try:
                write_whole(file, [content], 0)
                file.sync()
            finally:
                file.close()
        for kind in (LOG_SUFFIX, *contents):
            self._disk.set_modification_time_ms(self._path(kind), modified_at_ms)
        self._disk.sync_directory(self._directory)
        return self.size_bytes

    def abandon(self) -> None:
        """Close and remove what there is, whatever the disk says: a new start removes the rest."""
        try:
            self._file.close()
            self.discard()
        except OSError:
            pass

    def discard(self) -> None:
        """Remove the files, those of an earlier try among them."""
        for kind in KINDS:
            path = self._path(kind)
            if self._disk.exists(path):
                self._disk.unlink(path)
