"""PRODUCE and MULTIPRODUCE: when they are answered, under which acks and policy."""

from __future__ import annotations

import pytest

from broker.requests.produce_entries import ENTRIES_PER_STEP
from protocol.error_codes import ErrorCode
from protocol.native import requests
from protocol.simple_message_set import build_set
from tests.support.native_broker import COMMIT, INTERVAL, OS, NativeBroker, batch
from tests.support.stored_values import values

UNSYNCED = (INTERVAL, OS)


# --- when it is answered --------------------------------------------------------------------------


def test_given_acks_all_under_commit_when_produced_then_it_waits_for_the_sync():
    with NativeBroker(hold_flush=True) as broker:
        broker.create_topic("logs", settings=COMMIT)

        sent = broker.produce("logs", batch(b"a"), acks=-1)
        assert sent.is_waiting
        assert not sent.pauses_reading  # later requests are carried out meanwhile
        assert broker.fetch("logs", 0).fetched.message_set == b""  # not above the tide line
        broker.flushes.follow()
        broker.loop.settle()

        assert sent.produced == (0, 0, -1, 1)
        assert values(broker) == [b"a"]


def test_given_acks_one_under_commit_when_produced_then_the_answer_does_not_wait():
    with NativeBroker(hold_flush=True) as broker:
        broker.create_topic("logs", settings=COMMIT)

        sent = broker.produce("logs", batch(b"a"), acks=1)

        assert sent.produced == (0, 0, -1, 1)
        assert broker.partition("logs").log.high_watermark == 0
        broker.flushes.follow()


@pytest.mark.parametrize("policy", UNSYNCED)
def test_given_acks_all_without_syncs_when_produced_then_the_answer_comes_at_once(policy):
    with NativeBroker(hold_flush=True) as broker:
        broker.create_topic("logs", settings=policy)

        sent = broker.produce("logs", batch(b"a"), acks=-1, settle=False)

        assert sent.produced == (0, 0, -1, 1)
        assert values(broker) == [b"a"]
        broker.flushes.follow()


def test_given_acks_none_when_produced_then_there_is_no_answer_and_the_data_is_there():
    with NativeBroker() as broker:
        broker.create_topic("logs")

        answers = [
            broker.produce("logs", batch(b"a"), acks=0).whole,
            broker.produce("logs", build_set([b"b"], format=0), acks=0, message_format=0).whole,
            broker.send(*requests.encode_multi_produce(0, 0, [("logs", 0, 2, batch(b"c"))])).whole,
        ]

        assert answers == [None] * 3
        assert values(broker) == [b"a", b"b", b"c"]
        assert broker.connection.closed == []


def test_given_many_entries_when_produced_then_they_take_turns_and_keep_their_order():
    numbers = [b"%d" % number for number in range(2 * ENTRIES_PER_STEP + 1)]
    with NativeBroker() as broker:
        broker.create_topic("logs")
        entries = [("logs", 0, 2, batch(number)) for number in numbers]

        sent = broker.send(*requests.encode_multi_produce(1, 0, entries), settle=False)
        at_once = broker.partition("logs").log.log_end_offset
        waited, paused = sent.is_waiting, sent.pauses_reading
        broker.loop.settle()

        assert (at_once, waited, paused) == (ENTRIES_PER_STEP, True, True)
        assert [answer.base_offset for answer in sent.multi_produced] == list(range(len(numbers)))
        assert values(broker) == numbers


def test_given_acks_none_and_too_many_entries_when_produced_then_the_connection_is_closed():
    with NativeBroker(settings={"limits.request_entries_max": 1}) as broker:
        broker.create_topic("logs")
        entries = [("logs", 0, 2, batch(b"a"))] * 2

        sent = broker.send(*requests.encode_multi_produce(0, 0, entries))

        assert sent.whole is None
        assert broker.connection.closed == [("produce_failed", "INVALID_REQUEST")]
        assert broker.partition("logs").log.log_end_offset == 0


@pytest.mark.parametrize("message_format", [0, 2])
def test_given_acks_none_and_an_error_when_produced_then_the_connection_is_closed(message_format):
    with NativeBroker() as broker:
        broker.create_topic("logs")

        sent = broker.produce("logs", b"damaged" * 10, acks=0, message_format=message_format)

        assert sent.whole is None
        ((reason, detail),) = broker.connection.closed
        assert reason == "produce_failed"
        assert detail in ("CORRUPT_MESSAGE", "MESSAGE_TOO_LARGE")


def test_given_one_sync_when_many_waited_then_each_gets_its_own_answer():
    with NativeBroker(hold_flush=True) as broker:
        broker.create_topic("logs", settings=COMMIT)

        sent = [broker.produce("logs", batch(b"%d" % n, b"x"), acks=-1) for n in range(10)]
        broker.flushes.follow()
        broker.loop.settle()

        assert [each.produced for each in sent] == [(0, 2 * n, -1, 2) for n in range(10)]


def test_given_a_timeout_when_the_sync_comes_later_then_the_data_stays():
    with NativeBroker(hold_flush=True) as broker:
        broker.create_topic("logs", settings=COMMIT)
        sent = broker.produce("logs", batch(b"a"), acks=-1, timeout_ms=200)

        broker.loop.advance(199)
        early = sent.is_waiting
        broker.loop.advance(100)
        broker.flushes.follow()
        broker.loop.settle()

        assert early
        assert sent.produced == (ErrorCode.REQUEST_TIMED_OUT, -1, -1, 0)
        assert values(broker) == [b"a"]


def test_given_a_deleted_topic_when_a_produce_waits_for_its_commit_then_it_ends():
    with NativeBroker(hold_flush=True) as broker:
        broker.create_topic("logs", settings=COMMIT)
        sent = broker.produce("logs", batch(b"a"), acks=-1)

        deletion = broker.send(requests.encode_delete_topic("logs"))

        assert sent.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert deletion.is_waiting  # for the sync that is under way
        broker.flushes.follow()
        broker.loop.settle()
        assert deletion.status == (0, "")
        assert broker.fatal == []
