"""Fetch error cells: FETCH, MULTIFETCH and OFFSETS, on sound and on damaged logs."""

from __future__ import annotations

import errno

from protocol.error_codes import ErrorCode
from protocol.native import requests
from protocol.native.request_types import RequestType
from tests.support.error_cells import GOOD, Cells, damaged_log, fetch_error
from tests.support.native_broker import CLOCK_START_MS, NativeBroker, batch

CELLS = Cells()
cell = CELLS.add


def fetch_cell(
    code: ErrorCode,
    name: str,
    *,
    request_types: tuple[RequestType, ...] = (RequestType.FETCH, RequestType.MULTIFETCH),
    **fields: int | str,
) -> None:
    for request_type in request_types:

        def run(request_type: RequestType = request_type) -> int:
            with NativeBroker() as broker:
                broker.create_topic("logs")
                return fetch_error(broker, request_type, **fields)  # type: ignore[arg-type]

        cell(request_type, code, name, run)


fetch_cell(ErrorCode.OFFSET_OUT_OF_RANGE, "above the log end", offset=1)
fetch_cell(ErrorCode.OFFSET_OUT_OF_RANGE, "negative", offset=-1)
fetch_cell(ErrorCode.OFFSET_OUT_OF_RANGE, "negative, as messages", offset=-1, message_format=0)
fetch_cell(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic", topic="nowhere")
fetch_cell(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "partition", partition=1)
fetch_cell(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "negative partition", partition=-1)
fetch_cell(ErrorCode.INVALID_REQUEST, "max_bytes", request_types=(RequestType.FETCH,), max_bytes=-1)
fetch_cell(
    ErrorCode.INVALID_REQUEST, "format", request_types=(RequestType.FETCH,), message_format=3
)


def multi_fetch_refused_whole(max_bytes: int, message_format: int) -> int:
    with NativeBroker() as broker:
        broker.create_topic("logs")
        request = requests.encode_multi_fetch(
            max_bytes, 1, 1_000, message_format, [("logs", 0, 0, 100)]
        )
        outer, sends = broker.send(request).multi_fetched
        assert sends == []
        return outer


for max_bytes, message_format in ((-1, 2), (100, 3), (100, -1)):
    cell(
        RequestType.MULTIFETCH,
        ErrorCode.INVALID_REQUEST,
        f"max_bytes {max_bytes}, format {message_format}",
        lambda m=max_bytes, f=message_format: multi_fetch_refused_whole(m, f),
    )


def negative_entry_bytes() -> int:
    with NativeBroker() as broker:
        broker.create_topic("logs")
        return fetch_error(broker, RequestType.MULTIFETCH, max_bytes=-1)


cell(
    RequestType.MULTIFETCH, ErrorCode.INVALID_REQUEST, "an entry's max_bytes", negative_entry_bytes
)


def damaged_on_disk(request_type: RequestType) -> int:
    """As found at start: bytes below the durable offset that are wrong."""
    with damaged_log() as broker:
        behind = broker.fetch("logs", 2).fetched
        assert (behind.error, len(behind.message_set)) == (0, len(batch(b"three")))
        return fetch_error(broker, request_type, offset=1)


def look_up_across_damage() -> int:
    with damaged_log() as broker:
        error, found = broker.send(
            requests.encode_offsets("logs", 0, CLOCK_START_MS + 1, 1)
        ).offsets
        assert found == []
        return error


def unreadable(request_type: RequestType) -> int:
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", GOOD, acks=-1)
        broker.disk.fail("read", OSError(errno.EIO, "Input/output error"), times=100)
        return fetch_error(broker, request_type)


for fetching in (RequestType.FETCH, RequestType.MULTIFETCH):
    cell(fetching, ErrorCode.CORRUPT_MESSAGE, "damage", lambda t=fetching: damaged_on_disk(t))
    cell(fetching, ErrorCode.KAFKA_STORAGE_ERROR, "read", lambda t=fetching: unreadable(t))


cell(RequestType.OFFSETS, ErrorCode.CORRUPT_MESSAGE, "damage", look_up_across_damage)
