"""Checkpoints: the three offset files beside the partitions of a data directory.

- `recovery-point-offset-checkpoint`: from where an unclean start has to check each log;
- `log-start-offset-checkpoint`: log starts that lie inside a segment, as in Kafka (the others are
  the base offset of the first segment), or below which a deleted file could come back;
- `replication-offset-checkpoint`: high watermarks, for tools and followers.

Each is replaced atomically (write, sync, rename, sync of the directory). All are hints: one that is
not readable counts as empty, which costs time and never an offset. A recovery point goes into a
checkpoint only after the sync that moved it returned; a log start only after its second copy, in
`durable-offsets`, is durable: that one has a checksum, and is believed (`directory_plan`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from broker.storage.disk import Disk, replace_file
from protocol.errors import StoredFormatError
from protocol.identifiers import TopicPartition
from protocol.stored.checkpoint import checkpoint_encode, offset_checkpoint_decode
from protocol.stored.file_names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)

if TYPE_CHECKING:
    from broker.storage.partition_log import PartitionLog

_log = structlog.get_logger(__name__)

CHECKPOINT_FILES: Final = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
)
"""In the order in which they are written."""

Offsets = dict[TopicPartition, int]


def read_offset_checkpoint(disk: Disk, path: Path) -> Offsets:
    """Return the offsets in a checkpoint file; none, with a warning, if it is not readable."""
    try:
        return offset_checkpoint_decode(disk.read_file(path))
    except FileNotFoundError:
        return {}
    except (OSError, StoredFormatError) as error:
        _log.warning("checkpoint ignored: it is not readable", path=str(path), error=str(error))
        return {}


def stated_log_start(log: PartitionLog) -> int | None:
    """Return the log start that has to be written down; None: the first segment's name says it."""
    if log.log_start_offset > log.segments.base_offsets[0] or not log.trimmer.deleted.is_settled:
        return log.log_start_offset
    return None


class _Snapshot(NamedTuple):
    """What one file is to say; never changed."""

    version: int
    lines: list[str]
    offsets: Offsets


class CheckpointTask:
    """A snapshot to be written: made on the event loop, run anywhere, never changed."""

    __slots__ = ("_checkpoints", "_snapshots", "is_written")

    def __init__(self, checkpoints: Checkpoints, snapshots: dict[str, _Snapshot]) -> None:
        self._checkpoints, self._snapshots = checkpoints, snapshots
        self.is_written = False

    def log_start_of(self, topic_partition: TopicPartition) -> int:
        """Return the log start that the file says, 0 if it says none."""
        return self._snapshots[LOG_START_CHECKPOINT].offsets.get(topic_partition, 0)

    def run(self) -> None:
        """Write the files that differ from what was written last; durable on return.

        Raises:
            OSError: one of them, and those after it, have their old contents.
        """
        self._checkpoints.check()
        for name, snapshot in self._snapshots.items():
            self._checkpoints.write(name, snapshot)
        self.is_written = True
        self._checkpoints.failure = ""

    def failed(self, error: OSError) -> None:
        """Log that it could not be written, unless the one before failed likewise."""
        reason = error.strerror or str(error)
        if reason != self._checkpoints.failure:
            self._checkpoints.failure = reason
            path = str(self._checkpoints.directory)
            _log.warning("checkpoints not written; tried again", path=path, error=reason)


class Checkpoints:
    """The checkpoint files of one data directory, and what they should say, kept up to date.

    Logs are noted when their offsets move, some a turn, and a snapshot is a few copies in C: with
    10,000 partitions that mostly rest, a visit to all each second would be felt.
    """

    __slots__ = (
        "_disk", "_lines", "_offsets", "_snapshots", "_versions", "_written_versions", "check",
        "directory", "failure", "written",
    )  # fmt: skip

    def __init__(
        self, disk: Disk, directory: Path, check: Callable[[], object] = lambda: None
    ) -> None:
        """Args:
        check: Raises OSError if the directory is not the one that was opened.
        """
        self._disk = disk
        self.directory = directory
        self.check = check
        self._offsets: dict[str, Offsets] = {name: {} for name in CHECKPOINT_FILES}
        self._lines: dict[str, dict[TopicPartition, str]] = {name: {} for name in CHECKPOINT_FILES}
        self._versions = dict.fromkeys(CHECKPOINT_FILES, 0)  # counts changes
        self.failure = ""
        """Why the last task could not be written."""
        self._snapshots: dict[str, _Snapshot] = {}
        self._written_versions: dict[str, int] = {}
        self.written: dict[str, Offsets] = {}
        """What each file is known to say; changed by the task that runs, one at a time."""

    def read(self, name: str) -> Offsets:
        """Return what one of the files says."""
        return read_offset_checkpoint(self._disk, self.directory / name)

    def keep(self, partitions: Iterable[TopicPartition]) -> None:
        """Have what the files say of partitions that are not loaded written again each time."""
        for name in CHECKPOINT_FILES:
            offsets = self.read(name)
            for each in partitions:
                self._put(name, each, offsets.get(each))

    def forget(self, topic_partition: TopicPartition) -> None:
        """Say nothing any more of a partition that was deleted."""
        for name in CHECKPOINT_FILES:
            self._put(name, topic_partition, None)

    def note(self, log: PartitionLog) -> None:
        """Take over what the files should say of a log; some microseconds."""
        topic_partition = log.topic_partition
        self._put(RECOVERY_POINT_CHECKPOINT, topic_partition, log.recovery_point)
        self._put(HIGH_WATERMARK_CHECKPOINT, topic_partition, log.high_watermark)
        self._put(LOG_START_CHECKPOINT, topic_partition, stated_log_start(log))

    def task(self) -> CheckpointTask:
        """Take a snapshot of all that was noted. At most one task may be under way at a time."""
        for name in CHECKPOINT_FILES:
            version = self._versions[name]
            taken = self._snapshots.get(name)
            if taken is None or taken.version != version:
                lines = list(self._lines[name].values())
                self._snapshots[name] = _Snapshot(version, lines, dict(self._offsets[name]))
        return CheckpointTask(self, dict(self._snapshots))

    def write(self, name: str, snapshot: _Snapshot) -> None:
        """Replace a file, unless it is known to say the same; for the task.

        Raises:
            OSError: it has its old contents.
        """
        if self._written_versions.get(name) == snapshot.version:
            return
        self._written_versions.pop(name, None)  # if this fails, nobody knows what the file says
        self.written.pop(name, None)
        replace_file(self._disk, self.directory / name, checkpoint_encode(snapshot.lines))
        self._written_versions[name] = snapshot.version
        self.written[name] = snapshot.offsets

    def _put(self, name: str, topic_partition: TopicPartition, offset: int | None) -> None:
        """Have a file say an offset; None: say nothing of the partition."""
        offsets, lines = self._offsets[name], self._lines[name]
        if offsets.get(topic_partition) == offset:
            return
        self._versions[name] += 1
        if offset is None:
            del offsets[topic_partition], lines[topic_partition]
            return
        offsets[topic_partition] = offset
        lines[topic_partition] = f"{topic_partition.topic} {topic_partition.partition} {offset}"
