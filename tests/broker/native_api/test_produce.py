"""PRODUCE, MULTIPRODUCE, APPEND_AT: what is stored, when it is answered, in which order."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.native_api.produce_entries import ENTRIES_PER_STEP
from protocol.error_codes import ErrorCode
from protocol.native import requests
from protocol.record_batch import Record, iterate_batches, iterate_records
from protocol.record_batch_builder import build_batch
from protocol.simple_message_set import build_set
from tests.support.native_broker import CLOCK_START_MS, COMMIT, INTERVAL, OS, NativeBroker, batch
from tests.support.producers import producer_batch

UNSYNCED = (INTERVAL, OS)


def stored(broker: NativeBroker, topic: str = "logs", partition: int = 0) -> list[Record]:
    """All records up to the high watermark."""
    message_set = broker.fetch(topic, 0, partition=partition, max_bytes=1 << 30).fetched.message_set
    return [
        record
        for position, _ in iterate_batches(message_set)
        for record in iterate_records(message_set, position)
    ]


def values(broker: NativeBroker, topic: str = "logs", partition: int = 0) -> list[bytes | None]:
    return [record.value for record in stored(broker, topic, partition)]


# --- what is stored -------------------------------------------------------------------------------


def test_given_batches_when_produced_then_they_are_stored_with_the_logs_offsets():
    with NativeBroker() as broker:
        broker.create_topic("logs")

        first = broker.produce("logs", batch(b"a", b"b")).produced
        second = broker.produce("logs", batch(b"c") + batch(b"d", b"e")).produced

        assert (first, second) == ((0, 0, -1, 2), (0, 2, -1, 3))
        assert [(record.offset, record.value) for record in stored(broker)] == [
            (0, b"a"),
            (1, b"b"),
            (2, b"c"),
            (3, b"d"),
            (4, b"e"),
        ]


def test_given_an_idempotent_batch_when_produced_again_then_the_first_answer_comes_again():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        partition = broker.partition("logs")
        broker.produce("logs", batch(b"a"))
        sets = [bytes(producer_batch(7, sequence, count=2)) for sequence in (0, 2, 4)]

        answers = [broker.produce("logs", each).produced for each in sets]
        counted = partition.messages_in, partition.bytes_in
        again = [broker.produce("logs", each, acks=-1).produced for each in sets]

        assert answers == [(0, 1, -1, 2), (0, 3, -1, 2), (0, 5, -1, 2)]
        assert again == answers
        assert (partition.messages_in, partition.bytes_in) == counted
        assert partition.log.log_end_offset == 7


def test_given_a_repetition_before_the_first_is_committed_when_flushed_then_both_are_answered():
    with NativeBroker(hold_flush=True) as broker:
        broker.create_topic("logs", settings=COMMIT)
        sent = [
            broker.send(*requests.encode_produce("logs", 0, -1, 500, 2, bytes(data)))
            for data in (producer_batch(7, 0), producer_batch(7, 1), producer_batch(7, 0))
        ]
        assert all(each.is_waiting for each in sent)

        broker.flushes.follow()
        broker.loop.advance(1)

        assert [each.produced for each in sent] == [(0, 0, -1, 1), (0, 1, -1, 1), (0, 0, -1, 1)]


def test_given_keys_and_headers_when_produced_then_they_come_back_untouched():
    record = Record(0, CLOCK_START_MS, b"key", b"value", (("name", b"h"), ("none", None)))
    with NativeBroker() as broker:
        broker.create_topic("logs")

        broker.produce("logs", build_batch([record]))

        assert stored(broker) == [record]


def test_given_log_append_time_when_produced_then_the_answer_says_when():
    with NativeBroker() as broker:
        broker.create_topic("logs", 1, {"message.timestamp.type": "LogAppendTime"})
        broker.clock.advance(ms=5)

        produced = broker.produce("logs", batch(b"a", now_ms=1)).produced

        assert produced == (0, 0, CLOCK_START_MS + 5, 1)
        assert stored(broker)[0].timestamp == CLOCK_START_MS + 5


@settings(deadline=None)
@given(
    sent=st.lists(st.binary(max_size=40), min_size=1, max_size=20),
    message_format=st.sampled_from([0, 1]),
)
def test_given_simple_messages_when_produced_then_values_come_back_at_the_brokers_time(
    sent, message_format
):
    """R1: values only; no key, the broker's time, consecutive offsets."""
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"before"))

        message_set = build_set(sent, format=message_format, first_offset=77)
        produced = broker.produce("logs", message_set, message_format=message_format).produced

        assert produced == (0, 1, -1, len(sent))
        assert stored(broker)[1:] == [
            Record(1 + n, CLOCK_START_MS, None, value) for n, value in enumerate(sent)
        ]


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 11, build_set([b"cut"], format=0)[:-1]])
def test_given_a_cut_tail_when_produced_then_the_count_says_what_was_kept(tail):
    """R28: an invalid tail is trimmed, and the answer tells."""
    with NativeBroker() as broker:
        broker.create_topic("logs")

        simple = broker.produce(
            "logs", build_set([b"a", b"b"], format=0) + tail, message_format=0
        ).produced
        batches = broker.produce("logs", batch(b"c") + batch(b"d")[:-1]).produced

        assert (simple, batches) == ((0, 0, -1, 2), (0, 2, -1, 1))
        assert values(broker) == [b"a", b"b", b"c"]


