"""Fetches of what is not in memory, of old segments and of markers; and what is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from protocol.legacy_message_set_builder import build_entry
from protocol.native import requests
from protocol.record_batch import Record
from protocol.record_batch_builder import build_batch
from tests.support.fake_disk import FakeDisk, FakeFile
from tests.support.fetched_values import records, simple
from tests.support.native_broker import CLOCK_START_MS, NativeBroker, batch

SEGMENT = Path("/data/logs-0/00000000000000000000.log")


# --- from the disk --------------------------------------------------------------------------------


def test_given_cold_bytes_when_fetched_then_a_thread_reads_them_ahead(monkeypatch):
    with NativeBroker(hold_threads=True) as broker:
        broker.create_topic("logs", 1, {"segment.bytes": "100"})
        for value in (b"a", b"b"):
            broker.produce("logs", batch(value))
        cold = {"is": True}
        monkeypatch.setattr(FakeFile, "is_cached", lambda self, position, size: not cold["is"])

        sent = broker.fetch("logs", 0, max_bytes=10)
        assert sent.is_waiting
        cold["is"] = False
        broker.jobs.follow()
        broker.loop.settle()

        assert [record.value for record in records(sent.fetched.message_set)] == [b"a"]


def test_given_cold_bytes_that_cannot_be_read_when_fetched_then_only_that_entry_fails(monkeypatch):
    with NativeBroker(hold_threads=True) as broker:
        broker.create_topic("logs", 2, {"segment.bytes": "100"})
        for value in (b"a", b"b"):
            for number in range(2):
                broker.produce("logs", batch(value), partition=number)
        monkeypatch.setattr(
            FakeFile, "is_cached", lambda self, position, size: "logs-0" not in str(self.path)
        )

        entries = [("logs", 0, 0, 10), ("logs", 1, 0, 1_000)]
        sent = broker.send(requests.encode_multi_fetch(1_000, 1, 0, 2, entries))
        broker.disk.fail("read", OSError(5, "Input/output error"), path_suffix=SEGMENT.name)
        broker.jobs.follow()
        broker.loop.settle()

        _, (broken, sound) = sent.multi_fetched
        assert (broken.error, sound.error) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
        assert len(sound.message_set) > 0


def old_kafka_directory(disk: FakeDisk, entries: bytes) -> None:
    """A partition as a Kafka of before 0.11 left it."""
    for path in (Path("/data"), Path("/data/logs-0")):
        disk.make_directory(path)
    file = disk.open(SEGMENT, create=True)
    file.write([entries], 0)
    file.close()


@pytest.mark.parametrize("magic", [0, 1])
def test_given_an_old_kafka_segment_when_fetched_then_it_is_converted(magic):
    disk = FakeDisk()
    old = [
        build_entry(n, b"k", b"v%d" % n, magic=magic, timestamp=CLOCK_START_MS) for n in range(4)
    ]
    old_kafka_directory(disk, b"".join(old))
    with NativeBroker(disk=disk) as broker:
        broker.produce("logs", batch(b"new"))

        as_batches = records(broker.fetch("logs", 1).fetched.message_set)
        as_messages = simple(broker.fetch("logs", 1, message_format=0), 0)

        assert [(r.offset, r.key, r.value) for r in as_batches if r.offset >= 1] == [
            (1, b"k", b"v1"),
            (2, b"k", b"v2"),
            (3, b"k", b"v3"),
            (4, None, b"new"),
        ]
        assert as_messages == [(1, b"v1"), (2, b"v2"), (3, b"v3"), (4, b"new")]


def test_given_a_large_old_segment_when_fetched_then_it_takes_turns():
    disk = FakeDisk()
    old = [build_entry(n, None, bytes(1_000), magic=0) for n in range(300)]
    old_kafka_directory(disk, b"".join(old))
    with NativeBroker(disk=disk) as broker:
        sent = broker.fetch("logs", 0, settle=False)
        assert sent.is_waiting
        broker.loop.settle()

        assert [record.offset for record in records(sent.fetched.message_set)] == list(range(300))


def test_given_an_old_segment_when_fetched_with_little_room_then_the_answer_stays_within_it():
    disk = FakeDisk()
    old = [build_entry(n * 2**31, None, b"", magic=0) for n in range(50)]  # a batch for each
    old_kafka_directory(disk, b"".join(old))
    with NativeBroker(disk=disk) as broker:
        found = broker.fetch("logs", 0, max_bytes=500).fetched.message_set

        assert 0 < len(found) <= 500


# --- markers --------------------------------------------------------------------------------------


def with_markers(broker: NativeBroker, count: int) -> None:
    """Control batches, as a coordinator writes them; clients cannot."""
    log = broker.partition("logs").log
    for _ in range(count):
        offset = log.log_end_offset
        marker = Record(offset, CLOCK_START_MS, b"\0\0\0\1", b"\0\0\0\0\0\0")
        data = build_batch([marker], base_offset=offset, is_control=True, producer_id=1)
        log.active.append(offset, CLOCK_START_MS, offset, (data,), len(data))
        log.log_end_offset += 1
        log.watermark.move_to(log.log_end_offset)


def test_given_markers_when_fetched_as_messages_then_they_are_left_out():
    with NativeBroker() as broker:
        broker.create_topic("logs", 1, {"flush.policy": "os"})
        broker.produce("logs", batch(b"a"))
        with_markers(broker, 2)
        broker.produce("logs", batch(b"b"))

        assert simple(broker.fetch("logs", 0, message_format=0), 0) == [(0, b"a"), (3, b"b")]


def test_given_nothing_but_markers_when_polled_as_messages_then_it_waits_for_a_message():
    """Else a client that goes on from its last offset would ask without end."""
    with NativeBroker() as broker:
        broker.create_topic("logs", 1, {"flush.policy": "os"})
        broker.produce("logs", batch(b"a"))
        with_markers(broker, 2)

        at_once = broker.fetch("logs", 1, message_format=0)
        waiting = broker.fetch("logs", 1, message_format=0, max_wait_ms=1_000)
        assert waiting.is_waiting
        broker.produce("logs", batch(b"b"))

        assert simple(at_once, 0) == []
        assert simple(waiting, 0) == [(3, b"b")]


# --- what is counted ------------------------------------------------------------------------------


def test_given_fetches_when_handled_then_they_are_counted():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a", b"b"))
        broker.fetch("logs", 0)
        broker.fetch("logs", 0, message_format=0)
        broker.fetch("logs", 7)

        metrics, partition = broker.requests("fetch"), broker.partition("logs")

        assert (metrics.count, metrics.latency.count) == (3, 3)
        assert metrics.errors == {ErrorCode.OFFSET_OUT_OF_RANGE: 1}
        assert partition.messages_out == 2
        assert partition.bytes_out == len(batch(b"a", b"b")) + 2 * (17 + 1)
