"""TransactionIndex: the `.txnindex` of one segment: aborted transactions whose markers are in it.

Most segments have none, and then no file. An entry is written before the marker's batch is, so that
a disk that refuses it refuses the marker; recovery builds the index of each segment that it checks
anew. The file has no checksum: the producer snapshot at the segment's end has it. Where that does
not say, as in Kafka's, the index is built from the batches at its first use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from broker.storage.disk import replace_file, storage_errors, write_whole
from protocol.checksum import crc32c
from protocol.errors import StorageError, StoredFormatError
from protocol.stored.producer_snapshot import NO_INDEX, IndexChecksum
from protocol.stored.transaction_index import (
    ENTRY,
    ENTRY_BYTES,
    AbortedTransaction,
    decode,
    encode,
)

if TYPE_CHECKING:
    from broker.storage.file_handles import FileHandles

_ENTRIES_PER_READ = 1_000


class TransactionIndex:
    """The aborted transactions of one segment, in the order of their markers."""

    __slots__ = ("_handles", "_size_bytes", "is_trusted", "path")

    def __init__(self, handles: FileHandles, path: Path) -> None:
        self._handles = handles
        self.path = path
        self._size_bytes: int | None = None  # not looked for yet
        self.is_trusted = False
        """Its entries were checked, or built, since it was opened."""

    @property
    def size_bytes(self) -> int:
        """Of all entries; 0 where there is no file.

        Raises:
            StorageError: the disk does not say.
        """
        if self._size_bytes is None:
            with storage_errors("read the size of", self.path):
                try:
                    self._size_bytes = self._handles.disk.file_size(self.path)
                except FileNotFoundError:
                    self._size_bytes = 0
        return self._size_bytes

    def append(self, transactions: Sequence[AbortedTransaction]) -> int:
        """Write entries at the end; return the size before, for `cut_to`. Not durable.

        Raises:
            StorageError: the disk refused; the index is as it was.
        """
        size_bytes = self.size_bytes
        data = encode(transactions)
        try:
            with storage_errors("write", self.path):
                write_whole(self._handles.get(self.path, create=True), [data], size_bytes)
        except StorageError:
            self.cut_to(size_bytes)
            raise
        self._size_bytes = size_bytes + len(data)
        return size_bytes

    def cut_to(self, size_bytes: int) -> None:
        """Take back what was appended. What cannot be cut is written over by the next entry."""
        self._size_bytes = size_bytes
        with contextlib.suppress(OSError):
            self._handles.get(self.path).truncate(size_bytes)

    def entries(self, from_number: int = 0) -> Iterator[AbortedTransaction]:
        """Yield the entries, as they stand there.

        Raises:
            StoredFormatError: while iterating: this is no transaction index.
            StorageError: while iterating: the file cannot be read.
        """
        position = from_number * ENTRY_BYTES
        while position < self.size_bytes:
            size = min(self.size_bytes - position, _ENTRIES_PER_READ * ENTRY_BYTES)
            with storage_errors("read", self.path):
                data = self._handles.get(self.path).read(size, position)
            if len(data) < size:
                raise StoredFormatError("transaction index: the file has become shorter")
            yield from decode(data)
            position += size

    def checksum(self, size_bytes: int | None = None) -> IndexChecksum:
        """Return size and checksum of all entries, or of the first `size_bytes`.

        Raises:
            StorageError: the file cannot be read.
        """
        size_bytes = self.size_bytes if size_bytes is None else size_bytes
        if not size_bytes:
            return NO_INDEX
        with storage_errors("read", self.path):
            data = self._handles.get(self.path).read(size_bytes, 0)
        return IndexChecksum(len(data), crc32c(data))

    def check(self, base_offset: int, end_offset: int) -> None:
        """Hold every entry against what one of this segment must be.

        Args:
            base_offset, end_offset: Of the segment: the markers are in between.

        Raises:
            StoredFormatError: one is not; build the index anew.
            StorageError: the file cannot be read.
        """
        last_offset = base_offset - 1
        for entry in self.entries():
            if not last_offset < entry.last_offset < end_offset:
                raise StoredFormatError(f"transaction index: {entry} is out of order")
            if not 0 <= entry.last_stable_offset <= entry.last_offset + 1:
                raise StoredFormatError(f"transaction index: {entry} has no such stable offset")
            last_offset = entry.last_offset

    def collect(self, start: int, end: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions with records in `start` to `end`, and whether those are all.

        They are all when an entry says that everything below `end` was decided with it; else look
        on in the next segment. Errors as `entries`.
        """
        found: list[AbortedTransaction] = []
        for entry in self.entries(self._first_number(start)):
            if entry.first_offset < end:
                found.append(entry)
            if entry.last_stable_offset >= end:
                return found, True
        return found, False

    def _first_number(self, start: int) -> int:
        """Return the number of the first entry whose marker is at or above `start`."""
        low, high = 0, self.size_bytes // ENTRY_BYTES
        while low < high:
            middle = (low + high) // 2
            with storage_errors("read", self.path):
                data = self._handles.get(self.path).read(ENTRY_BYTES, middle * ENTRY_BYTES)
            if len(data) < ENTRY_BYTES:
                raise StoredFormatError("transaction index: the file has become shorter")
            if ENTRY.unpack(data)[3] < start:
                low = middle + 1
            else:
                high = middle
        return low

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose markers are at or above `offset`.

        Raises:
            StorageError: the disk refused.
        """
        if not self.size_bytes:
            return
        number = self._first_number(offset)
        with storage_errors("cut", self.path):
            self._handles.get(self.path).truncate(number * ENTRY_BYTES)
        self._size_bytes = number * ENTRY_BYTES

    def replace(self, transactions: Sequence[AbortedTransaction]) -> bool:
        """Have it say just this, durably; return whether it said something else.

        Raises:
            OSError: it has its old contents.
            StorageError: it cannot be read.
        """
        data = encode(transactions)
        disk = self._handles.disk
        self.is_trusted = True
        if self.size_bytes == len(data) and (
            not data or self._handles.get(self.path).read(len(data), 0) == data
        ):
            return False
        self._handles.forget(self.path)
        if data:
            replace_file(disk, self.path, data)
        else:
            disk.unlink(self.path)
            disk.sync_directory(self.path.parent)
        self._size_bytes = len(data)
        return True

    # --- the file -----------------------------------------------------------------------------

    def flush(self) -> None:
        """Return once it is on stable storage. OSError: a sync failed, which is final."""
        if self.size_bytes:
            self._handles.get(self.path).sync()

    def abandon(self) -> None:
        """Let go of the file and save nothing: the log is closed, or the file to be deleted."""
        self._handles.forget(self.path)

    def delete(self) -> None:
        """Unlink the file; that there is none is no error."""
        self.abandon()
        try:
            self._handles.disk.unlink(self.path)
        except FileNotFoundError:
            pass
        self._size_bytes = 0

    def rename_to(self, path: Path) -> None:
        """Rename the file; that there is none is no error."""
        try:
            self._handles.disk.rename(self.path, path)
        except FileNotFoundError:
            self._handles.forget(self.path)
        else:
            self._handles.renamed(self.path, path)
        self.path = path

    def __repr__(self) -> str:
        return f"TransactionIndex({self.path.name})"
