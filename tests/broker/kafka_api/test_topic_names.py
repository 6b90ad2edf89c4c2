"""Names of topics as Kafka clients meet them: which are internal, and which would be mistaken."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.kafka.metadata import MetadataRequest, MetadataRequestTopic
from protocol.kafka.topic_changes import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.support.kafka_broker import KafkaBroker
from tests.support.native_broker import batch

MINUTE_MS = 60_000
HEARTBEATS = "__debezium-heartbeat.shop"


def created(broker: KafkaBroker, name: str, **how: Any) -> Any:
    request = CreateTopicsRequest([CreatableTopic(name, 1, 1)], MINUTE_MS, **how)
    (result,) = broker.answer(request).topics
    return result


def deleted(broker: KafkaBroker, name: str) -> int:
    request = DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=MINUTE_MS)
    (result,) = broker.answer(request).responses
    return int(result.error_code)


def asked(broker: KafkaBroker, name: str) -> Any:
    (topic,) = broker.answer(MetadataRequest([MetadataRequestTopic(name=name)])).topics
    return topic


def test_given_a_name_of_a_users_with_two_underscores_when_created_then_it_is_theirs():
    """Only Kafka's own four are internal: Debezium, Connect and Streams have such topics."""
    with KafkaBroker() as broker:
        assert created(broker, HEARTBEATS).error_code == 0
        assert broker.produce(HEARTBEATS, batch(b"a"), acks=-1).error == 0
        assert not asked(broker, HEARTBEATS).is_internal
        assert deleted(broker, HEARTBEATS) == 0


def test_given_a_name_with_two_underscores_when_asked_for_then_it_is_made():
    with KafkaBroker() as broker:
        assert asked(broker, HEARTBEATS).error_code == 0


@pytest.mark.parametrize("value", [None, "5"])
def test_given_the_longest_name_of_a_setting_when_refused_then_the_reason_fits_the_answer(
    value: str | None,
):
    configs = [CreatableTopicConfig("x" * 32_767, value)] * 2
    with KafkaBroker() as broker:
        request = CreateTopicsRequest([CreatableTopic("logs", 1, 1, [], configs)], MINUTE_MS)

        (result,) = broker.answer(request, 4).topics

        assert result.error_code == ErrorCode.INVALID_CONFIG


def test_given_a_topic_by_name_and_by_id_when_deleted_then_it_is_refused_and_stays():
    with KafkaBroker() as broker:
        for name in ("a", "b"):
            broker.create_topic(name)
        topic_id = broker.manager.topic("a").topic_id.bytes
        states = [DeleteTopicState("a"), DeleteTopicState("b"), DeleteTopicState(None, topic_id)]

        answer = broker.answer(DeleteTopicsRequest(states, timeout_ms=MINUTE_MS))

        refused = ErrorCode.INVALID_REQUEST
        assert [each.error_code for each in answer.responses] == [refused, 0, refused]
        assert [entry.name for entry in broker.manager.topics()] == ["a"]


def test_given_names_that_differ_in_dots_only_when_created_then_the_second_is_refused():
    with KafkaBroker() as broker:
        assert created(broker, "a.b").error_code == 0

        result = created(broker, "a_b")

        assert result.error_code == ErrorCode.INVALID_TOPIC
        assert "mistaken for topic a.b" in result.error_message
        assert created(broker, "a_b", validate_only=True).error_code == ErrorCode.INVALID_TOPIC
        assert asked(broker, "a_b").error_code == ErrorCode.INVALID_TOPIC
        assert deleted(broker, "a.b") == 0
        assert created(broker, "a_b").error_code == 0
