"""DescribeProducers: what a partition knows of those who write to it."""

from __future__ import annotations

from typing import Any

import pytest

from broker.storage.append_origin import AppendOrigin
from protocol.error_codes import ErrorCode
from protocol.kafka.producer_ids import DescribeProducersRequest, TopicRequest
from tests.support.kafka_broker import KafkaBroker
from tests.support.native_broker import CLOCK_START_MS
from tests.support.producers import producer_batch


def described(broker: KafkaBroker, topic: str, *numbers: int) -> list[Any]:
    request = DescribeProducersRequest([TopicRequest(topic, list(numbers))])
    (result,) = broker.answer(request).topics
    assert result.name == topic
    assert [each.partition_index for each in result.partitions] == list(numbers)
    return list(result.partitions)


def states(partition: Any) -> list[tuple[int, int, int, int, int, int]]:
    assert (partition.error_code, partition.error_message) == (0, None)
    return [
        (
            each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp,
            each.coordinator_epoch, each.current_txn_start_offset,
        )
        for each in partition.active_producers
    ]  # fmt: skip


def test_given_producers_when_described_then_their_last_batches_are_told():
    with KafkaBroker() as broker:
        broker.create_topic("logs", 2)
        log = broker.partition("logs", 1).log
        for producer_id, sequence, epoch in ((7, 0, 0), (8, 0, 3), (7, 4, 0)):
            made = producer_batch(
                producer_id, sequence, epoch=epoch, count=4, timestamp=CLOCK_START_MS + sequence
            )
            log.append(made, origin=AppendOrigin.CLIENT)

        quiet, busy = described(broker, "logs", 0, 1)

        assert states(quiet) == []
        assert sorted(states(busy)) == [
            (7, 0, 7, CLOCK_START_MS + 4, -1, -1),
            (8, 3, 3, CLOCK_START_MS, -1, -1),
        ]


def test_given_an_open_transaction_when_described_then_its_first_offset_is_told():
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        log = broker.partition("logs").log
        for sequence, transactional in ((0, False), (3, True), (6, True)):
            made = producer_batch(
                7, sequence, count=3, transactional=transactional, timestamp=CLOCK_START_MS
            )
            log.append(made, origin=AppendOrigin.COORDINATOR)

        (partition,) = described(broker, "logs", 0)

        assert states(partition) == [(7, 0, 8, CLOCK_START_MS, -1, 3)]


@pytest.mark.parametrize(("topic", "number"), [("none", 0), ("logs", 1), ("logs", -1)])
def test_given_no_such_partition_when_described_then_it_says_so(topic: str, number: int):
    with KafkaBroker() as broker:
        broker.create_topic("logs")

        (partition,) = described(broker, topic, number)

        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (partition.error_code, partition.active_producers) == (unknown, [])
        assert partition.error_message
        assert broker.kafka_errors("describe_producers") == {unknown: 1}


def test_given_a_partition_that_cannot_be_used_when_described_then_it_says_so():
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        broker.manager.partitions_by_topic[b"logs"].append(None)

        first, second = described(broker, "logs", 0, 1)

        assert (first.error_code, second.error_code) == (0, ErrorCode.KAFKA_STORAGE_ERROR)


def test_given_more_than_fits_an_answer_when_described_then_the_rest_is_refused():
    with KafkaBroker(settings={"limits.fetch_response_bytes_max": 1_024}) as broker:
        broker.create_topic("logs")
        log = broker.partition("logs").log
        for producer_id in range(10):
            made = producer_batch(producer_id, 0, timestamp=CLOCK_START_MS)
            log.append(made, origin=AppendOrigin.CLIENT)

        found = [each.error_code for each in described(broker, "logs", 0, 0, 0)]

        assert found == [0, 0, ErrorCode.INVALID_REQUEST]


def test_given_many_partitions_when_described_then_other_requests_go_in_between():
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        request = DescribeProducersRequest([TopicRequest("logs", [0] * 2_500)])

        sent = broker.ask(request, settle=False)

        assert sent.is_waiting
        broker.loop.settle()
        assert len(sent.response.topics[0].partitions) == 2_500


def test_given_many_producers_of_one_partition_when_described_then_other_requests_go_in_between():
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        log = broker.partition("logs").log
        for producer_id in range(1_200):
            log.append(producer_batch(producer_id, 0, timestamp=CLOCK_START_MS))

        sent = broker.ask(DescribeProducersRequest([TopicRequest("logs", [0])]), settle=False)
        broker.loop.turn()
        assert sent.is_waiting
        log.append(producer_batch(9_999, 0, timestamp=CLOCK_START_MS))
        broker.loop.settle()

        (partition,) = sent.response.topics[0].partitions
        assert sorted(state[0] for state in states(partition)) == list(range(1_200))
