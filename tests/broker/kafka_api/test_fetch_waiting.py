"""Fetches that wait: for records of any of their partitions, for topics that go, for their turn."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_fetches import (
    LAST_BY_NAME,
    answered,
    asked,
    by_id,
    fetch,
    fetched,
    filled,
    sizes,
    waiting,
)
from tests.support.native_broker import OS, batch


@pytest.mark.parametrize("number", [0, 1, 2])
def test_given_a_poll_when_any_of_its_partitions_gets_records_then_it_is_answered(number: int):
    with KafkaBroker() as broker:
        broker.create_topic("logs", 3, OS)
        sent = waiting(broker, *map(asked, range(3)))

        broker.produce("logs", batch(b"a"), partition=number)

        found = answered(sent.response)
        assert [each.partition_index for each in found if len(each.records)] == [number]
        assert not any(broker.partition("logs", each).has_waiters for each in range(3))


def test_given_a_poll_when_it_has_enough_then_each_partition_is_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
):
    with KafkaBroker() as broker:
        broker.create_topic("logs", 3, OS)
        sent = waiting(broker, *map(asked, range(3)))
        looks = 0
        partition_of = broker.manager.partition_of

        def counted(topic: bytes, number: int) -> Any:
            nonlocal looks
            looks += 1
            return partition_of(topic, number)

        monkeypatch.setattr(broker.manager, "partition_of", counted)
        broker.produce("logs", batch(b"a"), partition=1)

        assert not sent.is_waiting
        assert looks == 3 + 3  # once to look, once for the offsets of the answer


def test_given_a_poll_when_its_time_is_over_then_it_has_what_there_is():
    with KafkaBroker() as broker:
        (size,) = filled(broker, 10)
        sent = waiting(broker, asked(0), min_bytes=1_000, max_wait_ms=500)

        broker.loop.advance(490)
        assert sent.is_waiting
        broker.loop.advance(20)

        assert sizes(answered(sent.response)) == [size]


def test_given_a_poll_when_enough_came_in_pieces_then_it_is_answered():
    with KafkaBroker() as broker:
        (size,) = filled(broker, 10)
        sent = waiting(broker, asked(0), min_bytes=2 * size + 1)

        broker.produce("logs", batch(bytes(10)))
        assert sent.is_waiting
        broker.produce("logs", batch(bytes(10)))

        assert sizes(answered(sent.response)) == [3 * size]


def test_given_a_poll_when_its_client_goes_then_nothing_is_left_of_it():
    with KafkaBroker() as broker:
        broker.create_topic("logs", 2)
        sent = waiting(broker, asked(0), asked(1))

        sent.abandon()

        assert not any(broker.partition("logs", each).has_waiters for each in range(2))
        broker.loop.advance(20_000)


@pytest.mark.parametrize("version", [LAST_BY_NAME, 18])
def test_given_a_poll_when_its_topic_is_deleted_then_it_is_told(version: int):
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        request = by_id(broker, asked(0)) if version > LAST_BY_NAME else fetch(asked(0))
        request.max_wait_ms = 10_000
        sent = broker.ask(request, version)

        broker.loop.run(broker.manager.delete_topic("logs"))
        broker.loop.settle()

        (found,) = answered(sent.response)
        by_name = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        unknown = by_name if version == LAST_BY_NAME else ErrorCode.UNKNOWN_TOPIC_ID
        assert found.error_code == unknown


def test_given_a_topic_of_the_same_name_when_asked_for_by_the_old_id_then_none_of_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
):
    """The answer before it on the connection goes out late: meanwhile there is another topic."""
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        monkeypatch.setattr(broker.connection, "response_completed", lambda: None)
        sent = broker.ask(by_id(broker, asked(0), max_wait_ms=10_000))
        broker.loop.run(broker.manager.delete_topic("logs"))
        broker.create_topic("logs", settings=OS)
        broker.produce("logs", batch(b"of another topic"))

        monkeypatch.undo()
        broker.connection.response_completed()
        broker.loop.settle()

        (found,) = answered(sent.response)
        assert (found.error_code, len(found.records)) == (ErrorCode.UNKNOWN_TOPIC_ID, 0)


def test_given_a_poll_when_the_broker_drains_then_it_ends():
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        sent = waiting(broker, asked(0))

        broker.manager.drain()

        assert sizes(answered(sent.response)) == [0]


def test_given_uncommitted_records_when_fetched_then_they_are_not_there_yet():
    with KafkaBroker(hold_flush=True) as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a"))
        sent = waiting(broker, asked(0))
        (beyond,) = fetched(broker, asked(0, 1))

        broker.flushes.follow()
        broker.loop.settle()

        (found,) = answered(sent.response)
        assert (found.high_watermark, len(found.records) > 0) == (1, True)
        assert (beyond.error_code, beyond.high_watermark) == (0, 0)


def test_given_a_poll_that_has_enough_when_its_turn_comes_later_then_it_looks_again(
    monkeypatch: pytest.MonkeyPatch,
):
    with KafkaBroker() as broker:
        broker.create_topic("logs", settings=OS)
        sent = waiting(broker, asked(0))
        with monkeypatch.context() as patch:
            patch.setattr(broker.connection, "response_completed", lambda: None)
            broker.produce("logs", batch(b"a"))
        broker.partition("logs").log.advance_log_start(1)

        broker.connection.response_completed()
        broker.loop.settle()

        (found,) = answered(sent.response)
        assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
