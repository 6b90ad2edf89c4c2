"""EpochLoader: leader epochs of a log that is being loaded: what its file says, if the log agrees.

Epochs never go down along a log, so each one's first and last batch tell whether the file is right.
For a log of one epoch, that is all that Tidelog has written alone, it is enough to look at the last
batch. A file that is missing, not readable or wrong is written anew from the batches.
"""

from __future__ import annotations

from pathlib import Path

import structlog

from broker.storage.disk import Disk
from broker.storage.header_walk import headers_from
from broker.storage.leader_epochs import LeaderEpochs
from broker.storage.segments import Segments
from protocol.errors import CorruptMessageError
from protocol.identifiers import NO_LEADER_EPOCH
from protocol.limits import INT64_MAX
from protocol.record_batch_header import HEADER_BYTES, MAGIC, MAGIC_POSITION, parse_header
from protocol.stored.leader_epoch_checkpoint import LeaderEpoch

_log = structlog.get_logger(__name__)


def load_epochs(
    disk: Disk,
    directory: Path,
    segments: Segments,
    *,
    log_start_offset: int,
    log_end_offset: int,
) -> LeaderEpochs:
    """Return the epochs of a log whose segments were loaded, or recovered.

    Raises:
        StorageError: a segment cannot be read.
        OSError: the file cannot be written anew.
    """
    epochs = LeaderEpochs(disk, directory)
    entries = [each for each in epochs.entries if each.start_offset <= log_end_offset]
    log = _Epochs(segments, max(log_start_offset, segments.base_offsets[0]), log_end_offset)
    if not log.fit(entries):
        found = log.in_batches()
        _log.warning("leader epochs rebuilt", path=str(epochs.path), was=entries, now=found)
        entries = found
    if not entries:  # new, or of message formats that have no epochs: here they begin
        entries = [LeaderEpoch(0, log_end_offset)]
    if tuple(entries) != epochs.entries:
        epochs.replace(tuple(entries))
    epochs.truncate_from_start(log_start_offset)
    return epochs


class _Epochs:
    """The epochs as the batches of one log have them."""

    def __init__(self, segments: Segments, start: int, end: int) -> None:
        self.segments, self.start, self.end = segments, start, end

    def fit(self, entries: list[LeaderEpoch]) -> bool:
        """Whether every batch that is looked at is of the epoch that the entries say."""
        last = self._last_epoch()
        if not entries:
            return last is None
        first, latest = entries[0], entries[-1]
        if latest.start_offset < self.end and last is not None and last != latest.epoch:
            return False
        if len(entries) == 1 and first.start_offset <= self.start:
            return True
        if first.start_offset > self.start and self._epoch_at(first.start_offset - 1) is not None:
            return False
        ends = [*(entry.start_offset for entry in entries[1:]), self.end]
        return all(self._has_epoch(entry, end) for entry, end in zip(entries, ends, strict=True))

    def _last_epoch(self) -> int | None:
        active = self.segments.active
        assert active is not None
        epoch = active.tail_leader_epoch
        if active.size_bytes and epoch is not None:
            return None if epoch == NO_LEADER_EPOCH else epoch
        return self._epoch_at(self.end - 1)

    def _has_epoch(self, entry: LeaderEpoch, end: int) -> bool:
        """Whether the first and the last batch of an epoch are of it, as far as they are there."""
        start = max(entry.start_offset, self.start)
        if start >= end:
            return True
        found = self._first_batch(start)
        if found is not None and found[0] < end and found[1] not in (None, entry.epoch):
            return False
        return self._epoch_at(end - 1) in (None, entry.epoch)

    def _epoch_at(self, offset: int) -> int | None:
        """Return the epoch of the batch that holds an offset; None: there is, or it has, none."""
        if offset < self.start:
            return None
        found = self._first_batch(offset)
        return None if found is None or found[0] > offset else found[1]

    def _first_batch(self, offset: int) -> tuple[int, int | None] | None:
        """Return base offset and epoch of the first batch that reaches an offset; None: damage."""
        segment = self.segments.floor(offset)
        try:
            while segment is not None:
                found = segment.translate_offset(max(offset, segment.base_offset))
                if found is not None:
                    head = segment.records.read_exactly(found.position, MAGIC_POSITION + 1)
                    if head[MAGIC_POSITION] < MAGIC:
                        return found.offset, None
                    head = segment.records.read_exactly(found.position, HEADER_BYTES)
                    epoch = parse_header(head).leader_epoch
                    return found.offset, None if epoch == NO_LEADER_EPOCH else epoch
                segment = self.segments.higher(segment.base_offset)
        except CorruptMessageError:
            pass  # it says nothing
        return None

    def in_batches(self) -> list[LeaderEpoch]:
        """Return the epochs from the batches; only segments in which they change are walked."""
        entries: list[LeaderEpoch] = []
        segments = list(self.segments)
        for segment in segments:
            following = self.segments.higher(segment.base_offset)
            end = self.end if following is None else following.base_offset
            latest = entries[-1].epoch if entries else None
            if latest is not None and self._epoch_at(end - 1) == latest:
                continue
            for _, header in headers_from(segment, segment.base_offset):
                epoch = header.leader_epoch
                if header.base_offset < self.end and epoch > (
                    entries[-1].epoch if entries else NO_LEADER_EPOCH
                ):
                    entries.append(LeaderEpoch(epoch, max(header.base_offset, self.start)))
        return _distinct(entries)


def _distinct(entries: list[LeaderEpoch]) -> list[LeaderEpoch]:
    """Return the entries without those that another one begins at the same offset as."""
    starts = [*(entry.start_offset for entry in entries[1:]), INT64_MAX]
    return [
        entry for entry, following in zip(entries, starts, strict=True)
        if entry.start_offset < following
    ]  # fmt: skip
