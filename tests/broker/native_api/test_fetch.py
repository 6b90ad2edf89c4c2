"""FETCH: which bytes come, in which format, within which bounds."""

from __future__ import annotations

import pytest

from protocol.error_codes import ErrorCode
from protocol.native import requests
from protocol.simple_message_set import build_set
from tests.support.fetched_values import records, simple
from tests.support.native_broker import NativeBroker, batch

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
