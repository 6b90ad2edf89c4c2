"""Metadata: what clients are told of the broker, of topics and of partitions, in all versions."""

from __future__ import annotations

import errno
from typing import Any
from uuid import UUID

import pytest

from protocol.error_codes import ErrorCode
from protocol.kafka.message import NO_UUID
from protocol.kafka.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.kafka_broker import ADVERTISED, CLUSTER_ID, KafkaBroker

VERSIONS = range(14)
NOT_ASKED = -(2**31)
UNKNOWN = UUID(int=7).bytes


def named(*names: str | None) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def with_id(topic_id: bytes) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(topic_id=topic_id, name=None)]


def asked(*names: str, **how: Any) -> MetadataRequest:
    return MetadataRequest(topics=named(*names), **how)


def id_of(broker: KafkaBroker, topic: str) -> bytes:
    return broker.manager.topic(topic).topic_id.bytes


def make_large_topics(broker: KafkaBroker) -> None:
    """Three of 600 partitions, most of which cannot be used: they cost no disk."""
    for name in ("a", "b", "c"):
        broker.create_topic(name)
        broker.manager.partitions_by_topic[name.encode()].extend([None] * 599)


# --- the broker -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_given_a_broker_when_asked_then_it_is_the_one_broker_and_the_controller(version: int):
    with KafkaBroker(settings={"daemon.node_id": 7}) as broker:
        answer = broker.answer(MetadataRequest(topics=[]), version)

        (node,) = answer.brokers
        assert (node.node_id, node.host, node.port, node.rack) == (7, *ADVERTISED, None)
        assert answer.controller_id == (7 if version >= 1 else -1)
        assert answer.cluster_id == (CLUSTER_ID if version >= 2 else None)
        assert (answer.throttle_time_ms, answer.error_code) == (0, 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_given_authorized_operations_when_asked_for_then_everything_is_allowed(version: int):
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        request = asked(
            "logs",
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )
        if version not in range(8, 11):
            request.include_cluster_authorized_operations = False
        if version < 8:
            request.include_topic_authorized_operations = False

        answer = broker.answer(request, version)

        # As Kafka without an authorizer answers: every operation that such a resource knows.
        assert answer.cluster_authorized_operations == (
            0b1_1111_1010_0000 if version in range(8, 11) else NOT_ASKED
        )
        assert answer.topics[0].topic_authorized_operations == (
            0b1101_1111_1000 if version >= 8 else NOT_ASKED
        )


def test_given_authorized_operations_when_not_asked_for_then_they_say_so():
    with KafkaBroker() as broker:
        broker.create_topic("logs")

        answer = broker.answer(asked("logs"), 10)

        assert answer.cluster_authorized_operations == NOT_ASKED
        assert answer.topics[0].topic_authorized_operations == NOT_ASKED


# --- topics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_given_a_topic_when_asked_for_then_its_partitions_are_led_here(version: int):
    with KafkaBroker() as broker:
        broker.create_topic("logs", 3)
        for number in range(3):
            broker.partition("logs", number).log.begin_leader_epoch(40 + number)

        (topic,) = broker.answer(asked("logs"), version).topics

        assert (topic.error_code, topic.name, topic.is_internal) == (0, "logs", False)
        assert topic.topic_id == (id_of(broker, "logs") if version >= 10 else NO_UUID)
        assert [
            (each.error_code, each.partition_index, each.leader_id, each.leader_epoch)
            for each in topic.partitions
        ] == [(0, n, 1, 40 + n if version >= 7 else -1) for n in range(3)]
        for each in topic.partitions:
            assert (each.replica_nodes, each.isr_nodes, each.offline_replicas) == ([1], [1], [])


@pytest.mark.parametrize("version", VERSIONS)
def test_given_topics_when_all_are_asked_for_then_null_or_in_version_0_nothing_names_them(
    version: int,
):
    with KafkaBroker() as broker:
        broker.create_topic("a")
        broker.create_topic("b", 2)

        everything = MetadataRequest(topics=[] if version == 0 else None)
        topics = broker.answer(everything, version).topics
        nothing = broker.answer(MetadataRequest(topics=[]), version).topics

        assert {topic.name: len(topic.partitions) for topic in topics} == {"a": 1, "b": 2}
        assert len(nothing) == (2 if version == 0 else 0)


@pytest.mark.parametrize("version", [12, 13])
def test_given_an_id_when_asked_for_then_the_topic_of_that_id_is_described(version: int):
    with KafkaBroker() as broker:
        broker.create_topic("logs", 2)

        request = MetadataRequest(topics=with_id(id_of(broker, "logs")) + with_id(UNKNOWN))
        known, unknown = broker.answer(request, version).topics

        assert (known.error_code, known.name, len(known.partitions)) == (0, "logs", 2)
        assert known.topic_id == id_of(broker, "logs")
        assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
        assert unknown.topic_id == UNKNOWN
        assert broker.kafka_errors("metadata") == {ErrorCode.UNKNOWN_TOPIC_ID: 1}


def test_given_a_topic_made_again_when_asked_for_by_the_old_id_then_it_is_unknown():
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        old = id_of(broker, "logs")
        broker.loop.run(broker.manager.delete_topic("logs"))
        broker.create_topic("logs")

        (topic,) = broker.answer(MetadataRequest(topics=with_id(old))).topics

        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("topic", [with_id(UNKNOWN), named(None)])
def test_given_a_version_without_look_up_by_id_when_asked_by_id_then_it_is_refused(
    version: int, topic: list[MetadataRequestTopic]
):
    with KafkaBroker() as broker:
        (answered,) = broker.answer(MetadataRequest(topics=topic), version).topics

        assert (answered.error_code, answered.name) == (ErrorCode.INVALID_REQUEST, "")
        assert broker.manager.topics() == []


def test_given_a_topic_named_twice_when_asked_for_then_it_is_described_once():
    with KafkaBroker() as broker:
        broker.create_topic("logs")

        assert len(broker.answer(asked("logs", "logs", "logs")).topics) == 1


def test_given_a_name_that_is_no_name_when_asked_for_then_it_is_invalid_and_not_made():
    with KafkaBroker() as broker:
        topics = broker.answer(asked("a b", "", "..", "é", "x" * 250)).topics

        assert [topic.error_code for topic in topics] == [ErrorCode.INVALID_TOPIC] * 5
        assert [topic.name for topic in topics] == ["a b", "", "..", "é", "x" * 250]
        assert broker.manager.topics() == []


def test_given_a_partition_that_cannot_be_used_when_asked_for_then_it_has_no_leader():
    with KafkaBroker() as broker:
        broker.create_topic("logs", 2)
        broker.manager.partitions_by_topic[b"logs"][1] = None

        (topic,) = broker.answer(asked("logs")).topics

        usable, broken = topic.partitions
        assert (usable.error_code, usable.leader_id) == (0, 1)
        assert (broken.error_code, broken.leader_id, broken.leader_epoch) == (
            ErrorCode.LEADER_NOT_AVAILABLE, -1, -1,
        )  # fmt: skip
        assert (broken.replica_nodes, broken.offline_replicas) == ([1], [1])


def test_given_an_internal_topic_when_asked_for_then_it_is_marked():
    with KafkaBroker() as broker:
        broker.loop.run(broker.manager.ensure_topic("__consumer_offsets"))

        (topic,) = broker.answer(asked("__consumer_offsets")).topics

        assert (topic.error_code, topic.is_internal) == (0, True)


# --- making them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_given_an_unknown_topic_when_asked_for_then_it_is_made_with_the_defaults(version: int):
    with KafkaBroker(settings={"topics.default_partitions": 3}) as broker:
        (topic,) = broker.answer(asked("logs"), version).topics

        assert (topic.error_code, len(topic.partitions)) == (0, 3)
        assert broker.manager.topic("logs").partition_count == 3


@pytest.mark.parametrize("version", range(4, 14))
def test_given_an_unknown_topic_when_asked_not_to_make_it_then_it_is_unknown(version: int):
    with KafkaBroker() as broker:
        request = asked("logs", allow_auto_topic_creation=False)
        (topic,) = broker.answer(request, version).topics

        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert broker.manager.topics() == []
        assert broker.kafka_errors("metadata") == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 1}


