"""Topic error cells: OFFSETS and TOPICS, and what makes, changes and deletes topics."""

from __future__ import annotations

import errno
import struct

from protocol.error_codes import ErrorCode
from protocol.native import requests, topic_changes, transactions
from protocol.native.request_types import RequestType
from tests.support.error_cells import Cells
from tests.support.native_broker import NativeBroker, batch

CELLS = Cells()
cell = CELLS.add


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


def transactions_cell(
    code: ErrorCode, name: str, topic: str, partition: int, start: int, end: int
) -> None:
    def run() -> int:
        with NativeBroker() as broker:
            broker.create_topic("logs")
            request = transactions.encode_transactions(topic, partition, start, end)
            error, last_stable_offset, aborted = broker.send(request).transactions
            assert (last_stable_offset, aborted) == (-1, [])
            return error

    cell(RequestType.TRANSACTIONS, code, name, run)


transactions_cell(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic", "nowhere", 0, 0, 1)
transactions_cell(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "partition", "logs", 1, 0, 1)
transactions_cell(ErrorCode.INVALID_REQUEST, "start", "logs", 0, -1, 1)
transactions_cell(ErrorCode.INVALID_REQUEST, "end", "logs", 0, 0, -1)


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
