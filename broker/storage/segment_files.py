"""SegmentFiles: the files of one segment, under their names, from making to unlinking."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from broker.storage.disk import storage_errors
from broker.storage.file_handles import FileHandles
from broker.storage.file_place import FilePlace
from broker.storage.file_records import FileRecords
from broker.storage.index_cache import IndexCache
from broker.storage.offset_index import OffsetIndex
from broker.storage.time_index import TimeIndex
from broker.storage.transaction_index import TransactionIndex
from protocol.stored.file_names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
)


class SegmentFiles:
    """A `.log` with its `.index`, `.timeindex`, and a `.txnindex` where there is one."""

    __slots__ = (
        "_transaction_index", "directory", "handles", "offset_index", "records", "time_index",
    )  # fmt: skip

    def __init__(
        self,
        handles: FileHandles,
        directory: Path,
        records: FileRecords,
        offset_index: OffsetIndex,
        time_index: TimeIndex,
    ) -> None:
        self.handles = handles
        self.directory = directory
        self.records = records
        self.offset_index, self.time_index = offset_index, time_index
        self._transaction_index: TransactionIndex | None = None

    @classmethod
    def open_files(
        cls,
        handles: FileHandles,
        directory: Path,
        base_offset: int,
        *,
        index_bytes_max: int,
        index_cache: IndexCache,
        create: bool,
        active: bool,
        suffix: str,
        sizes: Mapping[str, int] | None = None,
    ) -> SegmentFiles:
        """Open the files, or with `create` make those that are missing.

        Args:
            sizes: Of all files in the directory, by name: then no sealed segment's are touched.

        Raises:
            StorageError: the `.log` is missing (without `create`) or cannot be opened.
        """

        def place(kind: str) -> FilePlace:
            return FilePlace(directory, segment_file_name(base_offset, kind, suffix))

        log_path = place(LOG_SUFFIX).path
        index_path, time_index_path = place(OFFSET_INDEX_SUFFIX), place(TIME_INDEX_SUFFIX)
        index_bytes = time_index_bytes = None
        if sizes is None or log_path.name not in sizes:
            records = FileRecords.open(handles, log_path, create=create)
        else:
            records = FileRecords(handles, log_path, sizes[log_path.name])
            index_bytes = sizes.get(index_path.name, -1)
            time_index_bytes = sizes.get(time_index_path.name, -1)
        is_new = create and not records.size_bytes
        offset_index = OffsetIndex.open(
            handles, index_path, base_offset, index_bytes_max,
            active=active, cache=index_cache, create=is_new, file_bytes=index_bytes,
        )  # fmt: skip
        time_index = TimeIndex.open(
            handles, time_index_path, base_offset, index_bytes_max,
            active=active, cache=index_cache, create=is_new, file_bytes=time_index_bytes,
        )  # fmt: skip
        return SegmentFiles(handles, directory, records, offset_index, time_index)

    @property
    def transaction_index(self) -> TransactionIndex:
        """Made, read and written when asked for: most segments have no file of it."""
        if self._transaction_index is None:
            path = self.directory / _transaction_name(self.records)
            self._transaction_index = TransactionIndex(self.handles, path)
        return self._transaction_index

    @property
    def path(self) -> Path:
        """The `.log`."""
        return self.records.path

    def sanity_check(self) -> bool:
        """Whether both indexes can be what was written (R17); False: they get rebuilt.

        That is done by `rebuild_indexes`, at the latest by the first look-up.
        """
        is_offset_index_sane = self.offset_index.sanity_check()
        return self.time_index.sanity_check() and is_offset_index_sane

    def activate(self) -> None:
        """Make it the segment that is appended to: its indexes grow to full size (R13)."""
        self.records.is_sealed = False
        self.offset_index.activate()
        self.time_index.activate()

    def modification_time_ms(self) -> int:
        """Return when the `.log` was last changed."""
        with storage_errors("read the time of", self.path):
            return self.handles.disk.modification_time_ms(self.path)

    def set_modification_time_ms(self, timestamp_ms: int) -> None:
        """Set the modification time of all files of the segment (R20)."""
        disk = self.handles.disk
        for path in (self.path, *self._other_paths()):
            with storage_errors("set the time of", path):
                if disk.exists(path):
                    disk.set_modification_time_ms(path, timestamp_ms)

    def rename_suffix(self, old: str, new: str) -> None:
        """Give all files of the segment another suffix, such as `.deleted` (R39).

        Durable once the caller has synced the directory.

        Raises:
            StorageError: a file cannot be renamed.
        """
        indexes = self._indexes
        self.records.rename_to(_with_suffix(self.path, old, new))
        for index in indexes:
            with storage_errors("rename", index.path):
                index.rename_to(_with_suffix(index.path, old, new))

    def moved_to(self, directory: Path) -> None:
        """Take note that the directory was renamed."""
        self.records.moved_to(directory / self.path.name)
        for index in (self.offset_index, self.time_index, self.transaction_index):
            index.path = directory / index.path.name
        self.directory = directory

    def flush(self) -> None:
        """Return once batches and indexes are on stable storage.

        Raises:
            OSError: a sync failed: the process must end.
        """
        self.records.flush()
        self.offset_index.flush()
        self.time_index.flush()
        self.transaction_index.flush()

    def delete(self) -> None:
        """Remove all files of the segment; a missing one is no error.

        Raises:
            StorageError: one cannot be removed.
        """
        self.records.delete()
        for index in self._indexes:
            with storage_errors("remove", index.path):
                index.delete()

    @property
    def _indexes(self) -> tuple[OffsetIndex | TimeIndex | TransactionIndex, ...]:
        return self.offset_index, self.time_index, self.transaction_index

    def _other_paths(self) -> tuple[Path, ...]:
        """Return the files beside the `.log`; any of them may be missing."""
        return tuple(index.path for index in self._indexes)


def _transaction_name(records: FileRecords) -> str:
    return records.path.name.replace(LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX, 1)


def _with_suffix(path: Path, old: str, new: str) -> Path:
    assert path.name.endswith(old), f"{path.name} does not end with {old}"
    return path.with_name(path.name.removesuffix(old) + new)
