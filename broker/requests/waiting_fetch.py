"""WaitingFetch: a fetch that looks, waits for more if there is too little, and looks again.

A look sees, for each partition, which file slices answer it, or what error. That copies nothing and
reads no records. If it is enough it is sent; else the fetch waits, and looks again each time a high
watermark of its partitions moves, until its time is over. An error, the deletion of a topic and the
draining of the broker end the waiting at once.

A fetch of many partitions looks in steps. It listens to each partition from its look at it on, so
that nothing is missed that comes between two steps; and when it is woken it looks only at the
partition that moved, until there is enough: what is answered is then found by one look at all.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from broker.network.answers import Answer, Parts, PendingResponse
from broker.requests.fetch_sending import ENTRIES_PER_STEP, Found, Send
from broker.requests.found_bytes import FoundBytes
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
        "_connection", "_entries", "_found_bytes", "_handler", "_limit", "_max_bytes",
        "_max_wait_ms", "_min_bytes", "_pending", "_started_s", "_task", "_timer", "_waits_on",
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
        self._found_bytes: FoundBytes | None = None
        """Of a fetch of many partitions, while it listens to them."""

    @property
    @abc.abstractmethod
    def _metrics(self) -> RequestMetrics: ...

    @abc.abstractmethod
    def _steps(self, looked: Sequence[Found]) -> Steps[list[Send]]:
        """Return what is sent for each entry."""

    @abc.abstractmethod
    def _sent(self, sends: Sequence[Send]) -> Steps[Parts | None]:
        """Return the answer of what is ready; None: its entries moved on, look again."""

    # --- looking and waiting --------------------------------------------------------------------

    def _answer_steps(self, found: Sequence[Found] | None = None) -> Steps[Parts | None]:
        """Return the answer, of what was `found` just now if anything; None: it waits for more."""
        while True:
            if found is None:
                found = yield from self._look(listens=self._max_wait_ms > 0)
            if self._max_wait_ms > 0 and not self._is_enough(found):
                if self._found_bytes is None or self._listens_to_all(self._found_bytes):
                    self._wait(found)
                    return None
            else:
                self._stop_waiting()
                sends = yield from self._steps(found)
                answer = yield from self._sent(sends)
                if answer is not None:
                    return answer
            found = None  # more has come while it looked, or it looks further on

    def _look(self, *, listens: bool = False) -> Steps[list[Found]]:
        """See what there is for each entry, in steps if they are many.

        Args:
            listens: If they are many, be woken when there is more, from the look at each on.
        """
        entries, bytes_left, min_one = self._entries, self._max_bytes, True
        if len(entries) <= ENTRIES_PER_STEP:
            return self._look_at(entries, bytes_left, min_one=True)[0]
        self._stop_waiting()
        looked: list[Found] = []
        for start in range(0, len(entries), ENTRIES_PER_STEP):
            if start:
                yield None
            some = entries[start : start + ENTRIES_PER_STEP]
            found, bytes_left, min_one = self._look_at(some, bytes_left, min_one=min_one)
            if listens:
                self._listen(found, start)
            looked += found
        return looked

    def _look_at(
        self, entries: Sequence[Entry], bytes_left: int, *, min_one: bool
    ) -> tuple[list[Found], int, bool]:
        """See what there is for each entry; only the first with data may exceed its bytes (KIP-74).

        A later one whose first batch does not fit gets nothing: clients take a piece of a batch
        alone for an error. What has to be checked first counts with the bytes it is going to have.

        Args:
            bytes_left: Of the whole answer.
            min_one: No entry before had data.

        Returns: what was found; and the two arguments for the entries that follow.
        """
        partition_of, limit = self._handler.manager.partition_of, self._limit
        looked: list[Found] = []
        for topic, number, offset, entry_max_bytes in entries:
            max_bytes = entry_max_bytes if entry_max_bytes < bytes_left else bytes_left
            try:
                if max_bytes < 0:
                    raise InvalidRequestError(f"max_bytes is {max_bytes}")
                partition = partition_of(topic, number)
                data = partition.log.reader.read(
                    offset, max_bytes, limit, min_one=min_one, at_once=False
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
        return looked, bytes_left, min_one

    def _listen(self, found: Sequence[Found], start: int) -> None:
        """Be woken when there is more for these entries, unless there is enough already."""
        noted = self._found_bytes
        if noted is None:
            noted = self._found_bytes = FoundBytes()
        for place, each in enumerate(found, start):
            if noted.total >= self._min_bytes:
                return
            noted.note(place, each)
            if each.partition is not None:
                each.partition.add_fetch_waiter(self)
                self._waits_on.append(each.partition)

    def _listens_to_all(self, noted: FoundBytes) -> bool:
        """Whether there is still too little, and nothing that comes can be missed."""
        return noted.total < self._min_bytes and len(noted) == len(self._entries)

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

    def _wait(self, looked: Sequence[Found]) -> None:
        """Be woken when a high watermark moves, and when the time is over."""
        if self._pending is None:
            self._pending = PendingResponse(self._abandon)
        if self._timer is None:
            wait_s = self._started_s + self._max_wait_ms / 1000 - self._handler.monotonic()
            self._timer = self._handler.loop.call_later(max(0.0, wait_s), self._time_is_over)
        if self._found_bytes is not None:
            return  # it listens already
        for each in looked:
            partition = each.partition
            if partition is not None:
                partition.add_fetch_waiter(self)
                self._waits_on.append(partition)

    def wake(self, partition: Partition) -> None:
        """Look again; answer, when the turn is here, if it is enough."""
        if self._found_bytes is not None:
            self._look_again_at(partition, self._found_bytes)
            return
        found, _, _ = self._look_at(self._entries, self._max_bytes, min_one=True)
        if self._is_enough(found):
            self._stop_waiting()
            self._answer_in_turn(found)

    def _look_again_at(self, partition: Partition, noted: FoundBytes) -> None:
        """As `wake`, with many entries: see what there is for those of `partition` alone.

        Together they may come to more than one look at all would find, but only where that finds
        as much as the answer may have.
        """
        for place in noted.places_of(partition):
            found, _, _ = self._look_at([self._entries[place]], self._max_bytes, min_one=True)
            noted.note(place, *found)
        is_enough = noted.total >= self._min_bytes or self._handler.manager.is_draining
        if is_enough and self._task is None:  # else it is looking, and going to see to it
            self._stop_waiting()
            self._answer_in_turn()

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
            lambda: self._respond(self._begin(self._answer_steps(fresh.pop() if fresh else None)))
        )
        fresh.clear()

    def _stop_waiting(self) -> None:
        waits_on, self._waits_on, self._found_bytes = self._waits_on, [], None
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

    def _begin(self, steps: Steps[Parts | None]) -> Answer:
        """Answer with what `steps` return: at once, if they take no longer than one step."""
        try:
            job = next(steps)
        except StopIteration as stop:
            answer: Parts | None = stop.value
            return self._pending if answer is None else answer
        pending = self._pending
        if pending is None:
            pending = self._pending = PendingResponse(self._abandon, pauses_reading=True)
        self._task = self._handler.runner.spawn(self._finish(steps, job), self._connection)
        return pending

    async def _finish(self, steps: Steps[Parts | None], job: Job | None) -> None:
        answer = await self._handler.runner.finish(steps, job)
        self._task = None
        assert self._pending is not None, "who answers later has a response that waits"
        if answer is None:
            self._pending.resume_reading()
        else:
            self._respond(answer)

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
