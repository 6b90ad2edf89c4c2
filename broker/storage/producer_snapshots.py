"""ProducerSnapshots: the `.snapshot` files of one log, named by the offset that they stand before.

Written at each roll, at a clean stop and at the end of recovery; not synced, for they are hints:
one that is damaged, missing, of another log or above the log end offset is passed over, and an
older one, or the log itself, tells the same (`producer_loader`). One is kept for each segment's
base offset, and the newest, as Kafka does. Those above an offset that was cut are removed durably
before anything is appended there: they would tell of batches that are no more.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from broker.storage.disk import Disk, write_whole
from broker.storage.producer import BatchMetadata, Producer
from broker.storage.producer_state import ProducerState
from broker.storage.segments import Segments
from protocol.errors import StorageError, StoredFormatError
from protocol.stored import producer_snapshot
from protocol.stored.file_names import SNAPSHOT_SUFFIX, parse_file_name, snapshot_file_name
from protocol.stored.producer_snapshot import (
    NO_INDEX,
    EarlierBatch,
    ProducerEntry,
    ProducerSnapshot,
)

if TYPE_CHECKING:
    from broker.storage.segment import LogSegment

_log = structlog.get_logger(__name__)


class ProducerSnapshots:
    """The snapshots of one log; what a file says is read when it is asked for."""

    __slots__ = ("_disk", "directory", "offsets")

    def __init__(self, disk: Disk, directory: Path, names: Iterable[str] = ()) -> None:
        """Args:
        names: Of the files in the directory.
        """
        self._disk = disk
        self.directory = directory
        self.offsets: list[int] = sorted(
            parsed.base_offset
            for name in names
            if name.endswith(SNAPSHOT_SUFFIX) and (parsed := parse_file_name(name)) is not None
        )
        """Of the files there are, oldest first."""

    def path(self, offset: int) -> Path:
        return self.directory / snapshot_file_name(offset)

    def write(self, offset: int, state: ProducerState, segments: Segments) -> None:
        """Write down the state before `offset`. A disk that refuses is no error: see above.

        Args:
            segments: Of the log; the transaction index of the one that ends there is trusted.
        """
        producers = state.producers.values()
        self._write(
            offset,
            [each.to_entry() for each in producers],
            [batch for each in producers for batch in each.earlier_batches()],
            segments.floor(offset - 1),
        )

    def set_checksum(self, offset: int, ending: LogSegment) -> bool:
        """Have the one at `offset` say what the index of the segment that ends there has.

        Returns:
            Whether there is one that can be read.
        """
        snapshot = self._decoded(offset) if offset in self.offsets else None
        if snapshot is not None:
            self._write(offset, snapshot.entries, snapshot.earlier, ending)
        return snapshot is not None

    def _write(
        self,
        offset: int,
        entries: list[ProducerEntry],
        earlier: list[EarlierBatch],
        ending: LogSegment | None,
    ) -> None:
        path = self.path(offset)
        try:
            index = NO_INDEX if ending is None else ending.transaction_index.checksum()
            data = producer_snapshot.encode(entries, earlier, index)
            file = self._disk.open(path, create=True)
            try:
                file.truncate(0)
                write_whole(file, [data], 0)
            finally:
                file.close()
        except (OSError, StorageError) as error:
            _log.warning("producer snapshot not written", path=str(path), error=str(error))
        if offset not in self.offsets:
            self.offsets.append(offset)
            self.offsets.sort()

    def in_segment(self, base_offset: int, end_offset: int) -> ProducerSnapshot | None:
        """Return the newest one that stands in a segment, or at its end; None: it is not there."""
        for offset in reversed(self.offsets):
            if base_offset < offset <= end_offset:
                return self._decoded(offset)
        return None

    def tell_of_transactions(self) -> bool:
        """Whether one of them does: its segment's transaction index may have entries."""
        try:
            sizes = self._disk.file_sizes(self.directory)
        except OSError as error:
            _log.warning("snapshots not readable", path=str(self.directory), error=str(error))
            return True
        for offset in self.offsets:
            size_bytes = sizes.get(self.path(offset).name, 0)
            if size_bytes > producer_snapshot.HEADER_BYTES:
                snapshot = self._decoded(offset)
                if snapshot is not None and snapshot.has_transactions:
                    return True
        return False

    def _decoded(self, offset: int) -> ProducerSnapshot | None:
        path = self.path(offset)
        try:
            return producer_snapshot.decode_all(self._disk.read_file(path))
        except FileNotFoundError:
            return None
        except (OSError, StoredFormatError) as error:
            _log.warning("producer snapshot ignored", path=str(path), error=str(error))
            return None

    def read(self, offset: int) -> list[Producer] | None:
        """Return the producers that a snapshot tells of; None: it cannot be used."""
        snapshot = self._decoded(offset)
        if snapshot is None:
            return None
        entries, batches, _ = snapshot
        earlier: dict[int, list[BatchMetadata]] = {}
        for producer_id, *fields in batches:
            earlier.setdefault(producer_id, []).append(BatchMetadata(*fields))
        return [Producer.from_entry(entry, earlier.get(entry.producer_id, [])) for entry in entries]

    def remove_above(self, offset: int) -> bool:
        """Remove those above `offset`, durably; return whether there were any.

        Raises:
            OSError: one of them is still there, or may come back: nothing may be appended.
        """
        gone = [each for each in self.offsets if each > offset]
        for each in reversed(gone):
            self._unlink(each)
        if gone:
            self._disk.sync_directory(self.directory)
        return bool(gone)

    def remove_below(self, offset: int) -> None:
        """Remove those below the first segment. What cannot be removed stays, and is not used."""
        self._remove([each for each in self.offsets if each < offset])

    def remove_strays(self, base_offsets: Iterable[int]) -> None:
        """Remove those that stand at no segment's base offset, but for the newest of all.

        What cannot be removed stays: it is one too many, and not wrong.
        """
        kept = {*base_offsets, *self.offsets[-1:]}
        self._remove([each for each in self.offsets if each not in kept])

    def _remove(self, offsets: Iterable[int]) -> None:
        for each in offsets:
            try:
                self._unlink(each)
            except OSError as error:
                _log.warning(
                    "an old producer snapshot stays", path=str(self.path(each)), error=str(error)
                )

    def _unlink(self, offset: int) -> None:
        try:
            self._disk.unlink(self.path(offset))
        except FileNotFoundError:
            pass
        self.offsets.remove(offset)
