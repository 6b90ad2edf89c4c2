"""OffsetsHandler: OFFSETS, offsets of a partition by time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.network.answers import Answer
from broker.steps import Steps
from protocol.errors import InvalidRequestError, StorageError, TidelogError
from protocol.native.request_types import EARLIEST_TIME, LATEST_TIME, RequestType
from protocol.native.requests import decode_offsets
from protocol.native.responses import encode_offsets_response

if TYPE_CHECKING:
    from broker.native_api.native_api import NativeApi
    from broker.network.connection import Connection
    from broker.storage.partition_log import PartitionLog


class OffsetsHandler:
    """Looks offsets up; one for all connections."""

    __slots__ = ("_manager", "_metrics", "_runner")

    def __init__(self, api: NativeApi) -> None:
        self._manager, self._runner = api.manager, api.runner
        self._metrics = api.metrics_of(RequestType.OFFSETS)

    def offsets(self, frame: memoryview, connection: Connection) -> Answer:
        """Handle an OFFSETS."""
        steps = self._look_up(*decode_offsets(frame))
        return self._runner.answer(steps, self._metrics, connection)

    def _look_up(self, topic: bytes, number: int, time: int, max_offsets: int) -> Steps[bytes]:
        """Return the answer, errors too."""
        try:
            if max_offsets < 1:
                raise InvalidRequestError(f"max_offsets is {max_offsets}")
            log = self._manager.partition_of(topic, number).log
            try:
                found = yield from offsets_at(log, time, max_offsets)
            except StorageError:
                self._manager.partition_of(topic, number)  # its topic may have been deleted
                raise
            return encode_offsets_response(0, found)
        except TidelogError as error:
            self._metrics.errors[error.code] += 1
            return encode_offsets_response(error.code)


def offsets_at(log: PartitionLog, time: int, max_offsets: int) -> Steps[list[int]]:
    """Return what OFFSETS answers for `time`; by time it may take several steps.

    Raises:
        InvalidRequestError: a negative `time` that means nothing.
        CorruptMessageError, StorageError: the log cannot be read where it must be.
    """
    if time == LATEST_TIME:
        high_watermark = log.high_watermark
        if max_offsets == 1:
            return [high_watermark]
        below = log.segment_base_offsets_below(high_watermark, max_offsets - 1)
        return [high_watermark, *below]
    if time == EARLIEST_TIME:
        return [log.log_start_offset]
    if time < 0:
        raise InvalidRequestError(f"time is {time}")
    found = yield from log.reader.timestamp_steps(time)
    return [] if found is None else [found[1]]
