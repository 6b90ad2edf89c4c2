"""OFFSETS: by time, the high watermark, the log start, segments (R33)."""

from __future__ import annotations

import pytest

from protocol.compression import Codec
from protocol.error_codes import ErrorCode
from protocol.native import requests
from protocol.record_batch import Record
from protocol.record_batch_builder import build_batch
from tests.support.native_broker import CLOCK_START_MS, NativeBroker, batch
from tests.support.records import sealed


def ask(broker: NativeBroker, time: int, max_offsets: int = 1) -> list[int]:
    error, offsets = broker.send(requests.encode_offsets("logs", 0, time, max_offsets)).offsets
    assert error == 0
    return offsets


def test_given_a_log_when_asked_for_its_ends_then_they_come():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        empty = (ask(broker, -1), ask(broker, -2))
        broker.produce("logs", batch(b"a", b"b"))

        assert empty == ([0], [0])
        assert (ask(broker, -1), ask(broker, -2)) == ([2], [0])


def test_given_unsynced_messages_when_asked_then_the_high_watermark_is_below_them():
    with NativeBroker(hold_flush=True) as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a"))

        assert ask(broker, -1) == [0]
        broker.flushes.follow()


@pytest.mark.parametrize(
    ("max_offsets", "expected"), [(1, [5]), (2, [5, 4]), (4, [5, 4, 2, 0]), (99, [5, 4, 2, 0])]
)
def test_given_segments_when_more_offsets_are_asked_for_then_their_first_ones_come(
    max_offsets, expected
):
    with NativeBroker() as broker:
        broker.create_topic("logs", 1, {"segment.bytes": "140"})
        broker.produce("logs", batch(b"a" * 30, b"b" * 30))
        broker.produce("logs", batch(b"c" * 30, b"d" * 30))
        broker.produce("logs", batch(b"e"))

        assert ask(broker, -1, max_offsets) == expected


def test_given_timestamps_when_asked_for_a_time_then_the_first_message_at_or_after_it_comes():
    """R33"""
    times = [CLOCK_START_MS + 10 * n for n in range(4)]
    with NativeBroker() as broker:
        broker.create_topic("logs")
        for first in (0, 2):
            records = [Record(n, times[first + n], None, b"x") for n in range(2)]
            broker.produce("logs", build_batch(records))

        found = [ask(broker, time) for time in (0, times[0], times[1] - 5, times[2], times[3] + 1)]

        assert found == [[0], [0], [1], [2], []]


def growing(max_timestamp: int = CLOCK_START_MS) -> bytes:
    """A few bytes that grow to four megabytes."""
    records = [Record(n, CLOCK_START_MS, None, bytes(400_000)) for n in range(10)]
    return bytes(sealed(build_batch(records, codec=Codec.ZSTD), max_timestamp=max_timestamp))


def test_given_a_batch_that_grows_when_asked_for_a_time_then_the_loop_does_not_wait_for_it():
    with NativeBroker(hold_threads=True) as broker:
        broker.create_topic("logs")
        broker.produce("logs", growing())

        sent = broker.send(requests.encode_offsets("logs", 0, CLOCK_START_MS, 1))
        waited, paused = sent.is_waiting, sent.pauses_reading
        broker.jobs.follow()
        broker.loop.settle()

        assert (waited, paused) == (True, True)
        assert sent.offsets == (0, [0])
        assert broker.requests("offsets").latency.count == 1


def test_given_a_look_up_under_way_when_its_topic_is_deleted_then_there_is_no_such_topic():
    with NativeBroker(hold_threads=True) as broker:
        broker.create_topic("logs")
        broker.produce("logs", growing(max_timestamp=CLOCK_START_MS + 1))
        broker.produce("logs", batch(b"next", now_ms=CLOCK_START_MS + 1))
        sent = broker.send(requests.encode_offsets("logs", 0, CLOCK_START_MS + 1, 1))

        deleted = broker.send(requests.encode_delete_topic("logs"))
        broker.jobs.follow()
        broker.loop.settle()

        assert deleted.status == (0, "")
        assert sent.offsets == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


def test_given_a_look_up_under_way_when_its_client_goes_then_it_ends():
    with NativeBroker(hold_threads=True) as broker:
        broker.create_topic("logs")
        broker.produce("logs", growing())
        sent = broker.send(requests.encode_offsets("logs", 0, CLOCK_START_MS, 1))

        sent.abandon()
        broker.loop.settle()

        ((job, _),) = broker.jobs.jobs
        assert job.cancelled()
        assert not broker.api.runner._tasks


def test_given_requests_when_handled_then_they_are_counted():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        ask(broker, -1)
        broker.send(requests.encode_offsets("logs", 0, -1, 0))

        assert broker.requests("offsets").count == 2
        assert sum(broker.requests("offsets").errors.values()) == 1
