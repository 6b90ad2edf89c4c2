"""ListOffsets and OffsetForLeaderEpoch: times that mean a place, isolation, epochs, errors."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.kafka.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.kafka_broker import KafkaBroker
from tests.support.log_storage import NOW_MS
from tests.support.native_broker import CLOCK_START_MS, OS, batch
from tests.support.producers import end_transaction, producer_batch, send_in_transaction

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = range(-1, -7, -1)
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOWHERE = (0, -1, -1, -1)


def wanted(number: int, timestamp: int, epoch: int = -1) -> ListOffsetsPartition:
    return ListOffsetsPartition(number, epoch, timestamp)


def listed(
    broker: KafkaBroker,
    *partitions: ListOffsetsPartition,
    topic: str = "logs",
    version: int = 11,
    isolation_level: int = 0,
) -> list[tuple[int, int, int, int]]:
    """Error, timestamp, offset and leader epoch of each."""
    request = ListOffsetsRequest(-1, isolation_level, [ListOffsetsTopic(topic, list(partitions))])
    (result,) = broker.answer(request, version).topics
    assert result.name == topic
    assert [each.partition_index for each in result.partitions] == [
        each.partition_index for each in partitions
    ]
    return [
        (each.error_code, each.timestamp, each.offset, each.leader_epoch)
        for each in result.partitions
    ]


def filled(broker: KafkaBroker, *seconds: int) -> None:
    """A topic with a record of each time, in batches of their own; what is below 1 is deleted."""
    broker.create_topic("logs", 2, OS)
    for second in seconds:
        broker.produce("logs", batch(b"x", now_ms=CLOCK_START_MS + second))
    broker.partition("logs").log.advance_log_start(1)


@pytest.mark.parametrize(
    ("timestamp", "first_version", "place"),
    [
        (LATEST, 1, (0, -1, 5, 0)),
        (EARLIEST, 1, (0, -1, 1, 0)),
        (MAX_TIMESTAMP, 7, (0, CLOCK_START_MS + 9, 2, 0)),
        (EARLIEST_LOCAL, 8, (0, -1, 1, 0)),
        (LATEST_TIERED, 9, NOWHERE),
        (PENDING_UPLOAD, 11, NOWHERE),
        (-7, 12, NOWHERE),
    ],
)
@pytest.mark.parametrize("version", range(1, 12))
def test_given_records_when_a_place_is_asked_for_then_versions_that_know_it_tell_it(
    version: int, timestamp: int, first_version: int, place: tuple[int, int, int, int]
):
    with KafkaBroker() as broker:
        filled(broker, 0, 5, 9, 6, 7)

        ((error, time, offset, epoch),) = listed(broker, wanted(0, timestamp), version=version)

        if version < first_version:
            assert (error, time, offset) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)
        else:
            assert (error, time, offset) == place[:3]
            assert epoch == (place[3] if version >= 4 else -1)


@pytest.mark.parametrize(
    ("second", "place"),
    [
        (-9, (5, 1)),  # not the one that was deleted
        (5, (5, 1)),
        (6, (9, 2)),  # the first in the log, not the nearest in time
        (9, (9, 2)),
        (10, None),
    ],
)
def test_given_a_time_when_asked_for_then_the_first_record_that_is_late_enough_is_told(
    second: int, place: tuple[int, int] | None
):
    with KafkaBroker() as broker:
        filled(broker, 0, 5, 9, 6, 7)

        (found,) = listed(broker, wanted(0, CLOCK_START_MS + second))

        expected = NOWHERE if place is None else (0, CLOCK_START_MS + place[0], place[1], 0)
        assert found == expected


@pytest.mark.parametrize("timestamp", [MAX_TIMESTAMP, 0, CLOCK_START_MS])
def test_given_an_empty_log_when_a_time_is_asked_for_then_there_is_none(timestamp: int):
    with KafkaBroker() as broker:
        filled(broker, 0, 5)

        assert listed(broker, wanted(1, timestamp)) == [NOWHERE]
        assert listed(broker, wanted(1, LATEST)) == [(0, -1, 0, 0)]


def test_given_an_open_transaction_when_read_committed_then_nothing_from_there_on_is_told():
    with KafkaBroker() as broker:
        broker.create_topic("logs", settings=OS)
        log = broker.partition("logs").log
        log.append(producer_batch(5, 0, timestamp=NOW_MS - 1))
        send_in_transaction(log, 7, 0)

        def latest(isolation_level: int) -> int:
            return listed(broker, wanted(0, LATEST), isolation_level=isolation_level)[0][2]

        assert (latest(0), latest(1)) == (2, 1)
        assert listed(broker, wanted(0, NOW_MS)) == [(0, NOW_MS, 1, 0)]
        assert listed(broker, wanted(0, NOW_MS), isolation_level=1) == [NOWHERE]
        end_transaction(log, 7, commit=True)
        assert (latest(0), latest(1)) == (3, 3)


def test_given_several_leader_epochs_when_a_place_is_asked_for_then_its_own_is_told():
    with KafkaBroker() as broker:
        filled(broker, 0, 5)
        for epoch in (3, 5):
            broker.partition("logs").log.begin_leader_epoch(epoch)
            broker.produce("logs", batch(b"x", now_ms=CLOCK_START_MS + 10 * epoch))

        times = (EARLIEST, CLOCK_START_MS + 30, CLOCK_START_MS + 50, LATEST)
        found = [listed(broker, wanted(0, time))[0] for time in times]

        assert [(offset, epoch) for _, _, offset, epoch in found] == [
            (1, 0),
            (2, 3),
            (3, 5),
            (4, 5),
        ]


def test_given_uncommitted_records_when_asked_for_then_they_are_not_there_yet():
    with KafkaBroker(hold_flush=True) as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a"))

        found = [listed(broker, wanted(0, time))[0] for time in (LATEST, 0, MAX_TIMESTAMP)]

        assert found == [(0, -1, 0, 0), NOWHERE, NOWHERE]
        broker.flushes.follow()


def test_given_a_partition_twice_when_asked_for_then_both_are_refused():
    with KafkaBroker() as broker:
        filled(broker, 0, 5)

        found = listed(broker, wanted(0, LATEST), wanted(1, LATEST), wanted(0, EARLIEST))

        twice = (ErrorCode.INVALID_REQUEST, -1, -1, -1)
        assert found == [twice, (0, -1, 0, 0), twice]
        assert broker.kafka_errors("list_offsets") == {ErrorCode.INVALID_REQUEST: 2}


@pytest.mark.parametrize(
    ("topic", "number", "epoch", "error"),
    [
        ("none", 0, -1, UNKNOWN),
        ("logs", 2, -1, UNKNOWN),
        ("logs", -1, -1, UNKNOWN),
        ("logs", 0, 2, ErrorCode.FENCED_LEADER_EPOCH),
        ("logs", 0, 4, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ("logs", 0, 3, 0),
    ],
)
def test_given_a_partition_or_an_epoch_that_is_not_when_asked_for_then_each_api_says_so(
    topic: str, number: int, epoch: int, error: int
):
    with KafkaBroker() as broker:
        filled(broker, 0, 5)
        broker.partition("logs").log.begin_leader_epoch(3)

        ((listing, *_),) = listed(broker, wanted(number, LATEST, epoch), topic=topic)
        ((ending, *_),) = ends(broker, (number, epoch, 3), topic=topic)

        assert (listing, ending) == (error, error)


def test_given_many_partitions_when_asked_for_then_other_requests_go_in_between():
    with KafkaBroker() as broker:
        broker.create_topic("logs", 120)
        partitions = [wanted(number, LATEST) for number in range(120)]
        request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("logs", partitions)])

        sent = broker.ask(request, settle=False)

        assert sent.is_waiting
        broker.loop.settle()
        assert len(sent.response.topics[0].partitions) == 120


# --- OffsetForLeaderEpoch -------------------------------------------------------------------------


def ends(
    broker: KafkaBroker, *asked: tuple[int, int, int], topic: str = "logs", version: int = 4
) -> list[tuple[int, int, int]]:
    """Error, epoch and end offset of each (partition, current epoch, epoch asked for)."""
    partitions = [OffsetForLeaderPartition(*each) for each in asked]
    request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic, partitions)])
    (result,) = broker.answer(request, version).topics
    assert result.topic == topic
    assert [each.partition for each in result.partitions] == [number for number, *_ in asked]
    return [(each.error_code, each.leader_epoch, each.end_offset) for each in result.partitions]


@pytest.mark.parametrize("version", range(2, 5))
def test_given_epochs_when_their_ends_are_asked_for_then_the_largest_not_above_is_told(
    version: int,
):
    """KIP-101, KIP-279."""
    with KafkaBroker() as broker:
        filled(broker, 0, 5)
        log = broker.partition("logs").log
        log.begin_leader_epoch(3)
        broker.produce("logs", batch(b"of epoch 3"))
        log.begin_leader_epoch(5)
        broker.produce("logs", batch(b"of epoch 5"))

        found = ends(broker, *((0, -1, epoch) for epoch in (0, 1, 3, 4, 5, 6, -1)), version=version)

        undefined = (0, -1, -1)
        assert found == [(0, 0, 2), (0, 0, 2), (0, 3, 3), (0, 3, 3), (0, 5, 4)] + [undefined] * 2


def test_given_an_empty_log_when_its_first_epoch_is_asked_for_then_it_ends_at_0():
    """Undefined would have Java consumers reset their offsets."""
    with KafkaBroker() as broker:
        broker.create_topic("logs")

        assert ends(broker, (0, 0, 0)) == [(0, 0, 0)]


def test_given_uncommitted_records_when_an_end_is_asked_for_then_it_is_before_them():
    with KafkaBroker(hold_flush=True) as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a"))

        assert ends(broker, (0, -1, 0)) == [(0, 0, 0)]
        broker.flushes.follow()


def test_given_many_partitions_when_their_ends_are_asked_for_then_other_requests_go_in_between():
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        partitions: list[Any] = [OffsetForLeaderPartition(0, -1, 0)] * 1_000
        request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic("logs", partitions)])

        sent = broker.ask(request, settle=False)

        assert sent.is_waiting
        broker.loop.settle()
        assert len(sent.response.topics[0].partitions) == 1_000
