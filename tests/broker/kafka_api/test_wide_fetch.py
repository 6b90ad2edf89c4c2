"""Fetches of many partitions: in turns, and yet as if they had been looked at in one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from broker.kafka_api import fetch as kafka_fetch
from broker.requests import fetch_sending, waiting_fetch
from protocol.error_codes import ErrorCode
from protocol.kafka.fetch import FetchTopic
from tests.support.kafka_broker import KafkaBroker, KafkaSent
from tests.support.kafka_fetches import LAST_BY_NAME, answered, asked, fetch, sizes
from tests.support.native_broker import OS, batch

PER_STEP: Final = 10
WIDE: Final = 2 * PER_STEP + 5
POLL_MS: Final = 10_000


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten make a step here, not a hundred: a broker with as many partitions takes its time."""
    for module in (fetch_sending, kafka_fetch, waiting_fetch):
        assert module.ENTRIES_PER_STEP == 100
        monkeypatch.setattr(module, "ENTRIES_PER_STEP", PER_STEP)


@contextmanager
def wide_broker(partitions: int = WIDE) -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        broker.create_topic("logs", partitions, OS)
        yield broker


def begun(broker: KafkaBroker, partitions: int = WIDE, **how: Any) -> KafkaSent:
    """Send a fetch of many partitions; its first turn is over."""
    request = fetch(*map(asked, range(partitions)), **{"max_wait_ms": POLL_MS, **how})
    return broker.ask(request, LAST_BY_NAME, settle=False)


def polling(broker: KafkaBroker, partitions: int = WIDE, **how: Any) -> KafkaSent:
    """Send one that has to wait, and has looked at all it asks for."""
    sent = begun(broker, partitions, **how)
    broker.loop.settle()
    assert sent.is_waiting
    return sent


