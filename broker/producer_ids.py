"""ProducerIds: ids for idempotent producers, each given once, whatever restarts there are.

They are taken from the registry by the block, durably before the first one of it is given out; what
is left of a block when the broker ends is never given. The first block of all begins above the ids
that the logs name: a directory that Kafka wrote has some.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.topic_store import TopicStore

BLOCK: Final = 1_000


class ProducerIds:
    """The ids of one broker."""

    def __init__(self, store: TopicStore, largest_in_use: Callable[[], int]) -> None:
        """Args:
        largest_in_use: Of all logs' producers, -1 if there are none. Called once: there may be
            hundreds of thousands, and what clients claim later does not count.
        """
        self._store, self._largest_in_use = store, largest_in_use
        self._first_min: int | None = None
        self._next = self._end = 0
        self._taking = asyncio.Lock()

    async def take(self) -> int:
        """Return an id that no producer has, or had.

        Raises:
            StorageError: no block could be taken.
        """
        async with self._taking:
            if self._next == self._end:
                if self._first_min is None:
                    self._first_min = self._largest_in_use() + 1
                self._next = await self._store.take_producer_ids(BLOCK, self._first_min)
                self._end = self._next + BLOCK
            producer_id = self._next
            self._next += 1
            return producer_id
