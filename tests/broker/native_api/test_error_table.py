"""Every cell of docs/native-protocol.md's table of requests against error codes, and no other."""

from __future__ import annotations

import errno
import gzip
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from protocol.legacy_message_set_builder import build_entry
from protocol.native import requests, topic_changes
from protocol.native.request_types import RequestType
from protocol.record_batch import Record
from protocol.record_batch_builder import build_batch
from protocol.simple_message_set import build_set
from tests.support.fake_disk import FakeDisk
from tests.support.native_broker import CLOCK_START_MS, COMMIT, NativeBroker, Sent, batch
from tests.support.producers import producer_batch
from tests.support.records import sealed

DOCUMENT = Path(__file__).parents[3] / "docs" / "native-protocol.md"
NO_AUTO_CREATE = {"topics.auto_create": False}

Cell = Callable[[], int]
CELLS: dict[tuple[RequestType, ErrorCode], list[tuple[str, Cell]]] = {}

PRODUCING = (RequestType.PRODUCE, RequestType.MULTIPRODUCE, RequestType.APPEND_AT)


def cell(request_type: RequestType, code: ErrorCode, name: str, run: Cell) -> None:
    CELLS.setdefault((request_type, code), []).append((name, run))


# --- the three ways to produce --------------------------------------------------------------------


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


GOOD = batch(b"value")
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


# --- fetching -------------------------------------------------------------------------------------


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


def unreadable(request_type: RequestType) -> int:
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", GOOD, acks=-1)
        broker.disk.fail("read", OSError(errno.EIO, "Input/output error"), times=100)
        return fetch_error(broker, request_type)


for fetching in (RequestType.FETCH, RequestType.MULTIFETCH):
    cell(fetching, ErrorCode.CORRUPT_MESSAGE, "damage", lambda t=fetching: damaged_on_disk(t))
    cell(fetching, ErrorCode.KAFKA_STORAGE_ERROR, "read", lambda t=fetching: unreadable(t))


# --- a directory that is missing ------------------------------------------------------------------


def with_missing_directory(run: Callable[[NativeBroker], int], registry: Path) -> int:
    """Run where partition 1 of `logs` lies in a directory that was not mounted."""
    disk = FakeDisk()
    directories = {"data_dirs": ("/data", "/other"), "registry": registry}
    with NativeBroker(disk=disk, **directories) as broker:  # type: ignore[arg-type]
        broker.create_topic("logs", 2)
    disk.rename(Path("/other"), Path("/elsewhere"))
    with NativeBroker(disk=disk, allow_missing_dirs=("/other",), **directories) as broker:  # type: ignore[arg-type]
        return run(broker)


MISSING: dict[RequestType, Callable[[NativeBroker], int]] = {
    **{
        each: lambda broker, t=each: produce_error(
            t, send_produce(broker, t, "logs", GOOD, partition=1)
        )
        for each in PRODUCING
    },
    **{
        each: lambda broker, t=each: fetch_error(broker, t, partition=1)
        for each in (RequestType.FETCH, RequestType.MULTIFETCH)
    },
    RequestType.OFFSETS: lambda broker: broker.send(
        requests.encode_offsets("logs", 1, -1, 1)
    ).offsets[0],
    RequestType.TOPICS: lambda broker: (
        broker.send(requests.encode_topics(["logs"])).topics[1][0].partitions[1].error
    ),
    RequestType.DELETE_RECORDS: lambda broker: (
        broker.send(topic_changes.encode_delete_records("logs", [(1, -1)])).deleted[1][0].error
    ),
}


# --- the others -----------------------------------------------------------------------------------


def offsets_cell(
    code: ErrorCode, name: str, topic: str, partition: int, time: int, max_offsets: int
) -> None:
    def run() -> int:
        with NativeBroker() as broker:
            broker.create_topic("logs")
            request = requests.encode_offsets(topic, partition, time, max_offsets)
            error, offsets = broker.send(request).offsets
            assert offsets == []
            return error

    cell(RequestType.OFFSETS, code, name, run)