def counted_looks(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note the number of each partition that is looked up from now on."""
    looks: list[int] = []
    partition_of = broker.manager.partition_of

    def counted(topic: bytes, number: int) -> Any:
        looks.append(number)
        return partition_of(topic, number)

    monkeypatch.setattr(broker.manager, "partition_of", counted)
    return looks


def has_waiters(broker: KafkaBroker, partitions: int = WIDE) -> bool:
    return any(broker.partition("logs", number).has_waiters for number in range(partitions))


def with_data(sent: KafkaSent) -> list[int]:
    return [each.partition_index for each in answered(sent.response) if len(each.records)]


# --- turns ----------------------------------------------------------------------------------------


def test_given_no_more_than_a_step_when_fetched_then_they_are_answered_at_once():
    with wide_broker(PER_STEP) as broker:
        sent = begun(broker, PER_STEP, max_wait_ms=0)

        assert not sent.is_waiting
        assert len(answered(sent.response)) == PER_STEP


def test_given_very_many_partitions_when_fetched_then_no_turn_handles_more_than_some(
    monkeypatch: pytest.MonkeyPatch,
):
    with wide_broker(10 * PER_STEP) as broker:
        looks = counted_looks(broker, monkeypatch)
        sent = begun(broker, 10 * PER_STEP, max_wait_ms=0)
        turns = [len(looks)]
        assert sent.pauses_reading

        while sent.is_waiting:
            before = len(looks)
            broker.loop.turn()
            turns.append(len(looks) - before)

        assert max(turns) <= 2 * PER_STEP  # the end of one round, and the begin of another
        assert len(turns) >= 3 * 10 - 2  # to find them, to look, to read, to encode: a round each
        assert len(answered(sent.response)) == 10 * PER_STEP


@pytest.mark.parametrize("version", [4, 11, LAST_BY_NAME, 13, 18])
def test_given_topics_of_all_sizes_when_fetched_then_each_partition_is_in_its_place(version: int):
    counts = [1, 9, 0, 10, 11, 1, 25, 10, 3]
    with KafkaBroker() as broker:
        names = [f"logs-{place}" for place in range(len(counts))]
        expected = []
        for name, count in zip(names, counts, strict=True):
            broker.create_topic(name, max(count, 1), OS)
            made = [batch(f"{name} {number}".encode()) for number in range(count)]
            for number, data in enumerate(made):
                broker.produce(name, data, partition=number)
            expected.append([(number, len(data)) for number, data in enumerate(made)])
        request = fetch()
        request.topics = [
            FetchTopic(
                topic=name,
                topic_id=broker.manager.topic(name).topic_id.bytes,
                partitions=[asked(number) for number in range(count)],
            )
            for name, count in zip(names, counts, strict=True)
        ]

        response = broker.answer(request, version)

        found = [
            [(each.partition_index, len(each.records)) for each in topic.partitions]
            for topic in response.responses
        ]
        assert found == expected
        values = [bytes(each.records) for topic in response.responses for each in topic.partitions]
        texts = [f"{n} {i}".encode() for n, c in zip(names, counts, strict=True) for i in range(c)]
        assert all(text in value for text, value in zip(texts, values, strict=True))
        asked_for = [
            each.topic if version <= LAST_BY_NAME else each.topic_id for each in request.topics
        ]
        named = [
            each.topic if version <= LAST_BY_NAME else each.topic_id for each in response.responses
        ]
        assert named == asked_for


def test_given_refused_ones_among_many_when_fetched_then_each_is_told_in_its_place():
    with wide_broker() as broker:
        wrong = {0: 5, 12: 5, WIDE - 1: 5}
        request = fetch(
            *(asked(each, current_leader_epoch=wrong.get(each, -1)) for each in range(WIDE)),
            asked(WIDE),
            max_wait_ms=POLL_MS,
        )

        found = answered(broker.answer(request, LAST_BY_NAME))

        errors = {n: each.error_code for n, each in enumerate(found) if each.error_code}
        unknown = ErrorCode.UNKNOWN_LEADER_EPOCH
        gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert errors == {**dict.fromkeys(wrong, unknown), WIDE: gone}


def test_given_bytes_for_few_when_many_are_fetched_then_they_are_counted_over_all_turns():
    with wide_broker() as broker:
        data = batch(bytes(100))
        for number in (3, 11, 15, 22):
            broker.produce("logs", data, partition=number)

        first, whole = (begun(broker, max_bytes=max_bytes) for max_bytes in (1, 3 * len(data) + 10))
        broker.loop.settle()

        assert with_data(first) == [3]  # whole, though it is larger; nothing else
        assert with_data(whole) == [3, 11, 15]
        assert set(sizes(answered(whole.response))) == {0, len(data)}


# --- waiting --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 9, 10, WIDE - 1])
def test_given_a_wide_poll_when_any_partition_gets_records_then_it_is_answered(number: int):
    with wide_broker() as broker:
        sent = polling(broker)
        assert not sent.pauses_reading  # nothing is under way but waiting

        broker.produce("logs", batch(b"a"), partition=number)

        assert with_data(sent) == [number]
        assert not has_waiters(broker)


def test_given_a_wide_poll_when_it_gets_too_little_then_only_what_moved_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
):
    with wide_broker() as broker:
        size = len(batch(b"a"))
        sent = polling(broker, min_bytes=4 * size)
        looks = counted_looks(broker, monkeypatch)

        broker.produce("logs", batch(b"a"), partition=7)
        broker.produce("logs", batch(b"a"), partition=20)
        broker.produce("logs", batch(b"a"), partition=7)
        assert (sent.is_waiting, looks) == (True, [7, 20, 7])
        broker.produce("logs", batch(b"a"), partition=7)

        assert with_data(sent) == [7, 20]
        assert looks == [7, 20, 7, 7, *range(WIDE), *range(WIDE)]  # to look once, and to answer
        assert not has_waiters(broker)


@pytest.mark.parametrize("number", [0, 9, 15, WIDE - 1])
@pytest.mark.parametrize("turns", range(8))
def test_given_records_that_come_while_it_looks_when_there_are_none_else_then_they_are_found(
    number: int, turns: int, monkeypatch: pytest.MonkeyPatch
):
    with wide_broker() as broker:
        looks = counted_looks(broker, monkeypatch)
        sent = begun(broker)
        for _ in range(turns):
            broker.loop.turn()

        broker.produce("logs", batch(b"a"), partition=number)

        assert with_data(sent) == [number]
        assert not has_waiters(broker)
        assert len(looks) <= 4 * WIDE + 1  # to find them, to look, once more at most, to answer


def test_given_a_partition_twice_when_records_come_then_both_count():
    with wide_broker() as broker:
        size = len(batch(b"a"))
        request = fetch(*map(asked, range(WIDE)), asked(5), max_wait_ms=POLL_MS, min_bytes=2 * size)
        sent = broker.ask(request, LAST_BY_NAME)
        assert sent.is_waiting

        broker.produce("logs", batch(b"a"), partition=5)

        assert with_data(sent) == [5, 5]


def test_given_enough_at_the_begin_when_fetched_then_nobody_listens():
    with wide_broker() as broker:
        broker.produce("logs", batch(b"a"))

        sent = begun(broker)
        while sent.is_waiting:
            assert not any(broker.partition("logs", each).has_waiters for each in range(1, WIDE))
            broker.loop.turn()

        assert with_data(sent) == [0]
        assert not has_waiters(broker)


# --- the end of waiting ---------------------------------------------------------------------------


def test_given_a_wide_poll_when_its_time_is_over_then_it_has_what_there_is():
    with wide_broker() as broker:
        broker.produce("logs", batch(b"a"), partition=WIDE - 1)
        sent = polling(broker, min_bytes=1_000, max_wait_ms=500)

        broker.loop.advance(490)
        assert sent.is_waiting
        broker.loop.advance(20)

        assert with_data(sent) == [WIDE - 1]
        assert not has_waiters(broker)


@pytest.mark.parametrize("turns", range(10))
def test_given_a_wide_poll_when_its_topic_is_deleted_then_it_is_told(turns: int):
    with wide_broker() as broker:
        sent = begun(broker)
        for _ in range(turns):  # while it looks, and when it waits
            broker.loop.turn()

        broker.loop.run(broker.manager.delete_topic("logs"))
        broker.loop.settle()

        errors = {each.error_code for each in answered(sent.response)}
        assert errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("turns", range(10))
def test_given_a_wide_poll_when_its_client_goes_then_nothing_is_left_of_it(
    turns: int, monkeypatch: pytest.MonkeyPatch
):
    with wide_broker() as broker:
        sent = begun(broker)
        for _ in range(turns):
            broker.loop.turn()

        sent.abandon()
        looks = counted_looks(broker, monkeypatch)
        broker.loop.advance(2 * POLL_MS)

        assert not looks
        assert not has_waiters(broker)


@pytest.mark.parametrize("turns", range(10))
def test_given_a_wide_poll_when_the_broker_drains_then_it_ends(turns: int):
    with wide_broker() as broker:
        sent = begun(broker)
        for _ in range(turns):
            broker.loop.turn()

        broker.manager.drain()
        broker.loop.settle()

        assert with_data(sent) == []
