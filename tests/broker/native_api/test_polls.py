"""Long polls: what ends the wait of a fetch, and what does not."""

from __future__ import annotations

import pytest

from protocol.error_codes import ErrorCode
from protocol.native import requests
from protocol.simple_message_set import build_set, iterate
from tests.support.native_broker import COMMIT, OS, NativeBroker, Sent, batch

BATCH_BYTES = len(batch(b"a"))


def multi_poll(
    broker: NativeBroker,
    entries: list[tuple[str, int, int, int]],
    *,
    min_bytes: int = 1,
    max_wait_ms: int = 1_000,
    message_format: int = 2,
) -> Sent:
    return broker.send(
        requests.encode_multi_fetch(1 << 20, min_bytes, max_wait_ms, message_format, entries)
    )


@pytest.mark.parametrize("message_format", [0, 1, 2])
def test_given_nothing_new_when_polled_then_the_next_message_ends_the_wait(message_format):
    with NativeBroker() as broker:
        broker.create_topic("logs")
        poll = broker.fetch("logs", 0, max_wait_ms=1_000, message_format=message_format)
        assert poll.is_waiting
        assert not poll.pauses_reading  # later requests of the connection are carried out

        broker.produce("logs", batch(b"a"))

        assert poll.fetched.error == 0
        if message_format == 2:
            assert len(poll.fetched.message_set) == BATCH_BYTES
        else:
            ((offset, value),) = iterate(poll.fetched.message_set, message_format)
            assert (offset, bytes(value)) == (0, b"a")


def test_given_nothing_new_when_the_time_is_over_then_the_answer_is_empty():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        poll = broker.fetch("logs", 0, max_wait_ms=1_000)

        broker.loop.advance(999)
        early = poll.is_waiting
        broker.loop.advance(2)

        assert early
        assert poll.whole == bytes.fromhex("000000020000")
        assert not broker.partition("logs").has_waiters


def test_given_a_time_over_the_limit_when_polled_then_the_limit_counts():
    with NativeBroker(settings={"limits.max_wait_ms_max": 2_000}) as broker:
        broker.create_topic("logs")
        poll = broker.fetch("logs", 0, max_wait_ms=1_000_000)

        broker.loop.advance(2_001)

        assert poll.fetched == (0, b"")


@pytest.mark.parametrize(("min_bytes", "max_wait_ms"), [(0, 1_000), (-5, 1_000), (1, 0), (1, -5)])
def test_given_no_wish_to_wait_when_fetched_then_the_answer_comes_at_once(min_bytes, max_wait_ms):
    with NativeBroker() as broker:
        broker.create_topic("logs")

        sent = broker.fetch("logs", 0, min_bytes=min_bytes, max_wait_ms=max_wait_ms, settle=False)

        assert sent.fetched == (0, b"")


def test_given_min_bytes_when_too_few_came_then_the_poll_goes_on():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        poll = broker.fetch("logs", 0, min_bytes=3 * BATCH_BYTES, max_wait_ms=1_000)

        for _ in range(2):
            broker.produce("logs", batch(b"a"))
        after_two = poll.is_waiting
        broker.produce("logs", batch(b"a"))

        assert after_two
        assert len(poll.fetched.message_set) == 3 * BATCH_BYTES


def test_given_min_bytes_when_the_time_is_over_then_what_is_there_comes():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a"))
        poll = broker.fetch("logs", 0, min_bytes=1_000_000, max_wait_ms=1_000)

        broker.loop.advance(1_001)

        assert len(poll.fetched.message_set) == BATCH_BYTES


def test_given_min_bytes_above_max_bytes_when_max_bytes_are_there_then_they_come():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a"))

        sent = broker.fetch("logs", 0, max_bytes=BATCH_BYTES, min_bytes=10**6, max_wait_ms=1_000)

        assert len(sent.fetched.message_set) == BATCH_BYTES


def test_given_an_append_when_it_is_not_committed_yet_then_the_poll_goes_on():
    with NativeBroker(hold_flush=True) as broker:
        broker.create_topic("logs", settings=COMMIT)
        poll = broker.fetch("logs", 0, max_wait_ms=1_000)

        broker.produce("logs", batch(b"a"))
        before = poll.is_waiting
        broker.flushes.follow()
        broker.loop.settle()

        assert before
        assert len(poll.fetched.message_set) == BATCH_BYTES


