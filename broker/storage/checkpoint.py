"""Checkpoints: the three offset files beside the partitions of a data directory.

- `recovery-point-offset-checkpoint`: from where an unclean start has to check each log;
- `log-start-offset-checkpoint`: log starts that lie inside a segment, as in Kafka (the others are
  the base offset of the first segment), or below which a deleted file could come back;
- `replication-offset-checkpoint`: high watermarks, for tools and followers.

Each is replaced atomically (write, sync, rename, sync of the directory). All are hints: one that is
not readable counts as empty, which costs time and never an offset. A recovery point goes into a
checkpoint only after the sync that moved it returned.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from broker.storage.disk import Disk, replace_file
from protocol.errors import StoredFormatError
from protocol.identifiers import TopicPartition
from protocol.stored.checkpoint import offset_checkpoint_decode, offset_checkpoint_encode
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


class CheckpointTask:
    """A snapshot to be written: made on the event loop, run anywhere, never changed."""

    __slots__ = ("_checkpoints", "_disk", "is_written", "offsets_by_file")

    def __init__(
        self, disk: Disk, checkpoints: Checkpoints, offsets_by_file: dict[str, Offsets]
    ) -> None:
        self._disk = disk
        self._checkpoints = checkpoints
        self.offsets_by_file = offsets_by_file
        self.is_written = False

    def log_start_of(self, topic_partition: TopicPartition) -> int:
        """Return the log start that the file says, 0 if it says none."""
        return self.offsets_by_file[LOG_START_CHECKPOINT].get(topic_partition, 0)

    def run(self) -> None:
        """Write the files that differ from what was written last; durable on return.

        Raises:
            OSError: one of them, and those after it, have their old contents.
        """
        written = self._checkpoints.written
        for name in CHECKPOINT_FILES:
            offsets = self.offsets_by_file[name]
            if written.get(name) == offsets:
                continue
            written.pop(name, None)  # if this fails, nobody knows what the file says
            replace_file(
                self._disk, self._checkpoints.directory / name, offset_checkpoint_encode(offsets)
            )
            written[name] = offsets
        self.is_written = True


class Checkpoints:
    """Reads and writes the checkpoint files of one data directory."""

    __slots__ = ("_disk", "_kept", "directory", "written")

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self.directory = directory
        self._kept: dict[str, Offsets] = {name: {} for name in CHECKPOINT_FILES}
        self.written: dict[str, Offsets] = {}
        """What each file is known to say; changed by the task that runs, one at a time."""

    def read(self, name: str) -> Offsets:
        """Return what one of the files says."""
        return read_offset_checkpoint(self._disk, self.directory / name)

    def keep(self, partitions: Iterable[TopicPartition]) -> None:
        """Have what the files say of partitions that are not loaded written again each time."""
        for name in CHECKPOINT_FILES:
            offsets = self.read(name)
            self._kept[name] = {each: offsets[each] for each in partitions if each in offsets}

    def task(self, logs: Iterable[PartitionLog]) -> CheckpointTask:
        """Take a snapshot of the logs' offsets. At most one task may be under way at a time."""
        recovery_points = dict(self._kept[RECOVERY_POINT_CHECKPOINT])
        log_starts = dict(self._kept[LOG_START_CHECKPOINT])
        high_watermarks = dict(self._kept[HIGH_WATERMARK_CHECKPOINT])
        for log in logs:
            topic_partition = log.topic_partition
            recovery_points[topic_partition] = log.recovery_point
            high_watermarks[topic_partition] = log.high_watermark
            if (
                log.log_start_offset > log.segments.base_offsets[0]
                or not log.trimmer.deleted.is_settled
            ):
                log_starts[topic_partition] = log.log_start_offset
        return CheckpointTask(
            self._disk,
            self,
            {
                RECOVERY_POINT_CHECKPOINT: recovery_points,
                LOG_START_CHECKPOINT: log_starts,
                HIGH_WATERMARK_CHECKPOINT: high_watermarks,
            },
        )
