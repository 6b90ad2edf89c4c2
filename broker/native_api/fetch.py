"""FetchHandler: FETCH and MULTIFETCH.

A fetch first looks: for each partition, which file slices answer it, or what error. That copies
nothing and reads no records. If it is enough it is sent; else the fetch waits, and looks again each
time a high watermark of its partitions moves, until its time is over. An error, the deletion of a
topic and the draining of the broker end the waiting at once. Sending: `fetch_sending`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.native_api.fetch_sending import Found, Send, batch_sends, simple_sends
from broker.native_api.warm_slices import WarmSlices
from broker.network.answers import Answer, Parts, PendingResponse
from broker.steps import Job, Steps
from broker.storage.segment_check import BytesUncheckedError
from protocol.error_codes import ErrorCode
from protocol.errors import InvalidRequestError, TidelogError
from protocol.identifiers import Buffer
from protocol.native.request_types import MessageFormat, RequestType
from protocol.native.requests import decode_fetch, decode_multi_fetch
from protocol.native.responses import (
    MESSAGE_SET_SEND_HEADER_BYTES,
    message_set_send,
    message_set_send_header,
    multi_message_set_send,
    multi_message_set_send_header,
)

if TYPE_CHECKING:
    from broker.native_api.native_api import NativeApi
    from broker.network.connection import Connection
    from broker.partition import Partition

RECORD_BATCH: Final = int(MessageFormat.RECORD_BATCH)
EMPTY: Final = message_set_send_header(0, 0)


class Entry(NamedTuple):
    """One partition that is asked for."""

    topic: bytes
    partition: int
    offset: int
    max_bytes: int


class FetchHandler:
    """Reads what clients ask for; one for all connections."""

    __slots__ = (
        "loop",
        "manager",
        "maps_slices",
        "max_wait_ms_max",
        "metrics",
        "monotonic",
        "multi_metrics",
        "partitions",
        "request_entries_max",
        "response_bytes_max",
        "runner",
        "warm_slices",
    )

    def __init__(self, api: NativeApi) -> None:
        self.loop, self.manager, self.runner = api.loop, api.manager, api.runner
        self.monotonic = api.monotonic
        self.warm_slices = WarmSlices(api.monotonic)
        self.partitions = api.manager.partitions_by_topic
        self.maps_slices = api.maps_slices
        self.max_wait_ms_max = api.limits.max_wait_ms_max
        self.request_entries_max = api.limits.request_entries_max
        self.response_bytes_max = api.limits.fetch_response_bytes_max
        self.metrics = api.metrics_of(RequestType.FETCH)
        self.multi_metrics = api.metrics_of(RequestType.MULTIFETCH)

    def fetch(self, frame: memoryview, connection: Connection) -> Answer:
        """Handle a FETCH."""
        topic, number, offset, max_bytes, min_bytes, max_wait_ms, message_format = decode_fetch(
            frame
        )
        if max_bytes >= 0 and 0 <= message_format <= RECORD_BATCH:
            partitions = self.partitions.get(topic)
            if partitions is not None and 0 <= number < len(partitions):
                partition = partitions[number]
                if partition is not None:
                    answer = self._answer_at_once(
                        partition, offset, max_bytes, min_bytes, max_wait_ms, message_format
                    )
                    if answer is not None:
                        return answer
        request = FetchRequest(self, connection, message_format, max_bytes, min_bytes, max_wait_ms)
        return request.answer([Entry(topic, number, offset, max_bytes)], is_multi=False)

    def _answer_at_once(
        self,
        partition: Partition,
        offset: int,
        max_bytes: int,
        min_bytes: int,
        max_wait_ms: int,
        message_format: int,
    ) -> Parts | None:
        """Answer what most fetches ask for, without the objects that waiting and errors need.

        That is: nothing new, and no wish to wait; or record batches that are there, in memory,
        checked, and enough. None: let a `FetchRequest` find out.
        """
        log = partition.log
        if offset == log.high_watermark:
            return EMPTY if max_wait_ms <= 0 else None
        if message_format != RECORD_BATCH:
            return None
        max_bytes = min(max_bytes, max(0, self.response_bytes_max - MESSAGE_SET_SEND_HEADER_BYTES))
        buffers: list[Buffer] = [b""]
        try:
            if offset < partition.legacy_end_offset:
                return None
            data = log.read(offset, max_bytes, at_once=False)
            if data.size_bytes < min(min_bytes, max_bytes) and max_wait_ms > 0:
                return None
            for piece in data.slices:
                if self.warm_slices.is_cold(piece):
                    return None
                buffers += piece.buffers(mapped=self.maps_slices)
        except TidelogError:
            return None
        partition.bytes_out += data.size_bytes
        buffers[0] = message_set_send_header(0, data.size_bytes)
        return buffers

    def multi_fetch(self, frame: memoryview, connection: Connection) -> Answer:
        """Handle a MULTIFETCH."""
        try:
            decoded = decode_multi_fetch(frame, self.request_entries_max)
        except InvalidRequestError as error:
            self.multi_metrics.errors[error.code] += 1
            return multi_message_set_send_header(error.code, 0)
        max_bytes, min_bytes, max_wait_ms, message_format, entries = decoded
        request = FetchRequest(self, connection, message_format, max_bytes, min_bytes, max_wait_ms)
        return request.answer([Entry(*entry) for entry in entries], is_multi=True)


class FetchRequest:
    """One fetch, from its first look to its answer; a `FetchWaiter` in between."""

    __slots__ = (
        "_connection",
        "_entries",
        "_format",
        "_handler",
        "_is_multi",
        "_max_bytes",
        "_max_wait_ms",
        "_min_bytes",
        "_pending",
        "_started_s",
        "_task",
        "_timer",
        "_waits_on",
    )

    def __init__(
        self,
        handler: FetchHandler,
        connection: Connection,
        message_format: int,
        max_bytes: int,
        min_bytes: int,
        max_wait_ms: int,
    ) -> None:
        self._handler, self._connection = handler, connection
        self._format, self._max_bytes, self._min_bytes = message_format, max_bytes, min_bytes
        self._max_wait_ms = min(max_wait_ms, handler.max_wait_ms_max)
        self._entries: list[Entry] = []
        self._is_multi = False
        self._started_s = handler.monotonic()
        self._pending: PendingResponse | None = None
        self._timer: Any = None
        self._task: Any = None
        self._waits_on: list[Partition] = []

    def answer(self, entries: list[Entry], *, is_multi: bool) -> Answer:
        """Look once; answer, or wait."""
        handler = self._handler
        self._entries, self._is_multi = entries, is_multi
        if self._max_bytes < 0 or not 0 <= self._format <= RECORD_BATCH:
            return self._refuse(ErrorCode.INVALID_REQUEST)
        overhead_bytes = MESSAGE_SET_SEND_HEADER_BYTES * (len(entries) + is_multi)
        self._max_bytes = min(self._max_bytes, max(0, handler.response_bytes_max - overhead_bytes))
        self._min_bytes = min(self._min_bytes, self._max_bytes)  # more could never be found
        return self._send_or_wait()

    def _refuse(self, error: ErrorCode) -> bytes:
        if self._is_multi:
            self._handler.multi_metrics.errors[error] += 1
            return multi_message_set_send_header(error, 0)
        self._handler.metrics.errors[error] += 1
        return message_set_send_header(error, 0)

    # --- looking and waiting --------------------------------------------------------------------

    def _send_or_wait(self) -> Answer:
        found = self._look()
        if self._max_wait_ms > 0 and not self._is_enough(found):
            return self._wait(found)
        return self._send(found)

    def _look(self) -> list[Found]:
        """See what there is for each entry; only the first with data may exceed its bytes.

        What has to be checked first counts with the bytes that it is going to have.
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
                data = partition.log.read(offset, max_bytes, min_one=min_one, at_once=False)
            except BytesUncheckedError as unchecked:
                bytes_left, min_one = max(0, bytes_left - unchecked.size_bytes), False
                looked.append(Found(0, offset, entry_max_bytes, partition, None, unchecked))
                continue
            except TidelogError as error:
                looked.append(Found(error.code, offset, entry_max_bytes))
                continue
            if data.size_bytes:
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
        if self._is_enough(self._look()):
            self._stop_waiting()
            self._answer_in_turn()

    def _time_is_over(self) -> None:
        self._timer = None
        self._max_wait_ms = 0
        if self._task is None:  # else an answer is being made
            self._stop_waiting()
            self._answer_in_turn()

    def _answer_in_turn(self) -> None:
        assert self._pending is not None, "only what waits has to be answered later"
        self._pending.when_first(lambda: self._respond(self._send(self._look())))

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
        steps: Steps[list[Send]]
        if self._format == RECORD_BATCH:
            mapped = self._handler.maps_slices
            is_cold = self._handler.warm_slices.is_cold
            steps = batch_sends(
                looked, self._look, is_cold, mapped=mapped, bytes_max=self._max_bytes
            )
        else:
            steps = simple_sends(looked, self._format, self._max_bytes)
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

    def _sent(self, sends: Sequence[Send]) -> Answer:
        """Make the answer of what is ready; or go on waiting, if all of it was markers."""
        has_answer = any(send.error or send.buffers for send in sends)
        if not has_answer and self._max_wait_ms > 0 and not self._handler.manager.is_draining:
            moved = [
                entry._replace(offset=max(entry.offset, send.next_offset))
                for entry, send in zip(self._entries, sends, strict=True)
            ]
            if moved != self._entries:
                self._entries = moved
                return self._send_or_wait()
        metrics = self._handler.multi_metrics if self._is_multi else self._handler.metrics
        for send in sends:
            if send.error:
                metrics.errors[send.error] += 1
        if self._is_multi:
            return multi_message_set_send(0, [(send.error, send.buffers) for send in sends])
        error, buffers, _ = sends[0]
        return message_set_send(error, buffers) if buffers else message_set_send_header(error, 0)

    def _respond(self, answer: Answer) -> None:
        """Give the answer to the response that waits for it, unless it goes on waiting."""
        pending = self._pending
        assert pending is not None, "only what waits is answered here"
        if answer is pending:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        metrics = self._handler.multi_metrics if self._is_multi else self._handler.metrics
        metrics.latency.observe(self._handler.monotonic() - self._started_s)
        parts: Parts = answer  # type: ignore[assignment]  # there is one pending response only
        pending.complete(parts)
