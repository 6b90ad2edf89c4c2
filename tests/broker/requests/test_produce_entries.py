"""MULTIPRODUCE, topics made by producing, APPEND_AT, and what is counted."""

from __future__ import annotations

import pytest

from protocol.error_codes import ErrorCode
from protocol.native import requests
from protocol.simple_message_set import build_set
from tests.support.native_broker import COMMIT, OS, NativeBroker, batch
from tests.support.stored_values import values

# --- several entries ------------------------------------------------------------------------------


def test_given_good_and_bad_entries_when_produced_then_each_has_its_own_answer():
    entries = [
        ("logs", 0, 2, batch(b"a")),
        ("logs", 9, 2, batch(b"x")),
        ("logs", 1, 0, build_set([b"b", b"c"], format=0)),
        ("logs", 0, 2, b"damaged" * 20),
        ("logs", 0, 1, build_set([b"d"], format=1)),
        ("logs", 0, 2, batch(b"e")),
    ]
    with NativeBroker() as broker:
        broker.create_topic("logs", 2)

        answers = broker.send(*requests.encode_multi_produce(1, 0, entries)).multi_produced

        assert [(answer.error, answer.base_offset) for answer in answers] == [
            (0, 0),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
            (0, 0),
            (ErrorCode.CORRUPT_MESSAGE, -1),
            (0, 1),
            (0, 2),
        ]
        assert values(broker) == [b"a", b"d", b"e"]
        assert values(broker, partition=1) == [b"b", b"c"]


def test_given_acks_all_when_several_are_produced_then_the_answer_waits_for_the_last():
    entries = [("slow", 0, 2, batch(b"a")), ("quick", 0, 2, batch(b"b"))]
    with NativeBroker(hold_flush=True) as broker:
        broker.create_topic("slow", settings=COMMIT)
        broker.create_topic("quick", settings=OS)

        sent = broker.send(*requests.encode_multi_produce(-1, 1_000, entries))
        assert sent.is_waiting
        broker.flushes.follow()
        broker.loop.settle()

        assert [answer.error for answer in sent.multi_produced] == [0, 0]


def test_given_acks_all_when_one_of_several_times_out_then_only_that_says_so():
    entries = [("slow", 0, 2, batch(b"a")), ("quick", 0, 2, batch(b"b"))]
    with NativeBroker(hold_flush=True) as broker:
        broker.create_topic("slow", settings=COMMIT)
        broker.create_topic("quick", settings=OS)

        sent = broker.send(*requests.encode_multi_produce(-1, 100, entries))
        broker.loop.advance(200)

        assert [answer.error for answer in sent.multi_produced] == [
            ErrorCode.REQUEST_TIMED_OUT,
            0,
        ]
        broker.flushes.follow()


def test_given_no_entries_when_produced_then_the_answer_has_none():
    with NativeBroker() as broker:
        assert broker.send(*requests.encode_multi_produce(-1, 0, [])).multi_produced == []


# --- topics that do not exist yet -----------------------------------------------------------------


@pytest.mark.parametrize("message_format", [0, 2])
def test_given_an_unknown_topic_when_produced_then_it_is_created_first(message_format):
    message_set = batch(b"a") if message_format == 2 else build_set([b"a"], format=0)
    with NativeBroker(settings={"topics.default_partitions": 3}) as broker:
        sent = broker.produce(
            "new", message_set, partition=2, message_format=message_format, settle=False
        )
        assert sent.is_waiting
        assert sent.pauses_reading
        broker.loop.settle()

        assert sent.produced == (0, 0, -1, 1)
        assert broker.manager.topic("new").partition_count == 3
        assert values(broker, "new", 2) == [b"a"]


def test_given_unknown_topics_when_several_are_produced_then_all_are_created():
    entries = [("b", 0, 2, batch(b"1")), ("a/", 0, 2, batch(b"2")), ("b", 0, 2, batch(b"3"))]
    with NativeBroker() as broker:
        answers = broker.send(*requests.encode_multi_produce(-1, 100, entries)).multi_produced

        assert [answer.error for answer in answers] == [0, ErrorCode.INVALID_TOPIC, 0]
        assert values(broker, "b") == [b"1", b"3"]


def test_given_an_unknown_topic_when_it_cannot_be_created_then_the_answer_says_why():
    with NativeBroker(settings={"limits.topics_max": 1}) as broker:
        broker.create_topic("logs")

        refused = broker.produce("new", batch(b"a"))

        assert refused.error == ErrorCode.INVALID_PARTITIONS


def test_given_acks_all_and_an_unknown_topic_when_produced_then_it_waits_for_the_commit_too():
    with NativeBroker(hold_flush=True) as broker:
        sent = broker.produce("new", batch(b"a"), acks=-1)
        assert sent.is_waiting
        broker.flushes.follow()
        broker.loop.settle()

        assert sent.produced == (0, 0, -1, 1)


# --- APPEND_AT ------------------------------------------------------------------------------------


def append_at(broker: NativeBroker, offset: int, message_set: bytes, message_format: int = 2):
    return broker.send(
        *requests.encode_append_at(offset, "logs", 0, 1, 0, message_format, message_set),
        settle=False,
    )


def test_given_the_log_end_when_appended_at_then_a_repeated_request_is_noticed():
    with NativeBroker() as broker:
        broker.create_topic("logs")

        first = append_at(broker, 0, batch(b"a", b"b")).produced
        again = append_at(broker, 0, batch(b"a", b"b")).produced
        onward = append_at(broker, 2, batch(b"c")).produced
        broker.loop.settle()

        assert first == (0, 0, -1, 2)
        assert again == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 2, -1, 0)
        assert onward == (0, 2, -1, 1)
        assert values(broker) == [b"a", b"b", b"c"]


def test_given_two_conversions_at_one_offset_when_both_end_then_only_one_was_appended():
    """The offset is compared in the turn of the append, whatever order the two began in."""
    large = build_set([b"large" + bytes(200)] * 2_000, format=0)
    small = build_set([b"small" + bytes(200)] * 500, format=0)
    with NativeBroker() as broker:
        broker.create_topic("logs")

        first, second = append_at(broker, 0, large, 0), append_at(broker, 0, small, 0)
        assert first.is_waiting
        assert second.is_waiting
        broker.loop.settle()

        assert second.produced == (0, 0, -1, 500)
        assert first.produced == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 500, -1, 0)
        assert len(values(broker)) == 500


# --- what is counted ------------------------------------------------------------------------------


def test_given_requests_when_handled_then_they_are_counted():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a", b"b"))
        broker.produce("logs", batch(b"c"), acks=-1)
        broker.produce("logs", b"damaged" * 20)

        metrics, partition = broker.requests("produce"), broker.partition("logs")

        assert (metrics.count, metrics.latency.count) == (3, 3)
        assert metrics.errors == {ErrorCode.CORRUPT_MESSAGE: 1}
        assert partition.messages_in == 3
        assert partition.bytes_in == len(batch(b"a", b"b")) + len(batch(b"c"))
