"""ProducerUpkeep: what else has to be done for producers and epochs when a log changes its ends.

Called by the parts of a PartitionLog that roll, cut and delete; and the checks of a transaction
index before it is believed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from broker.storage.disk import storage_errors
from broker.storage.producer_loader import rebuild_transaction_index, reload_producers
from protocol.errors import StorageError, StoredFormatError

if TYPE_CHECKING:
    from broker.storage.log_context import LogContext
    from broker.storage.partition_log import PartitionLog
    from broker.storage.segment import LogSegment
    from broker.storage.transaction_index import TransactionIndex

_log = structlog.get_logger(__name__)


class ProducerUpkeep:
    """Of one log."""

    __slots__ = ("_context", "_has_looked", "_log")

    def __init__(self, log: PartitionLog, context: LogContext) -> None:
        self._log, self._context = log, context
        self._has_looked = False

    # --- the end of the log -------------------------------------------------------------------

    def cut_begins(self, end_offset: int) -> None:
        """Everything at or above `end_offset` is going to be cut: snapshots above it go, durably.

        Raises:
            OSError: one of them may still be there: nothing may be cut.
        """
        self._log.snapshots.remove_above(end_offset)

    def cut(self, end_offset: int) -> None:
        """It was cut: set epochs, transaction indexes and producers back to what is left.

        The list of segments is the new one already.

        Raises:
            StorageError: a file cannot be read or changed.
            OSError: a sync failed: final.
        """
        log = self._log
        log.epochs.truncate_from_end(end_offset, log.leader_epoch)
        last = log.segments.active
        assert last is not None
        last.transaction_index.truncate_to(end_offset)
        reload_producers(
            self._context, log.producers, log.snapshots, log.segments, log.config,
            log_end_offset=end_offset, high_watermark=min(log.high_watermark, end_offset),
        )  # fmt: skip

    def write_snapshot(self) -> None:
        """Write the snapshot at LEO: the log was rolled there, or is being closed."""
        log = self._log
        ending = log.segments.floor(log.log_end_offset - 1)
        if log.producers.has_transactions and ending is not None:
            try:
                self.trusted_index(ending)  # its checksum must not bless what is wrong
            except StorageError as error:
                _log.warning("producer snapshot not written", error=str(error))
                return
        log.snapshots.write(log.log_end_offset, log.producers, log.segments)

    # --- the start ----------------------------------------------------------------------------

    def log_start_moved(self) -> None:
        """The log start was moved forward: segments below it may have left the list."""
        log = self._log
        log.epochs.truncate_from_start(log.log_start_offset)
        log.snapshots.remove_below(log.segments.base_offsets[0])
        log.watermark.update_last_stable()

    # --- transaction indexes ------------------------------------------------------------------

    def has_transactions(self) -> bool:
        """Whether there may be aborted transactions in the log: else nobody need look for them.

        A producer with a marker tells, or an index file; where both are gone, the snapshots do.
        """
        log = self._log
        if not (log.producers.has_transactions or self._has_looked):
            self._has_looked = True
            log.producers.has_transactions = log.snapshots.tell_of_transactions()
        return log.producers.has_transactions

    def trust_indexes(self) -> None:
        """Have every segment's index checked: the cleaner drops records on their word.

        Raises:
            StorageError: a file cannot be read, or not be written.
        """
        if self.has_transactions():
            for segment in self._log.segments:
                self.trusted_index(segment)

    def segments_replaced(self, new: LogSegment) -> None:
        """The cleaner has put `new` in the place of others: its index is another, too."""
        log = self._log
        new.transaction_index.is_trusted = True
        following = log.segments.higher(new.base_offset)
        if following is not None:
            log.snapshots.set_checksum(following.base_offset, new)
        log.snapshots.remove_strays(log.segments.base_offsets)

    def trusted_index(self, segment: LogSegment) -> TransactionIndex:
        """Return a segment's transaction index, checked; one that is wrong is built anew.

        Raises:
            StorageError: a file cannot be read, or not be written.
        """
        index = segment.transaction_index
        if index.is_trusted:
            return index
        log = self._log
        following = log.segments.higher(segment.base_offset)
        end_offset = log.log_end_offset if following is None else following.base_offset
        try:
            if segment.size_bytes:
                index.check(segment.base_offset, end_offset)
                self._check_index(segment, end_offset)
            index.is_trusted = True
        except StoredFormatError as error:
            _log.warning("transaction index wrong", path=str(index.path), error=str(error))
            with storage_errors("build", index.path):
                rebuild_transaction_index(
                    self._context, log.snapshots, log.segments, log.config, segment, end_offset
                )
        return index

    def _check_index(self, segment: LogSegment, end_offset: int) -> None:
        """Hold an index against its checksum.

        Kafka's snapshots have none, and nothing else tells a lost or a shortened file from one that
        is whole: such an index is built from the batches, once, and has a checksum then.

        Raises:
            StoredFormatError: it is wrong, or nothing says that it is right.
        """
        index = segment.transaction_index
        snapshot = self._log.snapshots.in_segment(segment.base_offset, end_offset)
        if snapshot is None:
            raise StoredFormatError("transaction index: there is no snapshot with its checksum")
        known = snapshot.index_checksum
        if known is not None:
            is_there = index.size_bytes >= known.size_bytes
            if not is_there or index.checksum(known.size_bytes) != known:
                raise StoredFormatError("transaction index: not what the snapshot says")
            return
        if index.size_bytes or snapshot.has_transactions:
            raise StoredFormatError("transaction index: nothing says that it is whole")
