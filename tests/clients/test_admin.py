"""Topics and their settings as clients change them, and the errors that they raise."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from protocol.error_codes import ErrorCode
from tests.clients.adapters.client import Client, Record


def test_given_a_topic_when_deleted_and_made_again_then_it_is_another_and_empty(
    client: Client, topic: str
) -> None:
    client.send(topic, [Record(b"old")] * 3)

    client.delete_topic(topic)
    assert topic not in client.partition_counts()
    client.create_topic(topic, 2)

    assert client.partition_counts()[topic] == 2
    assert client.bounds(topic) == (0, 0)
    client.send(topic, [Record(b"new")])
    assert [record.value for _, record in client.read(topic, 1)] == [b"new"]


def test_given_a_topic_when_it_is_given_partitions_then_they_can_be_used(
    client: Client, topic: str
) -> None:
    client.grow_topic(topic, 4)

    assert client.partition_counts()[topic] == 4
    client.send(topic, [Record(b"x")], partition=3)
    assert [record.value for _, record in client.read(topic, 1, partition=3)] == [b"x"]


def test_given_settings_when_a_topic_is_made_then_they_are_told_and_can_be_changed(
    client: Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(retention_ms=3_600_000, cleanup_policy="compact")
    told = client.settings(topic)
    assert (told["retention.ms"], told["cleanup.policy"]) == ("3600000", "compact")
    assert told["compression.type"] == "producer"  # a default

    client.alter_setting(topic, "max.message.bytes", "2000")

    assert client.settings(topic)["max.message.bytes"] == "2000"
    with client.raises(ErrorCode.MESSAGE_TOO_LARGE):
        client.send(topic, [Record(bytes(3_000), b"key")])


def test_given_a_topic_that_is_there_when_made_again_then_that_is_the_error(
    client: Client, topic: str
) -> None:
    with client.raises(ErrorCode.TOPIC_ALREADY_EXISTS):
        client.create_topic(topic)


def test_given_a_topic_that_is_not_there_when_deleted_then_that_is_the_error(
    client: Client,
) -> None:
    with client.raises(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        client.delete_topic("never-made")


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (ErrorCode.INVALID_TOPIC, {"topic": "no such/name"}),
        (ErrorCode.INVALID_REPLICATION_FACTOR, {"replicas": 3}),
        (ErrorCode.INVALID_CONFIG, {"retention_ms": "soon"}),
        (ErrorCode.INVALID_CONFIG, {"no_such_setting": "1"}),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else next(iter(value)),
)
def test_given_what_cannot_be_when_a_topic_is_made_then_the_error_says_which(
    client: Client, error: ErrorCode, arguments: dict[str, str]
) -> None:
    with client.raises(error):
        client.create_topic(**{"topic": "refused", **arguments})  # type: ignore[arg-type]

    assert "refused" not in client.partition_counts()


def test_given_a_topic_when_shrunk_then_that_is_the_error(
    client: Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(3)

    with client.raises(ErrorCode.INVALID_PARTITIONS):
        client.grow_topic(topic, 2)

    assert client.partition_counts()[topic] == 3


def test_given_an_offset_behind_the_end_when_records_are_deleted_then_that_is_the_error(
    client: Client, topic: str
) -> None:
    client.send(topic, [Record(b"x")])

    with client.raises(ErrorCode.OFFSET_OUT_OF_RANGE):
        client.delete_records(topic, 5)


def test_given_a_compacted_topic_when_sent_a_record_without_a_key_then_it_is_refused(
    client: Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(cleanup_policy="compact")

    with client.raises(ErrorCode.INVALID_RECORD):
        client.send(topic, [Record(b"no key")])