offsets_cell(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic", "nowhere", 0, -1, 1)
offsets_cell(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "partition", "logs", 1, -1, 1)
offsets_cell(ErrorCode.INVALID_REQUEST, "max_offsets 0", "logs", 0, -1, 0)
offsets_cell(ErrorCode.INVALID_REQUEST, "max_offsets negative", "logs", 0, -2, -1)
offsets_cell(ErrorCode.INVALID_REQUEST, "time -3", "logs", 0, -3, 1)


cell(RequestType.OFFSETS, ErrorCode.CORRUPT_MESSAGE, "damage", look_up_across_damage)


def unknown_topic() -> int:
    with NativeBroker() as broker:
        error, ((name, topic_error, partitions),) = broker.send(
            requests.encode_topics(["nowhere"])
        ).topics
        assert (error, name, partitions) == (0, b"nowhere", [])
        return topic_error


cell(RequestType.TOPICS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic", unknown_topic)


def too_much_to_describe() -> int:
    with NativeBroker(settings={"limits.fetch_response_bytes_max": 1024}) as broker:
        broker.create_topic("logs", partitions=100)
        error, topics = broker.send(requests.encode_topics()).topics
        assert topics == []
        return error


cell(RequestType.TOPICS, ErrorCode.INVALID_REQUEST, "too much", too_much_to_describe)


def create_cell(
    code: ErrorCode,
    name: str,
    topic: str | bytes = "new",
    partitions: int = 1,
    topic_settings: list[tuple[str, str]] | None = None,
    settings: dict[str, object] | None = None,
) -> None:
    def run() -> int:
        with NativeBroker(settings=settings) as broker:
            broker.create_topic("logs")
            error, message = broker.send(
                create_request(topic, partitions, topic_settings or [])
            ).status
            assert message
            assert [entry.name for entry in broker.manager.topics()] == ["logs"]
            return error

    cell(RequestType.CREATE_TOPIC, code, name, run)


def create_request(topic: str | bytes, partitions: int, pairs: list[tuple[str, str]]) -> bytes:
    """As the codec would make it, but settings may be given twice."""
    name = topic.encode() if isinstance(topic, str) else topic
    body = struct.pack(">h", len(name)) + name + struct.pack(">ih", partitions, len(pairs))
    for text in (part for pair in pairs for part in pair):
        body += struct.pack(">h", len(text)) + text.encode()
    return struct.pack(">ih", 2 + len(body), RequestType.CREATE_TOPIC) + body


create_cell(ErrorCode.INVALID_TOPIC, "illegal name", "a/b")
create_cell(ErrorCode.INVALID_TOPIC, "not UTF-8", b"\xff")
create_cell(ErrorCode.INVALID_TOPIC, "no name", "")
create_cell(ErrorCode.INVALID_TOPIC, "internal topic", "__transaction_state")
create_cell(ErrorCode.TOPIC_ALREADY_EXISTS, "it exists", "logs")
create_cell(ErrorCode.INVALID_PARTITIONS, "no partition", partitions=0)
create_cell(ErrorCode.INVALID_PARTITIONS, "negative", partitions=-1)
create_cell(ErrorCode.INVALID_PARTITIONS, "too many", partitions=1_001)
create_cell(ErrorCode.INVALID_PARTITIONS, "too many topics", settings={"limits.topics_max": 1})
create_cell(ErrorCode.INVALID_CONFIG, "unknown", topic_settings=[("retention.years", "1")])
create_cell(ErrorCode.INVALID_CONFIG, "value", topic_settings=[("retention.ms", "week")])
create_cell(
    ErrorCode.INVALID_CONFIG,
    "twice",
    topic_settings=[("retention.ms", "1"), ("retention.ms", "2")],
)
create_cell(
    ErrorCode.INVALID_CONFIG,
    "twice, under two names",
    topic_settings=[("retention.ms", "1"), ("retention_ms", "2")],
)


def disk_refuses_creation() -> int:
    with NativeBroker() as broker:
        broker.disk.fail("make_directory", OSError(errno.ENOSPC, "No space left on device"))
        error, message = broker.send(requests.encode_create_topic("new", 3)).status
        assert "No space left" in message
        assert broker.manager.topics() == []
        broker.create_topic("new", 3)  # nothing of the first try is in the way
        return error


cell(RequestType.CREATE_TOPIC, ErrorCode.KAFKA_STORAGE_ERROR, "no space", disk_refuses_creation)


def delete_cell(code: ErrorCode, name: str, topic: str | bytes) -> None:
    def run() -> int:
        with NativeBroker() as broker:
            error, message = broker.send(requests.encode_delete_topic(topic)).status
            assert message
            return error

    cell(RequestType.DELETE_TOPIC, code, name, run)


delete_cell(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic", "nowhere")
delete_cell(ErrorCode.INVALID_TOPIC, "illegal name", "../etc")
delete_cell(ErrorCode.INVALID_TOPIC, "internal topic", "__consumer_offsets")


def disk_refuses_deletion() -> int:
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.disk.fail("rename", OSError(errno.EIO, "Input/output error"), path_suffix="-delete")
        error, message = broker.send(requests.encode_delete_topic("logs")).status
        assert "Input/output error" in message
        assert broker.fetch("logs", 0).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return error


cell(RequestType.DELETE_TOPIC, ErrorCode.KAFKA_STORAGE_ERROR, "rename", disk_refuses_deletion)


def alter_cell(
    code: ErrorCode,
    name: str,
    topic: str | bytes = "logs",
    topic_settings: dict[str, str] | None = None,
    *,
    before: dict[str, str] | None = None,
) -> None:
    """A change that must be refused as a whole: with it stands one that is fine."""
    changes = {"retention.ms": "5", **(topic_settings or {})}

    def run() -> int:
        with NativeBroker() as broker:
            broker.create_topic("logs", settings=before)
            request = topic_changes.encode_alter_topic(topic, changes)
            error, message = broker.send(request).status
            assert message
            assert broker.manager.topic("logs").settings == (before or {})
            assert broker.partition("logs").log.config.retention_ms != 5
            return error

    cell(RequestType.ALTER_TOPIC, code, name, run)


alter_cell(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic", "nowhere")
alter_cell(ErrorCode.INVALID_TOPIC, "illegal name", "../etc")
alter_cell(ErrorCode.INVALID_TOPIC, "not UTF-8", b"\xff")
alter_cell(ErrorCode.INVALID_TOPIC, "internal topic", "__consumer_offsets")
alter_cell(ErrorCode.INVALID_CONFIG, "unknown", topic_settings={"retention.years": "1"})
alter_cell(ErrorCode.INVALID_CONFIG, "unknown, put back", topic_settings={"retention.years": ""})
alter_cell(ErrorCode.INVALID_CONFIG, "value", topic_settings={"segment.bytes": "much"})
alter_cell(ErrorCode.INVALID_CONFIG, "out of range", topic_settings={"segment.bytes": "0"})
alter_cell(ErrorCode.INVALID_CONFIG, "twice, under two names", topic_settings={"retention_ms": "2"})
alter_cell(
    ErrorCode.INVALID_CONFIG,
    "against what is set already",
    topic_settings={"min.compaction.lag.ms": "11"},
    before={"max.compaction.lag.ms": "10"},
)


def registry_refuses_alteration() -> int:
    with NativeBroker() as broker:
        broker.create_topic("logs")
        connection = broker.manager.store._registry._connection
        connection.execute("PRAGMA query_only = ON")
        request = topic_changes.encode_alter_topic("logs", {"retention.ms": "5"})
        error, message = broker.send(request).status
        assert "registry" in message
        assert broker.partition("logs").log.config.retention_ms != 5
        connection.execute("PRAGMA query_only = OFF")
        assert broker.send(request).status == (0, "")
        return error


cell(
    RequestType.ALTER_TOPIC,
    ErrorCode.KAFKA_STORAGE_ERROR,
    "registry",
    registry_refuses_alteration,
)


def delete_records_cell(
    code: ErrorCode, name: str, partition: int = 0, offset: int = -1, topic: str | bytes = "logs"
) -> None:
    """Refused for itself, or as a whole where the topic cannot be written to."""

    def run() -> int:
        with NativeBroker() as broker:
            broker.create_topic("logs")
            broker.produce("logs", batch(b"a", b"b"), acks=-1)
            request = topic_changes.encode_delete_records(topic, [(partition, offset)])
            outer, results = broker.send(request).deleted
            assert broker.partition("logs").log.log_start_offset == 0
            if topic != "logs":
                assert results == []
                return outer
            assert [(each.partition, each.log_start_offset) for each in results] == [
                (partition, -1)
            ]
            return results[0].error

    cell(RequestType.DELETE_RECORDS, code, name, run)


delete_records_cell(ErrorCode.OFFSET_OUT_OF_RANGE, "above the high watermark", offset=3)
delete_records_cell(ErrorCode.OFFSET_OUT_OF_RANGE, "negative", offset=-2)
delete_records_cell(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "partition", partition=1)
delete_records_cell(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "negative partition", partition=-1)
delete_records_cell(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic", topic="nowhere")
delete_records_cell(ErrorCode.INVALID_TOPIC, "internal topic", topic="__consumer_offsets")
delete_records_cell(ErrorCode.INVALID_TOPIC, "illegal name", topic="no/such")


def log_start_not_saved() -> int:
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a", b"b"), acks=-1)
        full = OSError(errno.ENOSPC, "No space left on device")
        broker.disk.fail("write", full, path_suffix="checkpoint.tmp")
        request = topic_changes.encode_delete_records("logs", [(0, 1), (7, 1)])
        outer, results = broker.send(request).deleted
        assert [tuple(each) for each in results] == [(0, 56, -1), (7, 3, -1)]
        again = broker.send(request).deleted[1][0]
        assert tuple(again) == (0, 0, 1)  # space is back
        assert outer == 0
        return results[0].error


cell(RequestType.DELETE_RECORDS, ErrorCode.KAFKA_STORAGE_ERROR, "not saved", log_start_not_saved)


# --- more entries than a request may have ---------------------------------------------------------


def too_many(request_type: RequestType) -> int:
    """Two are one too many here; the outer error tells, and nothing was carried out."""
    with NativeBroker(settings={"limits.request_entries_max": 1}) as broker:
        broker.create_topic("logs")
        if request_type is RequestType.MULTIPRODUCE:
            sent = broker.send(*requests.encode_multi_produce(1, 500, [("logs", 0, 2, GOOD)] * 2))
            assert sent.frame[2:] == b"\0\0", "no entries follow"
        elif request_type is RequestType.MULTIFETCH:
            entries = [("logs", 0, 0, 100)] * 2
            sent = broker.send(requests.encode_multi_fetch(1_000, 1, 1_000, 2, entries))
            assert sent.multi_fetched == (42, [])
        elif request_type is RequestType.DELETE_RECORDS:
            sent = broker.send(topic_changes.encode_delete_records("logs", [(0, -1)] * 2))
            assert sent.deleted == (42, [])
        else:
            sent = broker.send(requests.encode_topics(["logs", "logs"]))
            assert sent.topics == (42, [])
        assert broker.partition("logs").log.log_end_offset == 0
        assert broker.requests(request_type.name.lower()).errors == {42: 1}
        return sent.error


for asking in (
    RequestType.MULTIPRODUCE,
    RequestType.MULTIFETCH,
    RequestType.TOPICS,
    RequestType.DELETE_RECORDS,
):
    cell(asking, ErrorCode.INVALID_REQUEST, "entries", lambda t=asking: too_many(t))


# --- the tests ------------------------------------------------------------------------------------


def documented_cells() -> set[tuple[RequestType, ErrorCode]]:
    """Read the table: its header names the requests, its rows begin with the code."""
    text = DOCUMENT.read_text()
    (header,) = re.findall(r"^\| code \|.*$", text, re.MULTILINE)
    names = [name.strip() for name in header.strip("|").split("|")][3:]
    cells = set()
    for row in re.findall(r"^\| *\d+ \| [A-Z_]+ \|.*$", text, re.MULTILINE):
        fields = [field.strip() for field in row.strip().strip("|").split("|")]
        if len(fields) != 3 + len(names):
            continue  # another table
        for name, mark in zip(names, fields[3:], strict=True):
            if mark:
                cells.add((RequestType[name], ErrorCode(int(fields[0]))))
    return cells


def test_given_the_document_when_compared_then_each_of_its_cells_has_a_test_and_no_other_does():
    tested = set(CELLS) | {(each, ErrorCode.KAFKA_STORAGE_ERROR) for each in MISSING}

    assert tested == documented_cells()
    assert len(tested) > 50


@pytest.mark.parametrize(
    ("request_type", "code", "run"),
    [
        pytest.param(request_type, code, run, id=f"{request_type.name}-{code.value}-{name}")
        for (request_type, code), cases in CELLS.items()
        for name, run in cases
    ],
)
def test_given_a_cell_of_the_table_when_brought_about_then_its_code_is_answered(
    request_type: RequestType, code: ErrorCode, run: Cell
):
    assert run() == code


@pytest.mark.parametrize("request_type", list(MISSING), ids=lambda each: each.name)
def test_given_a_missing_directory_when_asked_for_its_partition_then_56_and_never_empty(
    request_type: RequestType, tmp_path: Path
):
    error = with_missing_directory(MISSING[request_type], tmp_path / "registry.sqlite")

    assert error == ErrorCode.KAFKA_STORAGE_ERROR
