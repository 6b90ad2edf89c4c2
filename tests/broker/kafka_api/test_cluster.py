"""DescribeCluster and DescribeTopicPartitions."""

from __future__ import annotations

import pytest

from protocol.error_codes import ErrorCode
from protocol.kafka.cluster import (
    Cursor,
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tests.support.kafka_broker import ADVERTISED, CLUSTER_ID, KafkaBroker

NOT_ASKED = -(2**31)


def pages(
    broker: KafkaBroker, *names: str, limit: int = 2_000, cursor: Cursor | None = None
) -> list[list[tuple[str, list[int]]]]:
    """Ask until there is no cursor any more; return topics and partition numbers of each page."""
    found: list[list[tuple[str, list[int]]]] = []
    while True:
        topics = [TopicRequest(name) for name in names]
        answer = broker.answer(DescribeTopicPartitionsRequest(topics, limit, cursor))
        found.append(
            [(t.name, [each.partition_index for each in t.partitions]) for t in answer.topics]
        )
        cursor = answer.next_cursor
        if cursor is None:
            return found


# --- DescribeCluster ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_given_a_broker_when_described_then_it_is_all_there_is(version: int):
    with KafkaBroker(settings={"daemon.node_id": 7}) as broker:
        answer = broker.answer(DescribeClusterRequest(), version)

        (node,) = answer.brokers
        assert (node.broker_id, node.host, node.port, node.rack) == (7, *ADVERTISED, None)
        assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, 7)
        assert (answer.error_code, answer.error_message, answer.endpoint_type) == (0, None, 1)
        assert not node.is_fenced
        assert answer.cluster_authorized_operations == NOT_ASKED


@pytest.mark.parametrize("version", range(3))
def test_given_authorized_operations_when_asked_for_then_everything_is_allowed(version: int):
    with KafkaBroker() as broker:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)

        answer = broker.answer(request, version)

        assert answer.cluster_authorized_operations == 0b1_1111_1010_0000


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
@pytest.mark.parametrize("version", [1, 2])
def test_given_another_kind_of_endpoint_when_asked_for_then_it_is_refused(
    version: int, endpoint_type: int, error: ErrorCode
):
    with KafkaBroker() as broker:
        answer = broker.answer(DescribeClusterRequest(endpoint_type=endpoint_type), version)

        assert (answer.error_code, answer.brokers) == (error, [])
        assert answer.error_message
        assert broker.kafka_errors("describe_cluster") == {error: 1}


# --- DescribeTopicPartitions ----------------------------------------------------------------------


def test_given_a_topic_when_described_then_all_of_its_partitions_are():
    with KafkaBroker() as broker:
        broker.create_topic("logs", 2)
        broker.partition("logs", 1).log.begin_leader_epoch(5)
        broker.manager.partitions_by_topic[b"logs"].append(None)  # one that cannot be used

        (topic,) = broker.answer(DescribeTopicPartitionsRequest([TopicRequest("logs")])).topics

        assert (topic.error_code, topic.name, topic.is_internal) == (0, "logs", False)
        assert topic.topic_id == broker.manager.topic("logs").topic_id.bytes
        assert topic.topic_authorized_operations == 0b1101_1111_1000
        lost = ErrorCode.LEADER_NOT_AVAILABLE
        assert [
            (p.error_code, p.partition_index, p.leader_id, p.leader_epoch, p.offline_replicas)
            for p in topic.partitions
        ] == [(0, 0, 1, 0, []), (0, 1, 1, 5, []), (lost, 2, -1, -1, [1])]
        for each in topic.partitions:
            assert each.replica_nodes == each.isr_nodes == [1]
            assert each.eligible_leader_replicas == each.last_known_elr == []


