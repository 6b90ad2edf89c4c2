"""Clean stop: makes everything durable that the next start would otherwise have to check.

The flusher does the waiting, for many logs at once: first what producers wait for, then what a stop
adds, the ends of indexes and the snapshots of producers. After that closing waits for little.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import structlog

from protocol.errors import StorageError

if TYPE_CHECKING:
    from broker.flusher import Flusher
    from broker.storage.partition_log import PartitionLog

_log = structlog.get_logger("tidelog.stop")

LOGS_SEALED_PER_TURN: Final = 2
"""Of one that was written to three files are opened and one is made: a millisecond, at times."""
PROGRESS_EACH_S: Final = 5.0


async def flush_and_seal(flusher: Flusher, logs: Sequence[PartitionLog]) -> None:
    """Return when all that the logs hold is durable, and they may be closed; none gets appends.

    Raises:
        OSError: a sync failed, now or before: final.
    """
    await _with_progress(flusher, logs, "messages are being flushed")
    for number, log in enumerate(logs, 1):
        with contextlib.suppress(StorageError):  # closing it says so; the others go on
            log.prepare_close()
        if not number % LOGS_SEALED_PER_TURN:
            await asyncio.sleep(0)
    await _with_progress(flusher, logs, "indexes are being flushed")


async def _with_progress(flusher: Flusher, logs: Sequence[PartitionLog], what: str) -> None:
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    flushing = loop.create_task(flusher.flush_all(logs))
    while not flushing.done():
        await asyncio.wait({flushing}, timeout=PROGRESS_EACH_S)
        if not flushing.done():
            seconds = round(loop.time() - started_s)
            _log.info(what, logs=len(logs), left=flusher.logs_left, seconds=seconds)
    flushing.result()
