"""CleanerCheckpoint: `cleaner-offset-checkpoint`, up to where each log is clean (as in Kafka).

A hint: where it says too little, something is cleaned again; where it says too much, as after a
cut that a crash followed, records below it lose to later ones of their key only. One that is not
readable counts as empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from broker.storage.checkpoint import Offsets, read_offset_checkpoint
from broker.storage.disk import Disk, replace_file
from protocol.stored.checkpoint import offset_checkpoint_encode
from protocol.stored.file_names import CLEANER_CHECKPOINT

if TYPE_CHECKING:
    from broker.storage.partition_log import PartitionLog


class CleanerCheckpoint:
    """Of one data directory."""

    __slots__ = ("_disk", "_offsets", "path")

    def __init__(self, disk: Disk, directory: Path) -> None:
        """Read the file, if it is there."""
        self._disk = disk
        self.path = directory / CLEANER_CHECKPOINT
        self._offsets = read_offset_checkpoint(disk, self.path)

    def tell(self, log: PartitionLog) -> None:
        """Tell a log what the file says of it, once."""
        offset = self._offsets.pop(log.topic_partition, None)
        if log.cleaning.cleaned_offset is None and offset is not None:
            log.cleaning.cleaned_offset = offset

    def offsets(self, logs: Iterable[PartitionLog]) -> Offsets:
        """Return what the file should say now."""
        known = {log.topic_partition: log.cleaning.cleaned_offset for log in logs}
        cleaned = {each: offset for each, offset in known.items() if offset is not None}
        untold = {each: offset for each, offset in self._offsets.items() if each in known}
        return untold | cleaned

    def write(self, offsets: Offsets) -> None:
        """Write it, durably; may be called in a thread. OSError: it has its old contents."""
        replace_file(self._disk, self.path, offset_checkpoint_encode(offsets))