def test_given_topics_when_all_are_asked_for_then_they_come_by_name():
    with KafkaBroker() as broker:
        for name in ("c", "a", "b"):
            broker.create_topic(name)

        assert pages(broker) == [[("a", [0]), ("b", [0]), ("c", [0])]]
        assert pages(broker, "c", "a") == [[("a", [0]), ("c", [0])]]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (2, [[("a", [0, 1])], [("a", [2]), ("b", [0])], [("b", [1])]]),
        (3, [[("a", [0, 1, 2])], [("b", [0, 1])]]),
        (4, [[("a", [0, 1, 2]), ("b", [0])], [("b", [1])]]),
        (5, [[("a", [0, 1, 2]), ("b", [0, 1])]]),
        (-1, [[("a", [0])], [("a", [1])], [("a", [2])], [("b", [0])], [("b", [1])]]),
    ],
)
def test_given_a_limit_when_described_then_pages_follow_the_cursor(
    limit: int, expected: list[list[tuple[str, list[int]]]]
):
    with KafkaBroker() as broker:
        broker.create_topic("a", 3)
        broker.create_topic("b", 2)

        assert pages(broker, limit=limit) == expected
        assert pages(broker, "b", "a", limit=limit) == expected


def test_given_a_large_limit_when_described_then_a_page_has_no_more_than_2000():
    with KafkaBroker() as broker:
        broker.create_topic("a")
        broker.manager.partitions_by_topic[b"a"].extend([None] * 2_000)

        first, second = pages(broker, limit=2**31 - 1)

        assert [len(numbers) for _, numbers in first] == [2_000]
        assert second == [("a", [2_000])]


def test_given_a_cursor_at_a_topic_that_was_deleted_when_all_are_asked_for_then_it_goes_on_behind():
    with KafkaBroker() as broker:
        for name in ("a", "c"):
            broker.create_topic(name, 2)

        assert pages(broker, cursor=Cursor("b", 1)) == [[("c", [0, 1])]]


def test_given_very_many_topics_when_described_then_others_go_in_between():
    with KafkaBroker() as broker:
        broker.create_topic("logs", 2)
        there = broker.manager.partitions_by_topic
        asked = [TopicRequest(f"none-{number}") for number in range(600)]

        all_of_them = DescribeTopicPartitionsRequest([*asked, TopicRequest("logs")])
        first = broker.ask(all_of_them, settle=False)
        there |= {f"more-{number}".encode(): there[b"logs"] for number in range(600)}
        broker.manager.store.entries.update(
            {f"more-{number}": broker.manager.topic("logs") for number in range(600)}
        )
        second = broker.ask(DescribeTopicPartitionsRequest(), settle=False)
        for number in range(600):  # gone before the second step gets there
            del there[f"more-{number}".encode()], broker.manager.store.entries[f"more-{number}"]

        assert first.is_waiting
        assert second.is_waiting
        broker.loop.settle()
        names = [topic.name for topic in first.response.topics]
        assert names == sorted(topic.name for topic in all_of_them.topics)
        assert {topic.error_code for topic in second.response.topics} == {0}
        assert 100 < len(second.response.topics) < 600


def test_given_topics_that_are_not_there_when_asked_for_then_each_says_so():
    with KafkaBroker() as broker:
        request = DescribeTopicPartitionsRequest([TopicRequest("none"), TopicRequest("no name")])

        answer = broker.answer(request)

        assert [(topic.name, topic.error_code) for topic in answer.topics] == [
            ("no name", ErrorCode.INVALID_TOPIC),
            ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert broker.manager.topics() == []


@pytest.mark.parametrize("cursor", [Cursor("logs", -1), Cursor("other", 0)])
def test_given_a_cursor_that_cannot_be_when_described_then_every_topic_is_refused(cursor: Cursor):
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        request = DescribeTopicPartitionsRequest([TopicRequest("logs")], cursor=cursor)

        answer = broker.answer(request)

        assert [each.error_code for each in answer.topics] == [ErrorCode.INVALID_REQUEST]
        assert answer.next_cursor is None
