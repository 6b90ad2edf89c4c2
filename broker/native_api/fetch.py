"""FetchHandler: FETCH and MULTIFETCH, which wait as a `WaitingFetch` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from broker.network.answers import Answer, Parts
from broker.requests.fetch_sending import ENTRIES_PER_STEP, Found, Send, batch_sends, simple_sends
from broker.requests.waiting_fetch import Entry, WaitingFetch
from broker.requests.warm_slices import WarmSlices
from broker.steps import Steps
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
    from broker.metrics import RequestMetrics
    from broker.native_api.native_api import NativeApi
    from broker.network.connection import Connection
    from broker.partition import Partition

RECORD_BATCH: Final = int(MessageFormat.RECORD_BATCH)
EMPTY: Final = message_set_send_header(0, 0)


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


class FetchRequest(WaitingFetch):
    """A FETCH or MULTIFETCH."""

    __slots__ = ("_format", "_is_multi", "_source")

    def __init__(
        self,
        handler: FetchHandler,
        connection: Connection,
        message_format: int,
        max_bytes: int,
        min_bytes: int,
        max_wait_ms: int,
    ) -> None:
        super().__init__(
            handler, connection, max_bytes=max_bytes, min_bytes=min_bytes, max_wait_ms=max_wait_ms
        )
        self._source, self._format, self._is_multi = handler, message_format, False

    @property
    def _metrics(self) -> RequestMetrics:
        return self._source.multi_metrics if self._is_multi else self._source.metrics

    def answer(self, entries: list[Entry], *, is_multi: bool) -> Answer:
        """Look once; answer, or wait."""
        handler = self._source
        self._entries, self._is_multi = entries, is_multi
        if self._max_bytes < 0 or not 0 <= self._format <= RECORD_BATCH:
            return self._refuse(ErrorCode.INVALID_REQUEST)
        overhead_bytes = MESSAGE_SET_SEND_HEADER_BYTES * (len(entries) + is_multi)
        self._max_bytes = min(self._max_bytes, max(0, handler.response_bytes_max - overhead_bytes))
        self._min_bytes = min(self._min_bytes, self._max_bytes)  # more could never be found
        return self._begin(self._answer_steps())

    def _refuse(self, error: ErrorCode) -> bytes:
        self._metrics.errors[error] += 1
        if self._is_multi:
            return multi_message_set_send_header(error, 0)
        return message_set_send_header(error, 0)

    def _steps(self, looked: Sequence[Found]) -> Steps[list[Send]]:
        if self._format != RECORD_BATCH:
            return simple_sends(looked, self._format, self._max_bytes)
        return batch_sends(
            looked,
            self._look,
            self._source.warm_slices.is_cold,
            mapped=self._source.maps_slices,
            bytes_max=self._max_bytes,
        )

    def _sent(self, sends: Sequence[Send]) -> Steps[Parts | None]:
        """Return the answer of what is ready; or go on waiting, if all of it was markers."""
        has_answer = any(send.error or send.buffers for send in sends)
        if not has_answer and self._max_wait_ms > 0 and not self._handler.manager.is_draining:
            moved = [
                entry._replace(offset=max(entry.offset, send.next_offset))
                for entry, send in zip(self._entries, sends, strict=True)
            ]
            if moved != self._entries:
                self._entries = moved
                return None
        for send in sends:
            if send.error:
                self._metrics.errors[send.error] += 1
        if self._is_multi:
            if len(sends) > ENTRIES_PER_STEP:
                yield None
            return multi_message_set_send(0, [(send.error, send.buffers) for send in sends])
        error, buffers, _ = sends[0]
        return message_set_send(error, buffers) if buffers else message_set_send_header(error, 0)
