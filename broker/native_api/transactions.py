"""TransactionsHandler: TRANSACTIONS, what a reader of committed records has to know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.network.answers import Answer
from protocol.errors import InvalidRequestError, TidelogError
from protocol.native.request_types import RequestType
from protocol.native.transactions import (
    ABORTED_MAX,
    decode_transactions,
    encode_transactions_response,
)

if TYPE_CHECKING:
    from broker.native_api.native_api import NativeApi
    from broker.network.connection import Connection


class TransactionsHandler:
    """Tells of transactions; one for all connections."""

    __slots__ = ("_manager", "_metrics")

    def __init__(self, api: NativeApi) -> None:
        self._manager = api.manager
        self._metrics = api.metrics_of(RequestType.TRANSACTIONS)

    def transactions(self, frame: memoryview, connection: Connection) -> Answer:
        """Handle a TRANSACTIONS."""
        topic, number, start, end = decode_transactions(frame)
        try:
            if min(start, end) < 0:
                raise InvalidRequestError(f"offsets {start} and {end}")
            log = self._manager.partition_of(topic, number).log
            log.check_open()
            start = max(start, log.log_start_offset)
            found = log.reader.aborted_transactions(start, end) if end else []
            aborted = [each[:3] for each in found[:ABORTED_MAX]]
            return encode_transactions_response(0, log.last_stable_offset, aborted)
        except TidelogError as error:
            self._metrics.errors[error.code] += 1
            return encode_transactions_response(error.code)
