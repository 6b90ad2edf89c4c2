"""What a client raises beside the broker's own errors (`BrokerError`)."""

from __future__ import annotations

from protocol.errors import BatchCorruptError, BrokerError, ErrorCode, TidelogError

__all__ = [
    "BrokerError",
    "ClientClosedError",
    "ConnectionLostError",
    "DamagedBatchError",
    "FetchTooLargeError",
    "ResponseTooLargeError",
    "UnexpectedOffsetError",
]


class ClientClosedError(TidelogError):
    """The client or producer was closed before this could be done."""


class ConnectionLostError(TidelogError):
    """The broker could not be reached, or the connection ended before the answer came.

    Whether the request was carried out is not known.
    """

    code = ErrorCode.NETWORK_EXCEPTION


class ResponseTooLargeError(TidelogError):
    """An answer over `response_bytes_max`. It was dropped; the connection stays usable."""

    def __init__(self, response_bytes: int, response_bytes_max: int) -> None:
        super().__init__(response_bytes, response_bytes_max)
        self.response_bytes, self.response_bytes_max = response_bytes, response_bytes_max

    def __str__(self) -> str:
        return f"an answer of {self.response_bytes} bytes is over {self.response_bytes_max}"


class FetchTooLargeError(ResponseTooLargeError):
    """The first batch at `offset` is larger than this client buffers: raise response_bytes_max."""

    def __init__(
        self, response_bytes: int, response_bytes_max: int, topic: str, partition: int, offset: int
    ) -> None:
        TidelogError.__init__(self, response_bytes, response_bytes_max, topic, partition, offset)
        self.response_bytes, self.response_bytes_max = response_bytes, response_bytes_max
        self.topic, self.partition, self.offset = topic, partition, offset

    def __str__(self) -> str:
        return (
            f"the answer at {self.topic}-{self.partition} offset {self.offset} has "
            f"{self.response_bytes} bytes, over response_bytes_max of {self.response_bytes_max}"
        )


class UnexpectedOffsetError(BrokerError):
    """APPEND_AT found the log ending elsewhere; nothing was appended."""

    def __init__(self, expected_offset: int, log_end_offset: int) -> None:
        super().__init__(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"the log ends at {log_end_offset}, not at the expected {expected_offset}",
        )
        self.args = (expected_offset, log_end_offset)
        self.expected_offset, self.log_end_offset = expected_offset, log_end_offset


class DamagedBatchError(BatchCorruptError):
    """A batch came damaged: on the way, or as it lies on the broker's disk (`tidelog verify`).

    Messages before it have been given. `offset` is where reading stopped; to leave the batch out,
    go on from a later one.
    """

    def __init__(self, position: int, reason: str, topic: str, partition: int, offset: int) -> None:
        TidelogError.__init__(self, position, reason, topic, partition, offset)
        self.position, self.reason = position, reason
        self.topic, self.partition, self.offset = topic, partition, offset

    def __str__(self) -> str:
        return f"the batch at {self.topic}-{self.partition} offset {self.offset}: {self.reason}"
