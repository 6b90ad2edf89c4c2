"""LeaderEpochs: `leader-epoch-checkpoint`, from which offset on each leader epoch wrote.

As Kafka keeps it in each partition's directory. One broker writes epoch 0 from offset 0 on; a
directory that Kafka made has the epochs of its leaders, and is gone on with in the latest one, for
epochs never go down along a log. Fencing and truncation by epoch are a replica's matter.
"""

from __future__ import annotations

from pathlib import Path

import structlog

from broker.storage.disk import Disk, replace_file
from protocol.errors import StoredFormatError
from protocol.stored.file_names import LEADER_EPOCH_CHECKPOINT
from protocol.stored.leader_epoch_checkpoint import LeaderEpoch, decode, encode

_log = structlog.get_logger(__name__)


class LeaderEpochs:
    """The epochs of one log, oldest first."""

    __slots__ = ("_disk", "entries", "path")

    def __init__(self, disk: Disk, directory: Path) -> None:
        """Read the directory's file; one that is missing or not readable says nothing."""
        self._disk = disk
        self.path = directory / LEADER_EPOCH_CHECKPOINT
        self.entries: tuple[LeaderEpoch, ...] = ()
        try:
            self.entries = tuple(decode(disk.read_file(self.path)))
        except FileNotFoundError:
            pass
        except (OSError, StoredFormatError) as error:
            _log.warning("leader epochs are not readable", path=str(self.path), error=str(error))

    @property
    def latest(self) -> int:
        """The epoch that new batches are written in."""
        return self.entries[-1].epoch if self.entries else 0

    def first(self) -> bytes:
        """Begin a new log: epoch 0 from offset 0 on; return what its file is to say.

        The file is synced with the log's first batch. A crash before may leave it empty or cut: it
        then says nothing, and epoch 0 goes on.
        """
        self.entries = (LeaderEpoch(0, 0),)
        return encode(self.entries)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` writes from `start_offset` on, if it is above all others.

        Durable on return; returns whether the file was changed.
        """
        if self.entries and epoch <= self.entries[-1].epoch:
            return False
        kept = [entry for entry in self.entries if entry.start_offset < start_offset]
        self._replace((*kept, LeaderEpoch(epoch, start_offset)))
        return True

    def truncate_to(self, offset: int) -> None:
        """Drop the epochs that begin above `offset`: none of their records is left."""
        kept = tuple(entry for entry in self.entries if entry.start_offset <= offset)
        if len(kept) != len(self.entries):
            self._replace(kept)

    def _replace(self, entries: tuple[LeaderEpoch, ...]) -> None:
        replace_file(self._disk, self.path, encode(entries))
        self.entries = entries
