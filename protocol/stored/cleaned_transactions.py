"""CleanedTransactions: which batches and markers of transactions a cleaning may drop.

As Kafka's CleanedTransactionMetadata: the batches of an aborted transaction go at once; a marker
may go when no batch of its transaction is left before it, and then not before its delete horizon
(KIP-534). Fed with every transactional batch and marker of the cleaned part, in order.

Two things are held tighter than in Kafka. A transaction counts as aborted up to its marker only, so
that an entry that has lost its marker can never take a later, committed transaction along. And an
abort marker stays while any batch of its producer is left before it, listed as aborted or not:
without it that batch would look like an open transaction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from protocol.stored.transaction_index import AbortedTransaction

ABORT_MARKER: Final = 0
COMMIT_MARKER: Final = 1


class CleanedTransactions:
    """The transactions that are open at the place where the cleaning is."""

    __slots__ = ("_aborted", "_aborting", "_committing", "kept_aborted")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Args:
        aborted: Every aborted transaction that has a record in the cleaned part.
        """
        in_order = sorted(set(aborted), key=lambda each: (each.first_offset, each.last_offset))
        self._aborted = deque(in_order)
        self._aborting: dict[int, tuple[AbortedTransaction, bool]] = {}  # and: a batch was met
        self._committing: set[int] = set()
        self.kept_aborted: list[AbortedTransaction] = []
        """Those whose marker was just kept, for the new segment's index; taken by the caller."""

    def may_drop_batch(self, producer_id: int, last_offset: int) -> bool:
        """Whether a batch of a transaction is of an aborted one."""
        self._begin_up_to(last_offset)
        aborting = self._aborting.get(producer_id)
        if aborting is not None:
            transaction, _ = aborting
            if last_offset <= transaction.last_offset:
                self._aborting[producer_id] = (transaction, True)
                return True
            del self._aborting[producer_id]
        self._committing.add(producer_id)
        return False

    def may_drop_marker(self, producer_id: int, last_offset: int, marker: int) -> bool:
        """Whether nothing of the transaction that a marker ends is left."""
        self._begin_up_to(last_offset)
        was_met = producer_id in self._committing
        if marker not in (ABORT_MARKER, COMMIT_MARKER):
            return False
        self._committing.discard(producer_id)
        aborting = self._aborting.pop(producer_id, None)
        if marker == ABORT_MARKER and aborting is not None and aborting[1]:
            self.kept_aborted.append(aborting[0])
            return False
        return not was_met

    def _begin_up_to(self, offset: int) -> None:
        """Note the aborted transactions that begin at or below `offset`."""
        while self._aborted and self._aborted[0].first_offset <= offset:
            transaction = self._aborted.popleft()
            if transaction.last_offset < offset:
                continue  # nothing of it is left
            before = self._aborting.get(transaction.producer_id)
            if before is None or before[0].last_offset < offset:
                self._aborting[transaction.producer_id] = (transaction, False)
