"""FileFlush: one sync of one file, begun and ended on the loop, run where it may block."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.storage.disk import DiskFile
    from broker.storage.file_handles import FileHandles
    from broker.storage.file_records import FileRecords


class FileFlush:
    """Covers what the file held when it was made; the file stays open until `finish`."""

    __slots__ = ("_changes", "_handles", "_records", "_seconds", "_succeeded", "file")

    def __init__(
        self, records: FileRecords, handles: FileHandles, file: DiskFile, changes: int
    ) -> None:
        """`file` was pinned for this; `changes` is what the set calls its state now."""
        self.file = file
        self._records = records
        self._handles = handles
        self._changes = changes
        self._seconds = 0.0
        self._succeeded: bool | None = None

    def sync(self) -> None:
        """Sync the file; may run in a thread.

        Raises:
            OSError: final. Call `finish` all the same, and end the process.
        """
        self.begin()
        started = self._handles.monotonic()
        self.file.sync()
        self.synced(self._handles.monotonic() - started)

    def begin(self) -> None:
        """Take note that the file is being synced, by `sync` or by the kernel on its own."""
        assert self._succeeded is None, "a flush is synced once, and never again after an error"
        self._succeeded = False

    def synced(self, seconds: float) -> None:
        """Take note that it has been, in so many seconds."""
        self._seconds = seconds
        self._succeeded = True

    def finish(self) -> None:
        """Tell the set how it went, on the loop's thread; one that never ran changes nothing."""
        if self._succeeded is not None:
            self._records.flush_finished(self._changes, succeeded=self._succeeded)
        if self._succeeded and self._handles.observe_flush_seconds is not None:
            self._handles.observe_flush_seconds(self._seconds)
        self._handles.unpin(self.file)
