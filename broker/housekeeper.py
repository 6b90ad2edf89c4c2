"""Housekeeper: carries out the housekeeping of the data directories, beside requests.

What decides is `storage.housekeeping`, on the event loop and in turns of about a millisecond; what
waits for a disk is done in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Executor, Future
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from broker.storage.housekeeping import Housekeeping, HousekeepingTask
from protocol.errors import StorageError

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.storage.log_directory import LogDirectory
    from broker.storage.partition_log import PartitionLog

_log = structlog.get_logger("tidelog.housekeeping")

INTERVAL_S: Final = 0.1
"""Between two looks at what is due."""
TURN_PAUSE_S: Final = 0.005
"""Between two turns of work that takes several: requests have most of the loop."""


class Housekeeper:
    """Of one broker; on the event loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        executor: Executor,
        *,
        on_failure: Callable[[OSError], object],
    ) -> None:
        """Args:
        on_failure: Is told of a sync that failed: final.
        """
        self._loop, self._clock, self._executor = loop, clock, executor
        self._on_failure = on_failure
        self._directories: dict[LogDirectory, Housekeeping] = {}
        self._failures: dict[LogDirectory, str] = {}  # the last one of each, as text
        self._under_way: set[Future[None]] = set()
        self._timer: asyncio.Handle | None = None

    def start(self, directories: Iterable[LogDirectory]) -> None:
        """Keep these directories in order, from now on."""
        self._directories = {each: Housekeeping(each) for each in directories}
        self._keep_house()

    def halt(self) -> None:
        """Begin nothing more; whoever waits for a checkpoint is told that there will be none."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for housekeeping in self._directories.values():
            housekeeping.give_up()

    async def stop(self) -> None:
        """Halt, and return when nothing is under way. What is left to save is saved at close."""
        self.halt()
        for future in self._under_way:
            await asyncio.wrap_future(future)
        self._directories = {}

    async def save_log_starts(self, logs: Collection[PartitionLog]) -> None:
        """Return when the log starts of these logs, as they are now, will outlive a crash.

        Raises:
            StorageError: they could not be saved; they may hold all the same.
        """
        waits: list[asyncio.Future[bool]] = []
        for directory, housekeeping in self._directories.items():
            if any(directory.logs.get(log.topic_partition) is log for log in logs):
                saved: asyncio.Future[bool] = self._loop.create_future()
                housekeeping.checkpoint_soon(partial(_resolve, saved))
                waits.append(saved)
        for log in logs:
            self.check_soon(log)
        self._look_now()
        if not waits or not all(await asyncio.gather(*waits)):
            raise StorageError("the log start could not be saved")

    def check_soon(self, log: PartitionLog) -> None:
        """Have retention look at a log before its next round."""
        for directory, housekeeping in self._directories.items():
            if directory.logs.get(log.topic_partition) is log:
                housekeeping.check_soon(log)

    def _look_now(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_soon(self._keep_house)

    def _keep_house(self) -> None:
        """Do what is due in the data directories, and come again."""
        now_s = self._clock.monotonic()
        has_more = False
        for directory, housekeeping in self._directories.items():
            if directory.guard.is_out_of_reach:  # what is in its place is not ours to change
                housekeeping.give_up()
                continue
            try:
                has_more |= housekeeping.turn(now_s)
                task = housekeeping.due(now_s)
            except Exception as error:  # a bug; the other directories are kept all the same
                self._report(directory, error)
                continue
            if task is not None:
                future = self._executor.submit(self._run, housekeeping, task)
                self._under_way = {each for each in (*self._under_way, future) if not each.done()}
        pause_s = TURN_PAUSE_S if has_more else INTERVAL_S
        self._timer = self._loop.call_later(pause_s, self._keep_house)

    def _report(self, directory: LogDirectory, error: Exception) -> None:
        """Log a failure, once for each that is not like the one before: it comes ten times a s."""
        text = f"{type(error).__name__}: {error}"
        if self._failures.get(directory) != text:
            self._failures[directory] = text
            _log.error("housekeeping failed", path=str(directory.path), exc_info=error)

    def _run(self, housekeeping: Housekeeping, task: HousekeepingTask) -> None:
        """In a thread."""
        failure: OSError | None = None
        try:
            task.run()
        except OSError as error:
            failure = error
        except Exception:
            _log.exception("housekeeping failed")
        self._loop.call_soon_threadsafe(self._ran, housekeeping, task, failure)

    def _ran(
        self, housekeeping: Housekeeping, task: HousekeepingTask, failure: OSError | None
    ) -> None:
        housekeeping.done()
        if failure is not None:
            self._on_failure(failure)
        elif housekeeping.has_waiters or task.unlink is not None:  # there may be more of them
            self._look_now()


def _resolve(future: asyncio.Future[bool], value: bool) -> None:
    if not future.done():
        future.set_result(value)
