"""TOPICS, CREATE_TOPIC, DELETE_TOPIC."""

from __future__ import annotations

from broker.native_api import topics as topics_module
from protocol.error_codes import ErrorCode
from protocol.native import requests
from tests.support.native_broker import NativeBroker, batch


def test_given_topics_when_all_are_asked_for_then_their_partitions_are_described():
    size = len(batch(b"a"))
    with NativeBroker() as broker:
        broker.create_topic("logs", 2)
        broker.create_topic("empty")
        broker.produce("logs", batch(b"a"), partition=1)

        error, topics = broker.send(requests.encode_topics()).topics

        assert error == 0
        assert [(t.topic, t.error, [tuple(p) for p in t.partitions]) for t in topics] == [
            (b"logs", 0, [(0, 0, 0, 0, 0), (1, 0, 0, 1, size)]),
            (b"empty", 0, [(0, 0, 0, 0, 0)]),
        ]


def test_given_names_when_asked_for_then_the_answer_is_in_their_order():
    with NativeBroker() as broker:
        for name in ("a", "b"):
            broker.create_topic(name)

        _, topics = broker.send(requests.encode_topics(["b", "nowhere", b"\xff", "a", "b"])).topics

        assert [(topic.topic, topic.error) for topic in topics] == [
            (b"b", 0),
            (b"nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (b"\xff", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (b"a", 0),
            (b"b", 0),
        ]


def test_given_topics_when_asked_for_an_unknown_one_then_it_is_not_created():
    with NativeBroker() as broker:
        broker.send(requests.encode_topics(["nowhere"]))
        broker.fetch("nowhere", 0)
        broker.send(requests.encode_offsets("nowhere", 0, -1, 1))

        assert broker.manager.topics() == []


def test_given_many_partitions_when_described_then_it_takes_turns(monkeypatch):
    monkeypatch.setattr(topics_module, "PARTITIONS_PER_STEP", 10)
    with NativeBroker() as broker:
        for name in ("a", "b", "c"):
            broker.create_topic(name, 12)

        sent = broker.send(requests.encode_topics(), settle=False)
        assert sent.is_waiting
        broker.loop.settle()

        _, topics = sent.topics
        assert [len(topic.partitions) for topic in topics] == [12] * 3


def test_given_many_unknown_names_when_described_then_it_takes_turns(monkeypatch):
    monkeypatch.setattr(topics_module, "PARTITIONS_PER_STEP", 10)
    with NativeBroker() as broker:
        sent = broker.send(requests.encode_topics(["nowhere"] * 25), settle=False)
        assert sent.is_waiting
        broker.loop.settle()

        error, topics = sent.topics
        assert (error, len(topics)) == (0, 25)


def test_given_unknown_names_over_the_limit_when_described_then_it_is_refused():
    with NativeBroker(settings={"limits.fetch_response_bytes_max": 2_000}) as broker:
        error, topics = broker.send(requests.encode_topics(["n" * 180] * 12)).topics

        assert (error, topics) == (ErrorCode.INVALID_REQUEST, [])


def test_given_as_many_names_as_allowed_when_asked_for_then_they_are_described():
    with NativeBroker(settings={"limits.request_entries_max": 3}) as broker:
        error, topics = broker.send(requests.encode_topics(["nowhere"] * 3)).topics

        assert (error, len(topics)) == (0, 3)


def test_given_an_answer_over_the_limit_when_described_then_it_is_refused():
    with NativeBroker(settings={"limits.fetch_response_bytes_max": 2_000}) as broker:
        broker.create_topic("logs", 100)

        error, topics = broker.send(requests.encode_topics()).topics

        assert (error, topics) == (ErrorCode.INVALID_REQUEST, [])


def test_given_settings_when_created_then_the_log_has_them():
    with NativeBroker() as broker:
        broker.create_topic("logs", 3, {"retention.ms": "60000", "flush_policy": "os"})

        config = broker.partition("logs", 2).log.config
        assert (config.retention_ms, config.flush_policy) == (60_000, "os")
        assert broker.manager.topic("logs").settings == {
            "retention.ms": "60000",
            "flush.policy": "os",
        }


def test_given_a_creation_when_the_client_sends_on_then_reading_is_paused_until_it_is_there():
    with NativeBroker() as broker:
        sent = broker.send(requests.encode_create_topic("logs", 9), settle=False)

        assert sent.is_waiting
        assert sent.pauses_reading
        broker.loop.settle()
        assert sent.status == (0, "")


def test_given_a_topic_when_deleted_then_readers_and_writers_find_none():
    with NativeBroker(settings={"topics.auto_create": False}) as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a"))

        assert broker.send(requests.encode_delete_topic("logs")).status == (0, "")

        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert broker.fetch("logs", 0).error == unknown
        assert broker.produce("logs", batch(b"a")).error == unknown
        assert broker.send(requests.encode_topics()).topics == (0, [])


def test_given_requests_when_handled_then_they_are_counted():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.send(requests.encode_create_topic("logs", 1))

        metrics = broker.requests("create_topic")

        assert (metrics.count, metrics.latency.count) == (2, 2)
        assert metrics.errors == {ErrorCode.TOPIC_ALREADY_EXISTS: 1}
