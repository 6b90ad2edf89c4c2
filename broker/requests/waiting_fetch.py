"""WaitingFetch: a fetch that looks, waits for more if there is too little, and looks again.

A look sees, for each partition, which file slices answer it, or what error. That copies nothing and
reads no records. If it is enough it is sent; else the fetch waits, and looks again each time a high
watermark of its partitions moves, until its time is over. An error, the deletion of a topic and the
draining of the broker end the waiting at once.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from broker.network.answers import Answer, Parts, PendingResponse
from broker.requests.fetch_sending import Found, Send
from broker.steps import Job, Steps
from broker.storage.log_reader import ReadLimit
from broker.storage.segment_check import BytesUncheckedError
from protocol.errors import InvalidRequestError, TidelogError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from broker.metrics import RequestMetrics
    from broker.network.connection import Connection
    from broker.partition import Partition
    from broker.partition_manager import PartitionManager
    from broker.requests.step_runner import StepRunner
    from broker.requests.warm_slices import WarmSlices


class Entry(NamedTuple):
    """One partition that is asked for."""

    topic: bytes
    partition: int
    offset: int
    max_bytes: int


class FetchSource(Protocol):
    """What fetches share: a handler."""

    loop: asyncio.AbstractEventLoop
    manager: PartitionManager
    runner: StepRunner
    monotonic: Callable[[], float]
    warm_slices: WarmSlices
    maps_slices: bool
    max_wait_ms_max: int


class WaitingFetch(abc.ABC):
    """One fetch, from its first look to its answer; a `FetchWaiter` in between."""

    __slots__ = (
        "_connection", "_entries", "_handler", "_limit", "_max_bytes", "_max_wait_ms", "_min_bytes",
        "_pending", "_started_s", "_task", "_timer", "_waits_on",
    )  # fmt: skip

    def __init__(
        self,
        handler: FetchSource,
        connection: Connection,
        *,
        max_bytes: int,
        min_bytes: int,
        max_wait_ms: int,
        limit: ReadLimit = ReadLimit.HIGH_WATERMARK,
    ) -> None:
        self._handler, self._connection, self._limit = handler, connection, limit
        self._max_bytes, self._min_bytes = max_bytes, min_bytes
        self._max_wait_ms = min(max_wait_ms, handler.max_wait_ms_max)
        self._entries: list[Entry] = []
        self._started_s = handler.monotonic()
        self._pending: PendingResponse | None = None
        self._timer: Any = None
        self._task: Any = None
        self._waits_on: list[Partition] = []

    @property
    @abc.abstractmethod
    def _metrics(self) -> RequestMetrics: ...

    @abc.abstractmethod
    def _steps(self, looked: Sequence[Found]) -> Steps[list[Send]]:
        """Return what is sent for each entry."""

    @abc.abstractmethod
    def _sent(self, sends: Sequence[Send]) -> Answer:
        """Make the answer of what is ready; or wait on, with `_send_or_wait`."""

    # --- looking and waiting --------------------------------------------------------------------

    def _send_or_wait(self) -> Answer:
        found = self._look()
        if self._max_wait_ms > 0 and not self._is_enough(found):
            return self._wait(found)
        return self._send(found)

    def _look(self) -> list[Found]:
        """See what there is for each entry; only the first with data may exceed its bytes (KIP-74).

        A later one whose first batch does not fit gets nothing: clients take a piece of a batch
        alone for an error. What has to be checked first counts with the bytes it is going to have.
        """
        partition_of = self._handler.manager.partition_of
        bytes_left = self._max_bytes
        min_one = True
        looked: list[Found] = []
        for topic, number, offset, entry_max_bytes in self._entries:
            max_bytes = min(entry_max_bytes, bytes_left)
            try:
                if max_bytes < 0:
                    raise InvalidRequestError(f"max_bytes is {max_bytes}")
                partition = partition_of(topic, number)
                data = partition.log.read(
                    offset, max_bytes, limit=self._limit, min_one=min_one, at_once=False
                )
                if not min_one and data.size_bytes >= max_bytes and not data.has_whole_batch():
                    data = data._replace(slices=())  # it is there, though: nobody need wait for it
            except BytesUncheckedError as unchecked:
                bytes_left, min_one = max(0, bytes_left - unchecked.size_bytes), False
                looked.append(Found(0, offset, entry_max_bytes, partition, None, unchecked))
                continue
            except TidelogError as error:
                looked.append(Found(error.code, offset, entry_max_bytes))
                continue
            if data.slices:
                bytes_left = max(0, bytes_left - data.size_bytes)
                min_one = False
            looked.append(Found(0, offset, entry_max_bytes, partition, data))
        return looked

    def _is_enough(self, looked: Sequence[Found]) -> bool:
        if self._handler.manager.is_draining or not looked:
            return True
        size_bytes = 0
        for error, _, _, _, data, unchecked in looked:
            if unchecked is not None:
                size_bytes += unchecked.size_bytes
            elif error or data is None:
                return True
            else:
                size_bytes += data.size_bytes
        return size_bytes >= self._min_bytes

    def _wait(self, looked: Sequence[Found]) -> PendingResponse:
        """Be woken when a high watermark moves, and when the time is over."""
        pending = self._pending
        if pending is None:
            pending = self._pending = PendingResponse(self._abandon)
        if self._timer is None:
            wait_s = self._started_s + self._max_wait_ms / 1000 - self._handler.monotonic()
            self._timer = self._handler.loop.call_later(max(0.0, wait_s), self._time_is_over)
        for each in looked:
            partition = each.partition
            if partition is not None:
                partition.add_fetch_waiter(self)
                self._waits_on.append(partition)
        return pending

    def wake(self) -> None:
        """Look again; answer, when the turn is here, if it is enough."""
        found = self._look()
        if self._is_enough(found):
            self._stop_waiting()
            self._answer_in_turn(found)

    def _time_is_over(self) -> None:
        self._timer = None
        self._max_wait_ms = 0
        if self._task is None:  # else an answer is being made
            self._stop_waiting()
            self._answer_in_turn()

    def _answer_in_turn(self, found: Sequence[Found] | None = None) -> None:
        """Answer with what was found just now, if the turn is here; else look when it is."""
        assert self._pending is not None, "only what waits has to be answered later"
        fresh = [] if found is None else [found]
        self._pending.when_first(
            lambda: self._respond(self._send(fresh.pop() if fresh else self._look()))
        )
        fresh.clear()

    def _stop_waiting(self) -> None:
        waits_on, self._waits_on = self._waits_on, []
        for partition in waits_on:
            partition.remove_fetch_waiter(self)

    def _abandon(self) -> None:
        """The client is gone."""
        self._stop_waiting()
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    # --- answering ------------------------------------------------------------------------------

    def _send(self, looked: Sequence[Found]) -> Answer:
        """Answer with what was found: at once, where that takes no longer than a step."""
        steps = self._steps(looked)
        try:
            job = next(steps)
        except StopIteration as stop:
            return self._sent(stop.value)
        pending = self._pending
        if pending is None:
            pending = self._pending = PendingResponse(self._abandon, pauses_reading=True)
        self._task = self._handler.runner.spawn(self._send_later(steps, job), self._connection)
        return pending

    async def _send_later(self, steps: Steps[list[Send]], job: Job | None) -> None:
        sends = await self._handler.runner.finish(steps, job)
        self._task = None
        self._respond(self._sent(sends))

    def _respond(self, answer: Answer) -> None:
        """Give the answer to the response that waits for it, unless it goes on waiting."""
        pending = self._pending
        assert pending is not None, "only what waits is answered here"
        if answer is pending:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._metrics.latency.observe(self._handler.monotonic() - self._started_s)
        parts: Parts = answer  # type: ignore[assignment]  # there is one pending response only
        pending.complete(parts)