def test_given_a_large_simple_set_when_produced_then_it_takes_turns_and_is_consecutive():
    sent = [b"%05d" % n + bytes(200) for n in range(2_000)]
    with NativeBroker() as broker:
        broker.create_topic("logs")

        large = broker.produce("logs", build_set(sent, format=0), message_format=0, settle=False)
        assert large.is_waiting
        assert large.pauses_reading  # no later request of the client may overtake it
        other = broker.produce("logs", batch(b"between"), settle=False)  # another client's
        broker.loop.settle()

        assert other.produced.base_offset == 0
        assert large.produced == (0, 1, -1, 2_000)
        assert values(broker)[1:] == sent


def test_given_a_large_compressed_set_when_produced_then_a_thread_decompresses_it():
    sent = [bytes((n * 31 + k * k) % 251 for k in range(1_000)) for n in range(60)]
    with NativeBroker(hold_threads=True) as broker:
        broker.create_topic("logs")

        waiting = broker.produce("logs", build_set(sent, format=1, codec=2), message_format=1)
        assert waiting.is_waiting
        assert broker.jobs.release() == 1
        broker.loop.settle()

        assert waiting.produced == (0, 0, -1, 60)
        assert values(broker) == sent


def test_given_damaged_compressed_bytes_when_a_thread_finds_out_then_the_set_is_refused():
    sent = [bytes((n * 31 + k * k) % 251 for k in range(1_000)) for n in range(60)]
    entry = bytearray(build_set(sent, format=1, codec=1))
    entry[18:40] = bytes(22)  # no gzip any more
    entry[14:18] = zlib.crc32(entry[18:]).to_bytes(4, "big")
    with NativeBroker() as broker:
        broker.create_topic("logs")

        refused = broker.produce("logs", bytes(entry), message_format=1)

        assert refused.error == ErrorCode.CORRUPT_MESSAGE
        assert broker.partition("logs").log.log_end_offset == 0


def test_given_a_client_that_is_gone_when_its_set_is_converted_then_it_is_appended_all_the_same():
    sent = [bytes(200)] * 1_000
    with NativeBroker() as broker:
        broker.create_topic("logs")

        large = broker.produce(
            "logs", build_set(sent, format=0), message_format=0, acks=0, settle=False
        )
        large.abandon()
        broker.loop.settle()

        assert broker.partition("logs").log.log_end_offset == 1_000


def test_given_a_topic_deleted_during_a_conversion_when_it_ends_then_there_is_no_such_topic():
    with NativeBroker() as broker:
        broker.create_topic("logs")

        large = broker.produce(
            "logs", build_set([bytes(200)] * 2_000, format=0), message_format=0, settle=False
        )
        broker.loop.run(broker.manager.delete_topic("logs"))
        broker.loop.settle()

        assert large.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


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
