"""FETCH and MULTIFETCH: which bytes come, in which format, within which bounds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.error_codes import ErrorCode
from protocol.legacy_message_set_builder import build_entry
from protocol.native import requests
from protocol.record_batch import Record, iterate_batches, iterate_records
from protocol.record_batch_builder import build_batch
from protocol.simple_message_set import build_set, iterate
from tests.support.fake_disk import FakeDisk, FakeFile
from tests.support.native_broker import CLOCK_START_MS, NativeBroker, Sent, batch

SEGMENT = Path("/data/logs-0/00000000000000000000.log")


def simple(sent: Sent, message_format: int) -> list[tuple[int, bytes]]:
    error, message_set = sent.fetched
    assert error == 0
    return [(offset, bytes(value)) for offset, value in iterate(message_set, message_format)]


def records(message_set: memoryview) -> list[Record]:
    return [
        record
        for position, _ in iterate_batches(message_set)
        for record in iterate_records(message_set, position)
    ]


def multi_fetch(
    broker: NativeBroker,
    entries: list[tuple[str, int, int, int]],
    *,
    max_bytes: int = 1 << 20,
    message_format: int = 2,
) -> list[tuple[int, bytes]]:
    request = requests.encode_multi_fetch(max_bytes, 1, 0, message_format, entries)
    error, sends = broker.send(request).multi_fetched
    assert error == 0
    return [(send.error, bytes(send.message_set)) for send in sends]


# --- format 2 -------------------------------------------------------------------------------------


def test_given_an_offset_inside_a_batch_when_fetched_then_that_batch_comes_whole():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a", b"b", b"c"))
        broker.produce("logs", batch(b"d"))

        message_set = broker.fetch("logs", 2).fetched.message_set

        assert [record.offset for record in records(message_set)] == [0, 1, 2, 3]


def test_given_max_bytes_when_fetched_then_a_first_larger_batch_comes_whole():
    size = len(batch(b"a"))
    with NativeBroker() as broker:
        broker.create_topic("logs")
        for _ in range(3):
            broker.produce("logs", batch(b"a"))

        sizes = [
            len(broker.fetch("logs", 0, max_bytes=max_bytes).fetched.message_set)
            for max_bytes in (0, 1, size, 2 * size, 100 * size)
        ]

        assert sizes == [0, size, size, 2 * size, 3 * size]


def test_given_several_segments_when_fetched_then_one_answer_spans_them():
    with NativeBroker() as broker:
        broker.create_topic("logs", 1, {"segment.bytes": "100"})
        for value in (b"a", b"b", b"c"):
            broker.produce("logs", batch(value))

        message_set = broker.fetch("logs", 1).fetched.message_set

        assert [record.value for record in records(message_set)] == [b"b", b"c"]


def test_given_the_high_watermark_when_fetched_then_the_answer_is_six_bytes():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a"))

        assert broker.fetch("logs", 1).whole == bytes.fromhex("000000020000")


def test_given_unsynced_messages_when_fetched_between_high_watermark_and_log_end_then_empty():
    with NativeBroker(hold_flush=True) as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a", b"b"))

        answers = [broker.fetch("logs", offset).fetched for offset in (0, 1, 2)]
        above = broker.fetch("logs", 3).error

        assert answers == [(0, b"")] * 3
        assert above == ErrorCode.OFFSET_OUT_OF_RANGE
        broker.flushes.follow()


def test_given_a_bound_of_the_brokers_when_fetched_then_no_answer_is_larger():
    size = len(batch(bytes(400)))
    with NativeBroker(settings={"limits.fetch_response_bytes_max": 1_100}) as broker:
        broker.create_topic("logs", 2)
        for number in range(2):
            for _ in range(5):
                broker.produce("logs", batch(bytes(400)), partition=number)

        single = broker.fetch("logs", 0, max_bytes=2**31 - 1)
        entries = [("logs", 0, 0, 2**31 - 1), ("logs", 1, 0, 2**31 - 1)]
        multi = broker.send(requests.encode_multi_fetch(2**31 - 1, 1, 0, 2, entries))
        as_messages = broker.fetch("logs", 0, max_bytes=2**31 - 1, message_format=0)

        assert size < len(single.fetched.message_set) <= 1_100
        for sent in (single, multi, as_messages):
            assert len(sent.frame) <= 1_100


# --- formats 0 and 1 ------------------------------------------------------------------------------


@pytest.mark.parametrize("message_format", [0, 1])
def test_given_batches_when_fetched_as_messages_then_they_start_at_exactly_the_offset(
    message_format,
):
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a", None, b"c"))
        broker.produce("logs", build_set([b"d"], format=1, codec=1), message_format=1)

        found = simple(broker.fetch("logs", 1, message_format=message_format), message_format)

        assert found == [(1, b""), (2, b"c"), (3, b"d")]


def test_given_max_bytes_when_fetched_as_messages_then_it_cuts_between_them():
    entry_bytes = 17 + 3
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"one", b"two", b"six"))

        counts = [
            len(simple(broker.fetch("logs", 0, max_bytes=max_bytes, message_format=0), 0))
            for max_bytes in (0, 1, entry_bytes, 2 * entry_bytes - 1, 2 * entry_bytes, 10_000)
        ]

        assert counts == [0, 1, 1, 1, 2, 3]


@pytest.mark.parametrize("produced_as", [0, 1, 2])
@pytest.mark.parametrize("fetched_as", [0, 1, 2])
def test_given_any_formats_when_produced_and_fetched_then_the_values_are_the_same(
    produced_as, fetched_as
):
    lines = [b"line %d\r" % n for n in range(50)] + [b"", b"last"]
    sent = batch(*lines) if produced_as == 2 else build_set(lines, format=produced_as)
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", sent, message_format=produced_as)

        answer = broker.fetch("logs", 0, message_format=fetched_as)

        if fetched_as == 2:
            found = [record.value for record in records(answer.fetched.message_set)]
        else:
            found = [value for _, value in simple(answer, fetched_as)]
        assert found == lines


def test_given_a_large_answer_when_converted_then_it_takes_turns_with_reading_paused():
    values = [b"%05d" % n + bytes(200) for n in range(3_000)]
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(*values))

        sent = broker.fetch("logs", 0, message_format=0, settle=False)
        assert sent.is_waiting
        assert sent.pauses_reading
        broker.loop.settle()

        assert [value for _, value in simple(sent, 0)] == values


def test_given_a_client_that_goes_away_when_its_answer_is_made_then_that_stops():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(*[bytes(200)] * 3_000))

        sent = broker.fetch("logs", 0, message_format=0, settle=False)
        sent.abandon()
        broker.loop.settle()

        assert sent.is_waiting  # nobody made the rest of it
        assert broker.requests("fetch").latency.count == 0


# --- several partitions ---------------------------------------------------------------------------


def test_given_several_entries_when_fetched_then_each_has_its_answer_in_order():
    with NativeBroker() as broker:
        broker.create_topic("logs", 2)
        broker.produce("logs", batch(b"a"), partition=0)
        broker.produce("logs", batch(b"b", b"c"), partition=1)

        entries = [
            ("logs", 1, 1, 1_000),
            ("logs", 5, 0, 1_000),
            ("logs", 0, 1, 1_000),
            ("logs", 0, 0, 1_000),
            ("logs", 0, 0, 1_000),
            ("logs", 0, 9, 1_000),
        ]
        found = multi_fetch(broker, entries, message_format=0)

        assert [(error, list_values(data)) for error, data in found] == [
            (0, [b"c"]),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
            (0, []),
            (0, [b"a"]),
            (0, [b"a"]),
            (ErrorCode.OFFSET_OUT_OF_RANGE, []),
        ]


def list_values(data: bytes) -> list[bytes]:
    return [bytes(value) for _, value in iterate(data, 0)]


@pytest.mark.parametrize(("message_format", "max_bytes"), [(0, 20), (2, 1_000)])
def test_given_many_entries_when_fetched_then_they_take_turns_and_keep_their_order(
    message_format, max_bytes
):
    with NativeBroker() as broker:
        broker.create_topic("logs", 2)
        for number, value in enumerate((b"a", b"b")):
            broker.produce("logs", batch(value, value), partition=number)
        entries = [("logs", number % 2, 0, max_bytes) for number in range(250)]
        request = requests.encode_multi_fetch(1 << 20, 1, 0, message_format, entries)

        sent = broker.send(request, settle=False)
        waited, paused = sent.is_waiting, sent.pauses_reading
        broker.loop.settle()

        error, sends = sent.multi_fetched
        sets = [bytes(send.message_set) for send in sends]
        assert (waited, paused, error) == (True, True, 0)
        assert sets[0] != sets[1]
        assert sets == sets[:2] * 125


def test_given_two_empty_entries_when_fetched_then_the_total_length_is_14():
    with NativeBroker() as broker:
        broker.create_topic("logs")

        entries = [("logs", 0, 0, 1_000)] * 2
        sent = broker.send(requests.encode_multi_fetch(1_000, 1, 0, 2, entries))

        assert sent.whole == bytes.fromhex("0000000e0000 000000020000 000000020000")


@pytest.mark.parametrize("message_format", [0, 2])
def test_given_little_room_when_fetched_then_only_the_first_with_data_exceeds_it(message_format):
    """KIP-74."""
    with NativeBroker() as broker:
        broker.create_topic("logs", 3)
        for number in (1, 2):
            broker.produce("logs", batch(bytes(500)), partition=number)

        entries = [("logs", number, 0, 10) for number in range(3)]
        found = multi_fetch(broker, entries, max_bytes=10, message_format=message_format)

        assert [bool(data) for _, data in found] == [False, True, False]


@pytest.mark.parametrize("message_format", [0, 2])
def test_given_a_bound_on_the_whole_when_fetched_then_it_holds_over_all_entries(message_format):
    with NativeBroker() as broker:
        broker.create_topic("logs", 4)
        for number in range(4):
            for _ in range(4):
                broker.produce("logs", batch(bytes(83)), partition=number)

        entries = [("logs", number, 0, 1_000) for number in range(4)]
        found = multi_fetch(broker, entries, max_bytes=700, message_format=message_format)

        sizes = [len(data) for _, data in found]
        assert 500 < sum(sizes) <= 700
        assert sizes[3] == 0


def test_given_no_entries_when_fetched_then_the_answer_comes_at_once_and_is_empty():
    with NativeBroker() as broker:
        sent = broker.send(requests.encode_multi_fetch(1_000, 1, 60_000, 2, []))

        assert sent.whole == bytes.fromhex("000000020000")


@settings(deadline=None, max_examples=40)
@given(
    counts=st.lists(st.integers(0, 6), min_size=1, max_size=3),
    asked=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 400)), max_size=5
    ),
    max_bytes=st.integers(0, 800),
    message_format=st.sampled_from([0, 1, 2]),
)
def test_given_any_request_when_fetched_then_the_bounds_and_the_order_hold(
    counts, asked, max_bytes, message_format
):
    with NativeBroker() as broker:
        broker.create_topic("logs", len(counts))
        for number, count in enumerate(counts):
            for n in range(count):
                broker.produce("logs", batch(b"%d" % n * 20), partition=number)

        entries = [("logs", number, offset, room) for number, offset, room in asked]
        found = multi_fetch(broker, entries, max_bytes=max_bytes, message_format=message_format)

        room = max_bytes
        is_first = True
        for (_, number, offset, entry_bytes), (error, data) in zip(entries, found, strict=True):
            if number >= len(counts):
                assert error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif offset > counts[number]:
                assert error == ErrorCode.OFFSET_OUT_OF_RANGE
            elif data:
                assert is_first or len(data) <= min(room, entry_bytes)
                room -= len(data)
                is_first = False


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
