"""Error cells: what brings about one error code in answer to one kind of request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from protocol.error_codes import ErrorCode
from protocol.native import requests
from protocol.native.request_types import RequestType
from tests.support.fake_disk import FakeDisk
from tests.support.native_broker import CLOCK_START_MS, NativeBroker, Sent, batch

NO_AUTO_CREATE = {"topics.auto_create": False}
PRODUCING = (RequestType.PRODUCE, RequestType.MULTIPRODUCE, RequestType.APPEND_AT)
GOOD = batch(b"value")

Cell = Callable[[], int]


class Cells:
    """Cells of docs/native-protocol.md's table of requests against error codes.

    A cell is run without arguments and returns the code that was answered.
    """

    def __init__(self) -> None:
        self.by_code: dict[tuple[RequestType, ErrorCode], list[tuple[str, Cell]]] = {}

    def add(self, request_type: RequestType, code: ErrorCode, name: str, run: Cell) -> None:
        self.by_code.setdefault((request_type, code), []).append((name, run))


def send_produce(
    broker: NativeBroker,
    request_type: RequestType,
    topic: str | bytes,
    message_set: bytes,
    *,
    partition: int = 0,
    acks: int = 1,
    message_format: int = 2,
) -> Sent:
    if request_type is RequestType.MULTIPRODUCE:
        entries = [(topic, partition, message_format, message_set)]
        return broker.send(*requests.encode_multi_produce(acks, 500, entries))
    if request_type is RequestType.APPEND_AT:
        return broker.send(
            *requests.encode_append_at(0, topic, partition, acks, 500, message_format, message_set)
        )
    return broker.send(
        *requests.encode_produce(topic, partition, acks, 500, message_format, message_set)
    )


def produce_error(request_type: RequestType, sent: Sent) -> int:
    if request_type is RequestType.MULTIPRODUCE:
        (answer,) = sent.multi_produced
    else:
        answer = sent.produced
    assert answer[1:] == (-1, -1, 0), "an error's other fields"
    return answer.error


def fetch_error(
    broker: NativeBroker,
    request_type: RequestType,
    topic: str = "logs",
    *,
    partition: int = 0,
    offset: int = 0,
    max_bytes: int = 1_000,
    message_format: int = 2,
) -> int:
    """The error of a fetch that would wait a second if there were none: it must come at once."""
    if request_type is RequestType.FETCH:
        return broker.fetch(
            topic,
            offset,
            partition=partition,
            max_bytes=max_bytes,
            max_wait_ms=1_000,
            message_format=message_format,
        ).fetched.error
    entries = [(topic, partition, offset, max_bytes)]
    outer, sends = broker.send(
        requests.encode_multi_fetch(1_000, 1, 1_000, message_format, entries)
    ).multi_fetched
    assert outer == 0
    (send,) = sends
    assert len(send.message_set) == 0
    return send.error


@contextmanager
def damaged_log() -> Iterator[NativeBroker]:
    """A log of three messages; the bytes of the one in the middle are wrong."""
    disk = FakeDisk()
    with NativeBroker(disk=disk) as broker:
        broker.create_topic("logs")
        for number, value in enumerate((b"one", b"two", b"three")):
            sent = batch(value, now_ms=CLOCK_START_MS + number)
            broker.produce("logs", sent, acks=-1)
        broker.kill()
    disk.kill()
    path = Path("/data/logs-0/00000000000000000000.log")
    file = disk.open(path)
    file.write([b"\xff"], len(batch(b"one")) + 65)
    file.close()
    with NativeBroker(disk=disk) as broker:
        assert len(broker.manager.degraded()) == 1
        yield broker
