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
from protocol.identifiers import NO_LEADER_EPOCH, UNKNOWN_OFFSET
from protocol.stored.file_names import LEADER_EPOCH_CHECKPOINT
from protocol.stored.leader_epoch_checkpoint import LeaderEpoch, decode, encode

_log = structlog.get_logger(__name__)


class LeaderEpochs:
    """The epochs of one log, oldest first."""

    __slots__ = ("_disk", "_is_saved", "entries", "path")

    def __init__(self, disk: Disk, directory: Path) -> None:
        """Read the directory's file; one that is missing or not readable says nothing."""
        self._disk = disk
        self.path = directory / LEADER_EPOCH_CHECKPOINT
        self.entries: tuple[LeaderEpoch, ...] = ()
        self._is_saved = True
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

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` writes from `start_offset` on, if it is above all others.

        Durable on return; returns whether the file was changed.
        """
        if self.entries and epoch <= self.entries[-1].epoch:
            return False
        kept = [entry for entry in self.entries if entry.start_offset < start_offset]
        self.replace((*kept, LeaderEpoch(epoch, start_offset)))
        return True

    def truncate_from_end(self, end_offset: int, leader_epoch: int) -> None:
        """Drop the epochs that begin at or above `end_offset`: none of their records is left.

        The epoch that the log is written in, `leader_epoch`, begins there if it had begun later.
        Durable on return.
        """
        kept = tuple(entry for entry in self.entries if entry.start_offset < end_offset)
        if self.entries and (not kept or kept[-1].epoch < leader_epoch):
            kept = (*kept, LeaderEpoch(leader_epoch, end_offset))
        if kept != self.entries:
            self.replace(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the epochs that ended at or below `start_offset`; the one there begins there.

        Written with the next change, or by `save`: what the file says is still true of what is
        left.
        """
        entries = self.entries
        below = [entry for entry in entries if entry.start_offset <= start_offset]
        if not below or below == [(below[-1].epoch, start_offset)]:
            return
        first = LeaderEpoch(below[-1].epoch, start_offset)
        self.entries = (first, *entries[len(below) :])
        self._is_saved = False

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest epoch up to `epoch` that wrote, and the offset after its last record.

        As OffsetForLeaderEpoch answers (KIP-101, KIP-279): an epoch before all that are known ends
        where the first one known begins; (-1, -1) for one that is above them all.
        """
        if epoch == NO_LEADER_EPOCH:
            return NO_LEADER_EPOCH, UNKNOWN_OFFSET
        if self.entries and epoch == self.entries[-1].epoch:
            return epoch, log_end_offset
        higher = next((entry for entry in self.entries if entry.epoch > epoch), None)
        if higher is None:
            return NO_LEADER_EPOCH, UNKNOWN_OFFSET
        floor = [entry.epoch for entry in self.entries if entry.epoch <= epoch]
        return floor[-1] if floor else epoch, higher.start_offset

    def save(self) -> None:
        """Have the file say what is known, if it does not. OSError: it says what it did."""
        if not self._is_saved:
            self.replace(self.entries)

    def replace(self, entries: tuple[LeaderEpoch, ...]) -> None:
        """Have the file say just this; durable on return. OSError: it says what it did."""
        replace_file(self._disk, self.path, encode(entries))
        self.entries = entries
        self._is_saved = True
