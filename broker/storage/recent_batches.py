"""RecentBatches: of a run of batches, those that a producers' state would remember.

Of a producer without a transaction that is its last ones: so a walk over a million batches is not a
million changes of state, and recovery, which walks them anyhow, is not followed by another walk.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import Final

from broker.storage.producer import BATCHES_KEPT
from protocol.record_batch_header import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader

PRODUCERS_MAX: Final = 10_000
"""Whose batches are kept at once: some megabytes."""


class RecentBatches:
    """Takes batches in the order of the log."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, deque[tuple[int, BatchHeader]]] = {}

    def add(self, position: int, header: BatchHeader) -> bool:
        """Take a batch of a producer with an id; False: it is not one for this, or there are too
        many producers. Then what was taken so far has to be made use of first."""
        if header.attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG):
            return False
        known = self._by_producer.get(header.producer_id)
        if known is None:
            if len(self._by_producer) >= PRODUCERS_MAX:
                return False
            known = self._by_producer[header.producer_id] = deque(maxlen=BATCHES_KEPT)
        known.append((position, header))
        return True

    def take(self) -> list[tuple[int, BatchHeader]]:
        """Return position and header of what is kept, in the order of the log, and forget it."""
        if not self._by_producer:
            return []
        batches = sorted(chain.from_iterable(self._by_producer.values()))
        self._by_producer.clear()
        return batches
