"""PRODUCE: what is stored, batches and simple messages, whole and cut."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.error_codes import ErrorCode
from protocol.native import requests
from protocol.record_batch import Record
from protocol.record_batch_builder import build_batch
from protocol.simple_message_set import build_set
from tests.support.native_broker import CLOCK_START_MS, COMMIT, NativeBroker, batch
from tests.support.producers import producer_batch
from tests.support.stored_values import stored, values

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
