"""FileRecords: a message set over a file (Kafka's FileMessageSet), whole or a slice of it (R6-R11).

All positions count from the set's first byte. The file position is never relied on. Only a whole
set can be changed, and only at its end; it is pinned in the handle cache from its first unflushed
byte until a sync has covered the last one.

Errors: StorageError, with errno, where the disk refuses something and the log may go on. A failed
*sync* comes out as the OSError it is: it is final, the process has to end, and this set accepts
nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from broker.storage import entry_walk
from broker.storage.disk import DiskFile, storage_error, storage_errors, write_whole
from broker.storage.entry_walk import EntryHeader
from broker.storage.file_flush import FileFlush
from broker.storage.file_handles import FileHandles
from broker.storage.file_slice import FileSlice, Sink
from broker.storage.offset_metadata import OffsetPosition
from protocol.errors import StorageError
from protocol.identifiers import Buffer
from protocol.limits import BATCH_BYTES_MAX

__all__ = ["FileRecords", "FileSlice"]


class FileRecords:
    """A set of record batches and legacy entries in a file."""

    __slots__ = (
        "_changes", "_failure", "_flushed_changes", "_may_have_rest", "_must_cut", "_path",
        "_pinned", "_whole", "_writer", "handles", "is_sealed", "size_bytes", "start",
    )  # fmt: skip

    def __init__(
        self,
        handles: FileHandles,
        path: Path,
        size_bytes: int,
        *,
        start: int = 0,
        whole: FileRecords | None = None,
    ) -> None:
        """Not for callers: `open` makes a whole set, `read` a slice."""
        self.size_bytes = size_bytes
        """Of this set; a file may hold more behind it, until it is trimmed."""
        self.is_sealed = False
        """Whether no more will be appended: the file may be mapped to its end."""
        self.start = start
        """Where in the file the set starts: 0 for a whole one."""
        self.handles = handles
        self._path = path
        self._whole = whole
        self._pinned: DiskFile | None = None  # while there are unflushed changes
        self._writer: DiskFile | None = None  # the same file, when nothing forbids to append
        self._must_cut = False  # bytes of a failed append are behind the end
        self._may_have_rest = False  # the file may be longer than the set
        self._failure = ""  # why nothing more is accepted: closed, deleted, or a failed sync
        self._changes = 0  # counts appends and cuts, so that a sync knows what it covered
        self._flushed_changes = 0

    @classmethod
    def open(
        cls, handles: FileHandles, path: Path, *, create: bool = False, end: int | None = None
    ) -> FileRecords:
        """Open the set over a whole file.

        Args:
            create: Make the file where there is none. Its entry is durable once the caller has
                synced the directory.
            end: Where the set ends, at most the file's size, which it is without it.

        Raises:
            StorageError: the file cannot be opened, or is shorter than `end`.
        """
        with storage_errors("open", path):
            file_bytes = handles.get(path, create=create).size()
        if end is not None and not 0 <= end <= file_bytes:
            raise StorageError(f"{path} has {file_bytes} bytes, not {end}")
        records = cls(handles, path, file_bytes if end is None else end)
        records._may_have_rest = records.size_bytes < file_bytes
        return records

    @property
    def path(self) -> Path:
        """The file's name now."""
        return self._path if self._whole is None else self._whole.path

    @property
    def has_unflushed(self) -> bool:
        """Whether a power cut could take some of it."""
        return self._changes != self._flushed_changes

    # --- appending and cutting ----------------------------------------------------------------

    def append(self, buffers: Sequence[Buffer], size: int) -> int:
        """Write the buffers, `size` bytes in all, at the end; return the position of the first.

        All or nothing: after an error the file is cut back to the size it had before.

        Raises:
            StorageError: the disk refused (ENOSPC, EIO, ...); or this is a slice (R7), or closed.
        """
        file = self._writer
        if file is None:
            file = self._open_writer()
        position = self.size_bytes
        try:
            written = file.write(buffers, position)
            if written != size:
                written = write_whole(file, buffers, position, written=written)
                assert written == size, "`size` is not that of the buffers"
        except OSError as error:
            self._cut_back(file)
            raise storage_error("append to", self._path, error) from error
        self.size_bytes = position + size
        self._changes += 1
        return position

    def truncate_to(self, size: int) -> int:
        """Cut the set, and the file, to `size` bytes; return how many bytes of the set went (R11).

        Nobody may hold a mapped view above `size`: whoever sends it would meet SIGBUS or EFAULT.

        Raises:
            StorageError: `size` is negative or above the set's, or the disk refused.
        """
        if not 0 <= size <= self.size_bytes:
            raise StorageError(f"cannot cut {self._path}, {self.size_bytes} bytes, to {size}")
        file = self._open_writer()
        self.handles.mapped_files.forget(self)
        self._changes += 1
        with storage_errors("cut", self._path):
            file.truncate(size)
        cut_bytes, self.size_bytes = self.size_bytes - size, size
        return cut_bytes

    def _open_writer(self) -> DiskFile:
        """Pin the file and return it, if this set may be changed."""
        if self._whole is not None:
            raise StorageError(f"this is a slice of {self.path}: only the whole set can change")
        if self._failure:
            raise StorageError(f"{self._path} {self._failure}")
        if self._pinned is None:
            with storage_errors("open", self._path):
                self._pinned = self.handles.pin(self._path)
        self._may_have_rest = True
        if self._must_cut:
            with storage_errors("cut", self._path):
                self._pinned.truncate(self.size_bytes)
            self._must_cut = False
        self._writer = self._pinned
        return self._pinned

    def _cut_back(self, file: DiskFile) -> None:
        """Remove what a failed append has left behind the end, now or before the next append."""
        try:
            file.truncate(self.size_bytes)
        except OSError:
            self._must_cut = True
            self._writer = None
        else:
            self._unpin_if_flushed()

    # --- reading ------------------------------------------------------------------------------

    def read(self, position: int, size: int) -> FileRecords:
        """Return a slice of this set, bounded by its end (R8)."""
        start, size = self._bounded(position, size)
        whole = self if self._whole is None else self._whole
        return FileRecords(self.handles, self._path, size, start=start, whole=whole)

    def read_bytes(self, position: int, size: int) -> bytes:
        """Return the bytes, fewer where the set or the file ends."""
        position, size = self._bounded(position, size)
        with storage_errors("read", self.path):
            return self.file().read(size, position)

    def read_exactly(self, position: int, size: int) -> bytes:
        """Return `size` bytes.

        Raises:
            StorageError: the set or the file ends before.
        """
        data = self.read_bytes(position, size)
        if len(data) != size:
            self.check_holds(position + size)
            raise StorageError(f"{self.path} could not be read to byte {position + size}")
        return data

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill the buffer from `position`; return the bytes read, fewer at the end (R8)."""
        position, size = self._bounded(position, len(buffer))
        with storage_errors("read", self.path):
            return self.file().read_into(buffer[:size], position)

    def search_for(self, target_offset: int, from_position: int = 0) -> OffsetPosition | None:
        """Return the first batch or entry whose *last* offset is at or above the target (R9).

        Args:
            from_position: Where a batch starts that lies at or before the one looked for.

        Raises:
            BatchCorruptError: on the way is something that is no batch; with its position.
            BatchTruncatedError: the last batch of a whole set reaches beyond its end.
        """
        start, is_whole = self.start, self._whole is None
        first, end = start + from_position, start + self.size_bytes
        with storage_errors("read", self.path):
            read = self.file().read
            found = entry_walk.search(read, first, end, target_offset, is_whole=is_whole)
        return found if found is None or not start else found._replace(position=found[1] - start)

    def batches(
        self, from_position: int = 0, *, size_bytes_max: int = BATCH_BYTES_MAX
    ) -> Iterator[tuple[int, EntryHeader]]:
        """Yield position and header of each batch or legacy entry, shallow, without the bodies.

        The end comes without an error where nothing whole is left (the four cases of R4).

        Raises:
            BatchCorruptError: a size over `size_bytes_max`, or a header that cannot be.
        """
        start = self.start
        end = min(start + self.size_bytes, self.file_bytes())
        for position, header in entry_walk.walk(
            self._read_at, start + from_position, end, size_bytes_max=size_bytes_max
        ):
            yield position - start, header

    def has_magic(self, magic: int) -> bool:
        """Whether every entry is of that format; so True for an empty set (R6)."""
        return all(header.magic == magic for _, header in self.batches())

    def file_bytes(self) -> int:
        """Return the size of the file now, which may hold more than the set, or have lost some."""
        with storage_errors("read the size of", self.path):
            return self.file().size()

    def _read_at(self, size: int, position: int) -> bytes:
        """Read for an iterator, which may go on after the handle cache has closed the file."""
        with storage_errors("read", self.path):
            return self.file().read(size, position)

    def _bounded(self, position: int, size: int) -> tuple[int, int]:
        """Return where in the file that piece starts, and how much of it lies inside this set."""
        if position < 0 or size < 0:
            raise StorageError(f"no {size} bytes at {position} in {self.path}")
        position = min(position, self.size_bytes)
        return self.start + position, min(size, self.size_bytes - position)

    def file(self) -> DiskFile:
        """Return the file, open; only until the next call of the handles."""
        whole = self if self._whole is None else self._whole
        if whole._pinned is not None:
            return whole._pinned
        if whole._failure:
            raise StorageError(f"{whole._path} {whole._failure}")
        return self.handles.get(whole._path)

    # --- sending ------------------------------------------------------------------------------

    def write_to(self, sink: Sink, position: int, size: int, *, mapped: bool = True) -> int:
        """Hand a piece of the set to a transport without copying; return its bytes (R10).

        Raises:
            StorageError: the file is shorter than that, or cannot be read. Nothing was handed over.
        """
        return FileSlice(self, position, size).write_to(sink, mapped=mapped)

    def mapping(self, lent_bytes: int) -> memoryview:
        """Return what is mapped of the file, from its first byte on; for the kernel's eyes only.

        Args:
            lent_bytes: About how much of it is going to be sent.

        Raises:
            StorageError: the file cannot be opened.
        """
        whole = self if self._whole is None else self._whole
        mapped_files = self.handles.mapped_files
        with storage_errors("map", whole._path):
            mapping = mapped_files.mapping(
                whole, whole.size_bytes, whole.file, is_sealed=whole.is_sealed
            )
        mapped_files.lend(whole, lent_bytes)
        return mapping

    def check_holds(self, end: int) -> None:
        """Raise StorageError unless the set, and the file as it is now, reach to `end`."""
        if end > self.size_bytes or self.file_bytes() < self.start + end:
            raise StorageError(f"{self.path} ends before byte {end}: it has become shorter")

    # --- flushing and the end -----------------------------------------------------------------

    def start_flush(self) -> FileFlush:
        """Return a flush of all that is written now, whose `sync` may run in a thread.

        Raises:
            StorageError: the set is closed, or an earlier sync has failed: there is no retry.
        """
        if self._failure:
            raise StorageError(f"{self._path} {self._failure}")
        with storage_errors("open", self._path):
            return FileFlush(self, self.handles, self.handles.pin(self._path), self._changes)

    def flush(self) -> None:
        """Return once everything is on stable storage (R11); what others wrote too (recovery).

        Raises:
            OSError: the sync failed: the process must end, nothing is safe that was not before.
        """
        flush = self.start_flush()
        try:
            flush.sync()
        finally:
            flush.finish()

    def flush_finished(self, changes: int, *, succeeded: bool) -> None:
        """Take note that everything up to a change is durable, or never will be known to be."""
        if not succeeded:
            self._failure = "was not saved: a sync failed"
            self._writer = None
            return
        self._flushed_changes = max(self._flushed_changes, changes)
        self._unpin_if_flushed()

    def seal(self) -> None:
        """Expect no more appends: the whole file may be mapped from now on."""
        self.is_sealed = True

    def close(self) -> None:
        """Flush, trim the file to the set's size, close (R11). A second call does nothing.

        Raises:
            OSError: the sync failed: the process must end.
            StorageError: the file cannot be trimmed.
        """
        if self._failure:
            self._let_go(self._failure)
            return
        if self.has_unflushed:
            self.flush()
        # A clean stop closes thousands of sealed sets that nobody has opened: it opens none.
        if self._may_have_rest and self.file_bytes() > self.size_bytes:
            self.truncate_to(self.size_bytes)
            self.flush()
        self._let_go("is closed")

    def abandon(self) -> None:
        """Close the file and save nothing: it is about to be removed, by this set or by another."""
        self._let_go("is deleted")

    def delete(self) -> None:
        """Close the file, whatever that says, and remove it; a missing file is no error (R11).

        Raises:
            StorageError: it cannot be removed.
        """
        self._let_go("is deleted")
        with storage_errors("remove", self._path):
            try:
                self.handles.disk.unlink(self._path)
            except FileNotFoundError:
                pass

    def rename_to(self, path: Path) -> None:
        """Rename the file; it stays open. Durable once the caller has synced the directory.

        Raises:
            StorageError: it cannot be renamed; nothing has changed.
        """
        with storage_errors("rename", self._path):
            self.handles.disk.rename(self._path, path)
        self.handles.renamed(self._path, path)
        self._path = path

    def moved_to(self, path: Path) -> None:
        """Take note of a new name, after a rename of the directory that `handles` know of."""
        self._path = path

    def _let_go(self, failure: str) -> None:
        self._failure = failure
        self.handles.mapped_files.forget(self)
        self.handles.forget(self._path)
        self._unpin()

    def _unpin_if_flushed(self) -> None:
        if self._flushed_changes == self._changes and not self._must_cut:
            self._unpin()

    def _unpin(self) -> None:
        file, self._pinned, self._writer = self._pinned, None, None
        if file is not None:
            self.handles.unpin(file)
