"""Produce error cells: what the three ways to produce are refused for."""

from __future__ import annotations

import errno
import gzip

from protocol.error_codes import ErrorCode
from protocol.legacy_message_set_builder import build_entry
from protocol.native.request_types import RequestType
from protocol.record_batch import Record
from protocol.record_batch_builder import build_batch
from protocol.simple_message_set import build_set
from tests.support.error_cells import (
    GOOD,
    NO_AUTO_CREATE,
    PRODUCING,
    Cells,
    produce_error,
    send_produce,
)
from tests.support.native_broker import COMMIT, NativeBroker, batch
from tests.support.producers import producer_batch
from tests.support.records import sealed

CELLS = Cells()
cell = CELLS.add


def refused_set(
    code: ErrorCode,
    name: str,
    message_set: bytes,
    *,
    message_format: int = 2,
    topic: str | bytes = "logs",
    partition: int = 0,
    acks: int = 1,
    topic_settings: dict[str, str] | None = None,
    settings: dict[str, object] | None = None,
) -> None:
    """A set that each way to produce must refuse, leaving nothing of it in the log."""
    for request_type in PRODUCING:

        def run(request_type: RequestType = request_type) -> int:
            with NativeBroker(settings=settings) as broker:
                broker.create_topic("logs", settings=topic_settings)
                sent = send_produce(
                    broker,
                    request_type,
                    topic,
                    message_set,
                    partition=partition,
                    acks=acks,
                    message_format=message_format,
                )
                assert broker.partition("logs").log.log_end_offset == 0
                return produce_error(request_type, sent)

        cell(request_type, code, name, run)


def damaged(data: bytes) -> bytes:
    return data[:-1] + bytes((data[-1] ^ 1,))


def with_codec(entry: bytes, codec: int) -> bytes:
    """A format 1 entry that says its value is compressed so; the CRC does not cover that."""
    return entry[:13] + bytes((codec,)) + entry[14:]


SIMPLE = build_set([b"value"], format=0)
BAD_CRC, TOO_LARGE = ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE

