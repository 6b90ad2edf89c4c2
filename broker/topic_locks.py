"""TopicLocks: lets the changes of one topic follow one another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker.topic_names import unified


class TopicLocks:
    """A lock for each topic that is being changed, and for no other."""

    __slots__ = ("_locks",)

    def __init__(self) -> None:
        self._locks: dict[str, _CountedLock] = {}

    @asynccontextmanager
    async def changing(self, name: str) -> AsyncIterator[None]:
        """Hold the topic's lock; whoever came before goes first.

        Names that would be mistaken for each other have one lock: else both could be new.
        """
        key = unified(name)
        lock = self._locks.setdefault(key, _CountedLock())
        lock.users += 1
        try:
            async with lock.lock:
                yield
        finally:
            lock.users -= 1
            if not lock.users:
                del self._locks[key]

    def __len__(self) -> int:
        return len(self._locks)


class _CountedLock:
    """A lock, and how many hold it or wait for it."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
