"""Flushing: when bytes of a log are forced to the disk, and what one flush makes durable.

The order of everything that makes bytes durable, for one log:

1. `append` writes batches to the active segment (page cache) and pins its file: the descriptor that
   wrote is the one that syncs. Nothing is promised yet.
2. `PartitionLog.flush_task` takes a snapshot, on the event loop: the log end offset, the pinned
   files with unflushed bytes (sealed segments with their indexes, the active one's log; of a new
   partition also its two small files), and the directories with entries that are not synced yet.
3. `FlushTask.run`, in a thread: fdatasync of every file, *then* fsync of the directories. Only when
   both have returned does anything count: a file whose name is lost is lost. Where it is one file
   and nothing else, as of nearly every commit, the kernel does it without a thread
   (`FlushTask.begin`, `synced`): the same sync of the same descriptor.
4. `PartitionLog.flush_completed`, on the loop: durable offset and recovery point = the snapshot's
   log end offset; under policy `commit` the high watermark too, which answers who waits for it. The
   log's slot of `durable-offsets` is set.
5. `DurableOffsets.write` once for the group, unsynced; synced each second by `housekeeping`.
6. The recovery-point checkpoint, each second and after each roll, from what step 4 left.

A step that fails leaves the earlier ones as a valid state: later ones only ever say less than is
true. An error of step 3 is final (`PartitionLog.flush_failed`): the kernel has marked the pages
clean, so a retry would succeed over lost data. The log takes no more bytes and the process ends.
One kind of error is none of a sync: that a directory is not where it was (`UNREACHABLE`), as after
an unmount at run time. Then the files are synced and their names are not: nothing is lost, nothing
is promised, and the next task tries the directory again (`PartitionLog.flush_completed`).
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from broker.storage.disk import Disk, DiskFile, storage_error
from broker.storage.file_flush import FileFlush
from broker.storage.log_config import FlushPolicy, LogConfig
from broker.storage.offset_metadata import LogOffsetMetadata
from protocol.limits import INT64_MAX

UNREACHABLE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})
"""What opening a directory says if it is gone; a sync of an open one does not say so."""

DUE_NOW: Final = 0.0
"""A time that has always passed, on the monotonic clock."""


class FlushTask:
    """What one flush of one log covers: a snapshot that a thread may work on."""

    __slots__ = (
        "_disk", "directories", "end", "files", "flushes", "has_run", "size_bytes", "started_at",
        "unreachable",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        flushes: tuple[FileFlush, ...],
        files: tuple[DiskFile, ...],
        directories: tuple[Path, ...],
        end: LogOffsetMetadata,
        size_bytes: int,
        started_at: float,
    ) -> None:
        self._disk = disk
        self.has_run = False
        """Whether all of it is durable."""
        self.unreachable: OSError | None = None
        """Set if it has run as far as the directories, and one of them is not there."""
        self.flushes = flushes
        """Of the log files with unflushed bytes, oldest first."""
        self.files = files
        """Other files: indexes of sealed segments, and what a new partition begins with. Pinned."""
        self.directories = directories
        """Those with new entries, each after the directories in it."""
        self.end = end
        """The log end offset of the snapshot, and its place."""
        self.size_bytes = size_bytes
        """Unflushed bytes that this makes durable."""
        self.started_at = started_at
        """When the snapshot was taken, on the monotonic clock."""

    def run(self) -> None:
        """Make it durable: files first, then the directories that name them.

        Raises:
            OSError: final. Some or none of it is durable; give the task to `flush_failed`.
        """
        for flush in self.flushes:
            flush.sync()
        for file in self.files:
            file.sync()
        for directory in self.directories:
            try:
                self._disk.sync_directory(directory)
            except OSError as error:
                if error.errno not in UNREACHABLE:
                    raise
                self.unreachable = error
                return
        self.has_run = True

    @property
    def sync_descriptor(self) -> int | None:
        """The open file whose fdatasync is all there is to do; None: it takes `run`."""
        if self.files or self.directories or len(self.flushes) != 1:
            return None
        return self.flushes[0].file.sync_descriptor

    def begin(self) -> None:
        """Take note that the kernel syncs that file: instead of `run`."""
        for flush in self.flushes:
            flush.begin()

    def synced(self, seconds: float) -> None:
        """Take note that the kernel has synced it; not called after an error, which is final."""
        for flush in self.flushes:
            flush.synced(seconds)
        self.has_run = True

    def check_reached(self) -> None:
        """Raise StorageError if a directory was not there: then nothing of it is durable."""
        if self.unreachable is not None:
            raise storage_error("sync", self.directories[0], self.unreachable)


def flush_due_at(
    config: LogConfig,
    *,
    unflushed_bytes: int,
    unflushed_messages: int,
    unflushed_bytes_max: int,
    first_unflushed_at: float,
    has_sealed: bool,
) -> float | None:
    """Return when a log has to be flushed, on the monotonic clock; None: not yet to be said.

    Under `commit` any byte is due at once. Under `interval` what comes first of M messages and T ms
    after the first unflushed one (R37): a time, so that a quiet topic is flushed too. Under every
    policy more than `unflushed_bytes_max`, and a segment sealed by a roll, are due at once:
    this bounds recovery.
    """
    if has_sealed or unflushed_bytes > unflushed_bytes_max:
        return DUE_NOW
    if not unflushed_bytes:
        return None
    policy = config.flush_policy
    if policy is FlushPolicy.COMMIT:
        return DUE_NOW
    if policy is FlushPolicy.OS:
        return None
    if unflushed_messages >= config.flush_messages:
        return DUE_NOW
    if config.flush_ms < INT64_MAX:
        return first_unflushed_at + config.flush_ms / 1000
    return None
