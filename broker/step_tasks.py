"""Step tasks: runs `Steps` on the event loop, with their jobs in a thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import TypeVar

from broker.steps import Steps

T = TypeVar("T")


async def run_in_turns(steps: Steps[T], loop: asyncio.AbstractEventLoop, executor: Executor) -> T:
    """Run `steps` to their end, one a loop turn, and what they yield in `executor`.

    Raises: what the steps raise; an error of a job goes through them.
    """
    failure: Exception | None = None
    while True:
        try:
            job = next(steps) if failure is None else steps.throw(failure)
        except StopIteration as stop:
            result: T = stop.value
            return result
        failure = None
        if job is None:
            await asyncio.sleep(0)
            continue
        try:
            await loop.run_in_executor(executor, job)
        except Exception as error:
            failure = error
