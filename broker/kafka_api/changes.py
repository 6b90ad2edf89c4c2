"""Changes: what a request wants done, one after another, in the time that it gives.

What is not done by then answers REQUEST_TIMED_OUT and is done all the same, as in Kafka; nothing
that was begun is undone. A time of 0 begins the work and waits for none of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias, TypeVar

from broker.kafka_api.call import Call

T = TypeVar("T")

ENTRIES_PER_TURN: Final = 10
"""To check what is wanted of a topic, and to describe it, takes a tenth of a millisecond."""

Change: TypeAlias = Callable[[], Awaitable[None]]
"""Raises nothing: it notes in its own part of the answer what became of it."""


async def in_turns(entries: Iterable[T]) -> AsyncIterator[T]:
    """Yield the entries of a request, and let other requests in between."""
    for number, entry in enumerate(entries, 1):
        yield entry
        if not number % ENTRIES_PER_TURN:
            await asyncio.sleep(0)


async def carry_out(call: Call, changes: Sequence[Change], timeout_ms: int) -> int:
    """Make changes in their order; return how many were done after `timeout_ms`."""
    done = 0

    async def run() -> None:
        nonlocal done
        for change in changes:
            await change()
            done += 1

    task = call.server.runner.spawn(run(), call.connection)
    if timeout_ms > 0:
        await asyncio.wait([task], timeout=timeout_ms / 1000)
    return done