@pytest.mark.parametrize("version", VERSIONS)
def test_given_that_topics_are_not_made_when_asked_for_then_unknown_ones_are_unknown(version: int):
    with KafkaBroker(settings={"topics.auto_create": False}) as broker:
        (topic,) = broker.answer(asked("logs"), version).topics

        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert broker.manager.topics() == []


def test_given_an_internal_name_when_asked_for_then_it_is_not_made():
    with KafkaBroker() as broker:
        (topic,) = broker.answer(asked("__transaction_state")).topics

        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (topic.is_internal, broker.manager.topics()) == (True, [])


def test_given_a_full_disk_when_a_topic_is_asked_for_then_it_says_why_it_was_not_made():
    with KafkaBroker() as broker:
        broker.create_topic("there")
        broker.disk.fail("make_directory", OSError(errno.ENOSPC, "No space left"), times=9)

        new, there = broker.answer(asked("new", "there")).topics

        assert (new.name, new.error_code) == ("new", ErrorCode.KAFKA_STORAGE_ERROR)
        assert (there.name, there.error_code) == ("there", 0)
        broker.disk._faults.clear()


def test_given_a_topic_that_is_being_made_when_asked_twice_then_both_are_told_of_the_same():
    with KafkaBroker() as broker:
        sent = [broker.ask(asked("logs"), settle=False) for _ in range(2)]
        assert all(each.is_waiting and each.pauses_reading for each in sent)
        broker.loop.settle()

        first, second = (each.response.topics[0] for each in sent)

        assert first.error_code == second.error_code == 0
        assert first.topic_id == second.topic_id == id_of(broker, "logs")


# --- its size -------------------------------------------------------------------------------------


def test_given_many_partitions_when_described_then_other_requests_go_in_between():
    with KafkaBroker() as broker:
        make_large_topics(broker)

        one_topic = broker.ask(asked("a"), settle=False)
        all_topics = broker.ask(MetadataRequest(topics=None), settle=False)

        assert not one_topic.is_waiting
        assert all_topics.is_waiting
        broker.loop.settle()
        assert [len(each.partitions) for each in all_topics.response.topics] == [600] * 3


def test_given_a_client_that_is_gone_when_described_then_it_is_not_gone_on_with():
    with KafkaBroker() as broker:
        make_large_topics(broker)
        sent = broker.ask(MetadataRequest(topics=None), settle=False)

        sent.abandon()
        broker.loop.settle()

        assert sent.is_waiting
        assert broker.connection.closed == []


@pytest.mark.parametrize("version", VERSIONS)
def test_given_more_than_fits_an_answer_when_described_then_the_rest_is_refused_topic_by_topic(
    version: int,
):
    with KafkaBroker(settings={"limits.fetch_response_bytes_max": 4_096}) as broker:
        for name in ("a", "b", "c"):
            broker.create_topic(name, 60)

        sent = broker.ask(asked("a", "b", "c"), version)

        assert len(sent.frame) <= 4_096
        found = [(each.error_code, len(each.partitions)) for each in sent.response.topics]
        assert found == [(0, 60), (ErrorCode.INVALID_REQUEST, 0), (ErrorCode.INVALID_REQUEST, 0)]
