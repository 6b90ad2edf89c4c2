"""Changes: what a request wants done, one after another, in the time that it gives.

What is not done by then answers REQUEST_TIMED_OUT and is done all the same, as in Kafka; nothing
that was begun is undone. A time of 0 begins the work and waits for none of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from broker.kafka_api.call import Call

Change: TypeAlias = Callable[[], Awaitable[None]]
"""Raises nothing: it notes in its own part of the answer what became of it."""


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
