"""ProduceHandler: PRODUCE, MULTIPRODUCE and APPEND_AT.

The way of nearly every request is `produce`, or `produce_run` where a read of the socket brought
several: plain sets for a partition that exists. They decode, append and answer without an object
that lives longer, but for the response that waits where acks is -1. All else is for
`ProduceEntries`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.network.answers import Answer, HandledFrames, PendingResponse
from broker.requests.produce_entries import (
    RECORD_BATCH,
    Entry,
    Outcome,
    ProduceEntries,
    Request,
    encode_multi,
    encode_single,
)
from protocol.error_codes import ErrorCode
from protocol.errors import InvalidRequestError, StorageError
from protocol.native.produce_run import RUN_BYTES_MAX, ProduceRun
from protocol.native.request_types import ACKS_NONE, ACKS_WRITTEN, RequestType
from protocol.native.requests import (
    decode_append_at,
    decode_multi_produce,
    decode_multi_produce_acks,
    decode_produce,
)
from protocol.native.responses import (
    PRODUCE_RESPONSE,
    PRODUCE_TOTAL_LENGTH,
    encode_multi_produce_response,
    encode_produce_response,
)

if TYPE_CHECKING:
    from broker.metrics import RequestMetrics
    from broker.native_api.native_api import NativeApi
    from broker.network.connection import Connection
    from broker.partition import Partition

_pack_response: Final = PRODUCE_RESPONSE.pack
_TOTAL: Final = PRODUCE_TOTAL_LENGTH


class ProduceHandler:
    """Appends what clients send; one for all connections."""

    __slots__ = (
        "_append_at_metrics",
        "_entries",
        "_monotonic",
        "_multi_metrics",
        "_partitions",
        "_produce_metrics",
        "_request_entries_max",
        "_run_frame_bytes_max",
    )

    def __init__(self, api: NativeApi) -> None:
        self._entries = ProduceEntries(api)
        self._monotonic = api.monotonic
        self._request_entries_max = api.limits.request_entries_max
        self._run_frame_bytes_max = min(api.limits.frame_bytes_max, RUN_BYTES_MAX)
        self._partitions = api.manager.writable_partitions_by_topic
        self._produce_metrics = api.metrics_of(RequestType.PRODUCE)
        self._multi_metrics = api.metrics_of(RequestType.MULTIPRODUCE)
        self._append_at_metrics = api.metrics_of(RequestType.APPEND_AT)

    def produce(self, frame: memoryview, connection: Connection) -> Answer:
        """Handle a PRODUCE."""
        topic, number, acks, timeout_ms, message_format, message_set = decode_produce(frame)
        partitions = self._partitions.get(topic)
        if (
            message_format == RECORD_BATCH
            and partitions is not None
            and 0 <= number < len(partitions)
            and -1 <= acks <= 1
            and (partition := partitions[number]) is not None
        ):
            log = partition.log
            first_offset = log.log_end_offset
            try:
                count = log.appender.append_plain(message_set)  # type: ignore[arg-type]
            except StorageError as error:
                request = self._request(acks, timeout_ms, connection, self._produce_metrics)
                return self._entries.acknowledge([self._entries.refused(error)], request)
            if count:
                partition.bytes_in += len(message_set)
                partition.messages_in += count
                if acks == ACKS_NONE:
                    return None
                answer = _pack_response(_TOTAL, 0, first_offset, -1, count)
                if acks == ACKS_WRITTEN or log.watermark.offset >= first_offset + count:
                    return answer
                return self._when_committed(partition, answer, 1, timeout_ms)
        request = self._request(acks, timeout_ms, connection, self._produce_metrics)
        return self._entries.append([Entry(topic, number, message_format, message_set)], request)

    def produce_run(
        self, frames: memoryview, start: int, frame_end: int, end: int, connection: Connection
    ) -> HandledFrames | None:
        """Handle the PRODUCE at `start`, and those like it behind it, with one append.

        Plain sets for a partition that is there. They are committed together, so they have one
        place among the answers.

        Returns:
            None: nothing was done, the first frame is one for `produce`.

        Raises:
            FrameError: the first frame ends inside its fields.
        """
        run = ProduceRun(frames, start, frame_end, end)
        partitions = self._partitions.get(run.topic)
        acks, number = run.acks, run.partition
        if (
            run.message_format != RECORD_BATCH
            or partitions is None
            or not 0 <= number < len(partitions)
            or not -1 <= acks <= 1
            or (partition := partitions[number]) is None
        ):
            return None
        log = partition.log
        offset = log.log_end_offset
        try:
            counts, size = log.appender.append_plain_run(run.sets(self._run_frame_bytes_max))
        except StorageError as error:
            request = self._request(acks, run.timeout_ms, connection, self._produce_metrics)
            return self._entries.acknowledge([self._entries.refused(error)], request), 1, frame_end
        if not counts:
            return None
        partition.bytes_in += size
        partition.messages_in += log.log_end_offset - offset
        position = start - 4 + len(counts) * run.overhead + size
        if acks == ACKS_NONE:
            return None, len(counts), position
        answers = []
        for count in counts:
            answers.append(_pack_response(_TOTAL, 0, offset, -1, count))
            offset += count
        joined = b"".join(answers)
        if acks == ACKS_WRITTEN or log.watermark.offset >= offset:
            return joined, len(counts), position
        pending = self._when_committed(partition, joined, len(counts), run.timeout_ms)
        return pending, len(counts), position

    def _when_committed(
        self, partition: Partition, answers: bytes, count: int, timeout_ms: int
    ) -> PendingResponse:
        """Return what becomes the `count` answers once all that is appended now is committed."""
        pending = PendingResponse()
        now_s = self._monotonic()
        committed = partial(self._committed, pending, answers, count, now_s)
        partition.when_committed(partition.log.log_end_offset, now_s + timeout_ms / 1000, committed)
        return pending

    def append_at(self, frame: memoryview, connection: Connection) -> Answer:
        """Handle an APPEND_AT."""
        expected_offset, topic, number, acks, timeout_ms, message_format, message_set = (
            decode_append_at(frame)
        )
        entry = Entry(topic, number, message_format, message_set, expected_offset)
        request = self._request(acks, timeout_ms, connection, self._append_at_metrics)
        return self._entries.append([entry], request)

    def multi_produce(self, frame: memoryview, connection: Connection) -> Answer:
        """Handle a MULTIPRODUCE."""
        try:
            acks, timeout_ms, decoded = decode_multi_produce(frame, self._request_entries_max)
        except InvalidRequestError as error:
            self._multi_metrics.errors[error.code] += 1
            if decode_multi_produce_acks(frame) == ACKS_NONE:
                connection.close("produce_failed", detail=error.code.name)
                return None
            return encode_multi_produce_response(error.code)
        entries = [Entry(*entry) for entry in decoded]
        request = self._request(acks, timeout_ms, connection, self._multi_metrics, encode_multi)
        return self._entries.append(entries, request)

    def _request(
        self,
        acks: int,
        timeout_ms: int,
        connection: Connection,
        metrics: RequestMetrics,
        encode: Callable[[Sequence[Outcome]], bytes] | None = None,
    ) -> Request:
        return Request(
            acks, timeout_ms, encode or encode_single, connection, metrics, self._monotonic()
        )

    def _committed(
        self,
        pending: PendingResponse,
        answers: bytes,
        count: int,
        started_s: float,
        error: ErrorCode,
    ) -> None:
        """Answer PRODUCEs that waited: they are committed, or never will be known to be."""
        metrics = self._produce_metrics
        metrics.latency.observe(self._monotonic() - started_s, count)
        if error:
            metrics.errors[error] += count
            answers = encode_produce_response(error, -1, -1, 0) * count
        pending.complete(answers)
