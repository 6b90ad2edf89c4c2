"""OffsetsHandler: OFFSETS, offsets of a partition by time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.network.answers import Answer
from protocol.errors import InvalidRequestError, TidelogError
from protocol.native.request_types import EARLIEST_TIME, LATEST_TIME, RequestType
from protocol.native.requests import decode_offsets
from protocol.native.responses import encode_offsets_response

if TYPE_CHECKING:
    from broker.native_api.native_api import NativeApi
    from broker.network.connection import Connection
    from broker.storage.partition_log import PartitionLog


class OffsetsHandler:
    """Looks offsets up; one for all connections."""

    __slots__ = ("_manager", "_metrics")

    def __init__(self, api: NativeApi) -> None:
        self._manager = api.manager
        self._metrics = api.metrics_of(RequestType.OFFSETS)

    def offsets(self, frame: memoryview, connection: Connection) -> Answer:
        """Handle an OFFSETS."""
        topic, number, time, max_offsets = decode_offsets(frame)
        try:
            if max_offsets < 1:
                raise InvalidRequestError(f"max_offsets is {max_offsets}")
            log = self._manager.partition_of(topic, number).log
            return encode_offsets_response(0, offsets_at(log, time, max_offsets))
        except TidelogError as error:
            self._metrics.errors[error.code] += 1
            return encode_offsets_response(error.code)


def offsets_at(log: PartitionLog, time: int, max_offsets: int) -> list[int]:
    """Return what OFFSETS answers for `time`.

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
    found = log.offset_for_timestamp(time)
    return [] if found is None else [found[1]]