refused_set(BAD_CRC, "batch with a wrong CRC", damaged(GOOD))
refused_set(BAD_CRC, "second batch with a wrong CRC", GOOD + damaged(GOOD))
refused_set(BAD_CRC, "first batch cut", GOOD[:-1])
refused_set(BAD_CRC, "no batch at all", b"x" * 100)
refused_set(BAD_CRC, "message with a wrong CRC", damaged(SIMPLE), message_format=0)
refused_set(BAD_CRC, "message of another format", SIMPLE, message_format=1)
refused_set(
    BAD_CRC,
    "compression inside compression",
    with_codec(build_set([gzip.compress(build_set([b"x"], format=1, codec=1))], format=1), 1),
    message_format=1,
)
refused_set(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition", GOOD, partition=1)
refused_set(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "negative partition", GOOD, partition=-1)
refused_set(
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "no such topic",
    GOOD,
    topic="nowhere",
    settings=NO_AUTO_CREATE,
)
refused_set(TOO_LARGE, "batch", batch(bytes(2_000)), topic_settings={"max.message.bytes": "1000"})
refused_set(
    TOO_LARGE,
    "message",
    build_set([bytes(2_000)], format=0),
    message_format=0,
    topic_settings={"max.message.bytes": "1000"},
)
refused_set(
    TOO_LARGE,
    "compressed set that grows too much",
    build_set([bytes(100_000)], format=1, codec=4),
    message_format=1,
    settings={"limits.decompressed_bytes_max": 50_000},
)
refused_set(ErrorCode.INVALID_TOPIC, "illegal name", GOOD, topic="no/such")
refused_set(ErrorCode.INVALID_TOPIC, "name that is not UTF-8", GOOD, topic=b"\xff\xfe")
refused_set(ErrorCode.INVALID_TOPIC, "internal topic", GOOD, topic="__consumer_offsets")
for acks in (-2, 2):
    refused_set(ErrorCode.INVALID_REQUIRED_ACKS, f"acks {acks}", GOOD, acks=acks)
for unknown in (-1, 3):
    refused_set(ErrorCode.INVALID_REQUEST, f"format {unknown}", GOOD, message_format=unknown)
for magic in (0, 1):
    refused_set(
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        f"magic {magic} in format 2",
        build_entry(0, None, b"value", magic=magic),
    )
refused_set(
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "codec 7 of a batch", bytes(sealed(GOOD, attributes=7))
)
refused_set(
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    "codec 7 of a message",
    with_codec(build_set([b"x"], format=1), 7),
    message_format=1,
)
refused_set(ErrorCode.INVALID_RECORD, "empty set of batches", b"")
refused_set(ErrorCode.INVALID_RECORD, "empty set of messages", b"", message_format=0)
refused_set(ErrorCode.INVALID_RECORD, "nothing but a cut message", SIMPLE[:-1], message_format=0)
refused_set(
    ErrorCode.INVALID_RECORD,
    "control batch",
    build_batch([Record(0, 0, b"\0\0\0\1", b"")], is_control=True, producer_id=1),
)
refused_set(
    ErrorCode.INVALID_RECORD,
    "transactional batch",
    build_batch(
        [Record(0, 1_700_000_000_000, None, b"")],
        is_transactional=True,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
    ),
)
refused_set(
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    "gap in a producer's sequences",
    bytes(producer_batch(7, 0)) + bytes(producer_batch(7, 2)),
)
refused_set(
    ErrorCode.INVALID_PRODUCER_EPOCH,
    "older epoch of a producer",
    bytes(producer_batch(7, 0, epoch=1)) + bytes(producer_batch(7, 1)),
)
refused_set(
    ErrorCode.INVALID_RECORD, "count and last delta", bytes(sealed(GOOD, last_offset_delta=5))
)
refused_set(
    ErrorCode.INVALID_RECORD,
    "no key in a compacted topic",
    GOOD,
    topic_settings={"cleanup.policy": "compact"},
)


def one_topic_too_many(request_type: RequestType) -> int:
    """Producing creates topics, but not more than there may be."""
    with NativeBroker(settings={"limits.topics_max": 1}) as broker:
        broker.create_topic("logs")
        error = produce_error(request_type, send_produce(broker, request_type, "new", GOOD))
        assert [entry.name for entry in broker.manager.topics()] == ["logs"]
        return error


def timed_out(request_type: RequestType) -> int:
    with NativeBroker(hold_flush=True) as broker:
        broker.create_topic("logs", settings=COMMIT)
        sent = send_produce(broker, request_type, "logs", GOOD, acks=-1)
        assert sent.is_waiting
        broker.loop.advance(1_000)
        assert broker.partition("logs").log.log_end_offset == 1  # the data stays
        error = produce_error(request_type, sent)
        broker.flushes.follow()
        return error


def no_space(request_type: RequestType) -> int:
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.disk.fail("write", OSError(errno.ENOSPC, "No space left on device"))
        error = produce_error(request_type, send_produce(broker, request_type, "logs", GOOD))
        assert broker.partition("logs").log.log_end_offset == 0
        again = send_produce(broker, request_type, "logs", GOOD)  # space is back
        assert again.error == 0
        assert broker.metrics.storage.write_failures == 1
        return error


def failed_sync(request_type: RequestType) -> int:
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.disk.fail("sync", OSError(errno.EIO, "Input/output error"), path_suffix=".log")
        sent = send_produce(broker, request_type, "logs", GOOD, acks=-1)
        assert [error.errno for error in broker.fatal] == [errno.EIO]
        after = send_produce(broker, request_type, "logs", GOOD)
        assert produce_error(request_type, after) == ErrorCode.KAFKA_STORAGE_ERROR
        return produce_error(request_type, sent)


for producing in PRODUCING:
    cell(
        producing, ErrorCode.INVALID_PARTITIONS, "topics", lambda t=producing: one_topic_too_many(t)
    )
    cell(producing, ErrorCode.REQUEST_TIMED_OUT, "timeout", lambda t=producing: timed_out(t))
    cell(producing, ErrorCode.KAFKA_STORAGE_ERROR, "no space", lambda t=producing: no_space(t))
    cell(producing, ErrorCode.KAFKA_STORAGE_ERROR, "sync", lambda t=producing: failed_sync(t))


def not_the_log_end() -> int:
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a", b"b"))
        sent = send_produce(broker, RequestType.APPEND_AT, "logs", GOOD)
        assert sent.produced == (45, 2, -1, 0)  # the log end, for who wants to go on
        assert broker.partition("logs").log.log_end_offset == 2
        return sent.produced.error


cell(RequestType.APPEND_AT, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "log end", not_the_log_end)
