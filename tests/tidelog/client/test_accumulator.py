"""Accumulator: batching by size and age, order per partition, retries, a result per message."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import BrokerError, ErrorCode
from protocol.native.responses import ProduceResponse
from protocol.record_batch import iterate_records
from tidelog.client.accumulator import Accumulator, Batch, ProducerSettings
from tidelog.client.errors import ClientClosedError, ConnectionLostError


def add(
    accumulator: Accumulator, value: bytes, *, partition: int = 0, now_s: float = 0.0
) -> Future[Any]:
    future: Future[Any] = Future()
    accumulator.append("t", partition, None, value, 1000, (), future, now_s)
    return future


def succeeded(accumulator: Accumulator, batch: Batch, answered: ProduceResponse | None) -> None:
    batch.deliver(answered)
    accumulator.finish(batch)


def failed(accumulator: Accumulator, batch: Batch, error: Exception, now_s: float) -> None:
    if not accumulator.retry(batch, error, now_s):
        batch.fail(error)
        accumulator.finish(batch)


def answer(base_offset: int, count: int, append_time_ms: int = -1) -> ProduceResponse:
    return ProduceResponse(0, base_offset, append_time_ms, count)


def test_given_a_young_small_batch_when_asked_then_it_is_due_after_the_linger() -> None:
    accumulator = Accumulator(ProducerSettings(linger_s=0.5))

    add(accumulator, b"x", now_s=10.0)

    assert accumulator.take_due(10.4) == []
    assert accumulator.next_due_s() == 10.5
    assert len(accumulator.take_due(10.5)) == 1


def test_given_a_full_batch_when_asked_then_it_is_due_at_once() -> None:
    accumulator = Accumulator(ProducerSettings(linger_s=100, batch_bytes_max=1000))

    for _ in range(3):
        add(accumulator, bytes(400))
    batches = accumulator.take_due(0.0)

    assert [len(batch.records) for batch in batches] == [2]


def test_given_a_flush_when_asked_then_everything_is_due_whatever_its_age() -> None:
    accumulator = Accumulator(ProducerSettings(linger_s=100))
    add(accumulator, b"x", partition=0)
    add(accumulator, b"y", partition=1)

    accumulator.flushes += 1

    assert len(accumulator.take_due(0.0)) == 2


def test_given_a_batch_under_way_when_more_is_added_then_it_waits_for_its_turn() -> None:
    accumulator = Accumulator(ProducerSettings(linger_s=0))
    add(accumulator, b"first")
    (first,) = accumulator.take_due(0.0)

    add(accumulator, b"second")
    while_under_way = accumulator.take_due(1.0)
    succeeded(accumulator, first, answer(0, 1))
    (second,) = accumulator.take_due(1.0)

    assert while_under_way == []
    assert [record.value for record in second.records] == [b"second"]


def test_given_an_answer_when_it_comes_then_each_message_learns_its_offset() -> None:
    accumulator = Accumulator(ProducerSettings(linger_s=0))
    futures = [add(accumulator, b"%d" % number) for number in range(3)]
    (batch,) = accumulator.take_due(0.0)

    succeeded(accumulator, batch, answer(70, 3))

    assert [future.result().offset for future in futures] == [70, 71, 72]
    assert accumulator.is_empty


def test_given_log_append_time_when_answered_then_the_brokers_time_is_told() -> None:
    accumulator = Accumulator(ProducerSettings(linger_s=0))
    future = add(accumulator, b"x")
    (batch,) = accumulator.take_due(0.0)

    succeeded(accumulator, batch, answer(0, 1, append_time_ms=5555))

    assert future.result().timestamp_ms == 5555


@pytest.mark.parametrize(
    "error",
    [BrokerError(ErrorCode.KAFKA_STORAGE_ERROR), ConnectionLostError("gone")],
    ids=["disk", "connection"],
)
def test_given_a_retriable_error_when_it_comes_then_the_same_batch_goes_again_later(
    error: Exception,
) -> None:
    accumulator = Accumulator(ProducerSettings(linger_s=0, delivery_timeout_s=10))
    future = add(accumulator, b"x")
    (batch,) = accumulator.take_due(0.0)

    failed(accumulator, batch, error, now_s=0.1)
    at_once = accumulator.take_due(0.1)
    (again,) = accumulator.take_due(2.0)

    assert at_once == []
    assert again is batch
    assert not future.done()


def test_given_retries_past_the_delivery_timeout_when_it_fails_then_the_messages_fail() -> None:
    accumulator = Accumulator(ProducerSettings(linger_s=0, delivery_timeout_s=10))
    future = add(accumulator, b"x")
    (batch,) = accumulator.take_due(0.0)

    failed(accumulator, batch, ConnectionLostError("gone"), now_s=10.5)

    assert isinstance(future.exception(), ConnectionLostError)
    assert accumulator.is_empty


def test_given_a_topic_that_is_not_there_when_it_stays_so_then_its_messages_fail_soon() -> None:
    """It may be just being created; but nobody must wait two minutes to learn of a typing error."""
    unknown = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    accumulator = Accumulator(ProducerSettings(linger_s=0, batch_bytes_max=50))
    first, second = add(accumulator, bytes(40)), add(accumulator, bytes(40))
    (batch,) = accumulator.take_due(0.0)

    failed(accumulator, batch, unknown, now_s=0.1)
    failed(accumulator, batch, unknown, now_s=0.9)
    assert not first.done()
    failed(accumulator, batch, unknown, now_s=1.2)
    assert isinstance(first.exception(), BrokerError)
    (batch,) = accumulator.take_due(1.2)
    failed(accumulator, batch, unknown, now_s=1.3)  # it does not wait for a second time

    assert isinstance(second.exception(), BrokerError)


@pytest.mark.parametrize("is_found", [True, False])
def test_given_a_topic_that_was_found_or_long_not_asked_for_when_lacking_again_then_a_new_moment(
    is_found: bool,
) -> None:
    unknown = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    accumulator = Accumulator(ProducerSettings(linger_s=0))
    add(accumulator, b"x")
    (batch,) = accumulator.take_due(0.0)
    failed(accumulator, batch, unknown, now_s=0.0)
    if is_found:
        succeeded(accumulator, batch, answer(0, 1))
    else:
        failed(accumulator, batch, unknown, now_s=1.0)
    later_s = 1.5 if is_found else 9.0
    future = add(accumulator, b"y", now_s=later_s)
    (batch,) = accumulator.take_due(later_s + 1)

    failed(accumulator, batch, unknown, now_s=later_s)

    assert not future.done()


def test_given_a_final_error_when_it_comes_then_its_messages_fail_and_the_next_go_on() -> None:
    accumulator = Accumulator(ProducerSettings(linger_s=0, batch_bytes_max=50))
    bad, good = add(accumulator, bytes(40)), add(accumulator, bytes(40))
    (batch,) = accumulator.take_due(0.0)

    failed(accumulator, batch, BrokerError(ErrorCode.MESSAGE_TOO_LARGE), now_s=0.0)
    (following,) = accumulator.take_due(0.0)
    succeeded(accumulator, following, answer(0, 1))

    assert isinstance(bad.exception(), BrokerError)
    assert good.result().offset == 0


def test_given_acks_0_when_sent_then_the_offset_is_unknown() -> None:
    accumulator = Accumulator(ProducerSettings(acks=0, linger_s=0))
    future = add(accumulator, b"x")
    (batch,) = accumulator.take_due(0.0)

    succeeded(accumulator, batch, None)

    assert future.result().offset == -1


def test_given_waiting_messages_when_aborted_then_every_future_is_told() -> None:
    accumulator = Accumulator(ProducerSettings(linger_s=0))
    futures = [add(accumulator, b"x", partition=number) for number in range(3)]
    accumulator.take_due(0.0)

    for batch in accumulator.abort():
        batch.fail(ClientClosedError("closed"))

    assert all(isinstance(future.exception(), ClientClosedError) for future in futures)
    assert accumulator.is_empty


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=300)), max_size=60))
def test_given_any_messages_when_drained_then_each_is_sent_once_in_order_per_partition(
    produced: list[tuple[int, bytes]],
) -> None:
    accumulator = Accumulator(ProducerSettings(linger_s=0, batch_bytes_max=500))
    for partition, value in produced:
        add(accumulator, value, partition=partition)

    sent: dict[int, list[bytes | None]] = {0: [], 1: [], 2: []}
    while batches := accumulator.take_due(0.0):
        for batch in batches:
            records = list(iterate_records(batch.encode(ProducerSettings().compression)))
            succeeded(accumulator, batch, answer(len(sent[batch.partition]), len(records)))
            sent[batch.partition] += [record.value for record in records]

    assert accumulator.is_empty
    for partition, values in sent.items():
        assert values == [value for number, value in produced if number == partition]


@pytest.mark.parametrize(
    "wrong", [{"acks": 2}, {"batch_bytes_max": 0}, {"linger_s": -1}, {"delivery_timeout_s": 0}]
)
def test_given_impossible_settings_when_made_then_a_clear_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ProducerSettings(**wrong)