def test_given_several_partitions_when_one_has_news_then_the_poll_ends():
    with NativeBroker() as broker:
        broker.create_topic("logs", 3)
        poll = multi_poll(broker, [("logs", number, 0, 1_000) for number in range(3)])

        broker.produce("logs", batch(b"a"), partition=1)

        _, sends = poll.multi_fetched
        assert [len(send.message_set) for send in sends] == [0, BATCH_BYTES, 0]
        assert not any(broker.partition("logs", number).has_waiters for number in range(3))


def test_given_min_bytes_over_several_partitions_when_all_together_have_them_then_it_ends():
    with NativeBroker() as broker:
        broker.create_topic("logs", 2)
        entries = [("logs", number, 0, 1_000) for number in range(2)]
        poll = multi_poll(broker, entries, min_bytes=2 * BATCH_BYTES)

        broker.produce("logs", batch(b"a"), partition=0)
        after_one = poll.is_waiting
        broker.produce("logs", batch(b"a"), partition=1)

        assert after_one
        assert not poll.is_waiting


def test_given_an_error_in_one_entry_when_polled_then_the_answer_comes_at_once():
    with NativeBroker() as broker:
        broker.create_topic("logs")

        poll = multi_poll(broker, [("logs", 0, 0, 1_000), ("logs", 7, 0, 1_000)])

        _, sends = poll.multi_fetched
        assert [send.error for send in sends] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_given_one_partition_twice_when_polled_then_both_entries_are_answered():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        poll = multi_poll(broker, [("logs", 0, 0, 1_000)] * 2)

        broker.produce("logs", batch(b"a"))

        _, sends = poll.multi_fetched
        assert [len(send.message_set) for send in sends] == [BATCH_BYTES] * 2


def test_given_the_topic_is_deleted_when_polled_then_the_wait_ends():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        poll = broker.fetch("logs", 0, max_wait_ms=1_000)

        broker.send(requests.encode_delete_topic("logs"))

        assert poll.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_given_the_broker_drains_when_polled_then_all_waits_end_and_none_begins():
    with NativeBroker() as broker:
        broker.create_topic("logs", 2)
        polls = [broker.fetch("logs", 0, partition=n, max_wait_ms=1_000) for n in range(2)]

        broker.manager.drain()
        broker.loop.settle()
        late = broker.fetch("logs", 0, max_wait_ms=1_000, settle=False)

        assert [poll.fetched for poll in (*polls, late)] == [(0, b"")] * 3


def test_given_a_failed_sync_when_polled_then_the_wait_ends_with_56():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.create_topic("other")
        polls = [broker.fetch(topic, 0, max_wait_ms=1_000) for topic in ("logs", "other")]
        broker.disk.fail("sync", OSError(5, "Input/output error"), path_suffix=".log")

        broker.produce("logs", batch(b"a"))

        assert [poll.error for poll in polls] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


def test_given_a_client_that_goes_away_when_it_polled_then_nothing_is_left_of_it():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        poll = broker.fetch("logs", 0, max_wait_ms=1_000)

        poll.abandon()
        broker.produce("logs", batch(b"a"))
        broker.loop.advance(2_000)

        assert poll.is_waiting
        assert not broker.partition("logs").has_waiters
        assert broker.requests("fetch").latency.count == 0


def test_given_polls_and_a_produce_when_it_is_committed_then_all_are_answered():
    with NativeBroker() as broker:
        broker.create_topic("logs", settings=OS)
        polls = [broker.fetch("logs", 0, max_wait_ms=1_000) for _ in range(20)]

        broker.produce("logs", batch(b"a"))

        assert [len(poll.fetched.message_set) for poll in polls] == [BATCH_BYTES] * 20


def test_given_a_large_set_when_it_ends_a_poll_for_messages_then_the_time_does_not_cut_it_short():
    values = [bytes(200)] * 3_000
    with NativeBroker() as broker:
        broker.create_topic("logs")
        poll = broker.fetch("logs", 0, max_wait_ms=50, message_format=0)

        broker.produce("logs", build_set(values, format=0), message_format=0, settle=False)
        while broker.partition("logs").log.high_watermark == 0:
            broker.loop.turn()
        for _ in range(5):
            broker.loop.turn()
        broker.clock.advance(ms=100)  # the time is over while the answer is being made
        broker.loop.settle()

        assert len(list(iterate(poll.fetched.message_set, 0))) == 3_000


def test_given_polls_when_answered_then_their_waiting_is_in_the_latency():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.fetch("logs", 0, max_wait_ms=3_000)

        broker.loop.advance(3_001)

        latency = broker.requests("fetch").latency
        assert latency.count == 1
        assert latency.seconds_sum == pytest.approx(3, abs=0.01)
