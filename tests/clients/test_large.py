"""Large messages, and many partitions."""

from __future__ import annotations

from collections.abc import Callable

from protocol.error_codes import ErrorCode
from tests.clients.adapters.client import Client, Record

BATCH_BYTES = 61
"""A batch's header; that of one record follows."""
RECORD_BYTES = 12
"""Of a record without key and headers whose value is some 100 KB, beside the value."""
TOPICS, PARTITIONS = 100, 10


def test_given_a_limit_when_messages_are_just_below_and_above_it_then_only_those_below_are_taken(
    client: Client, new_topic: Callable[..., str]
) -> None:
    limit = 100_000
    topic = new_topic(max_message_bytes=limit)
    largest = Record(bytes(limit - BATCH_BYTES - RECORD_BYTES))

    client.send(topic, [largest])
    with client.raises(ErrorCode.MESSAGE_TOO_LARGE):
        client.send(topic, [Record(bytes(limit))])
    client.send(topic, [Record(b"next")])

    found = [record.value for _, record in client.read(topic, 2)]
    assert found == [largest.value, b"next"]


def test_given_a_message_larger_than_clients_ask_for_when_read_then_it_comes_whole(
    client: Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(max_message_bytes=8_000_000)
    sent = [Record(bytes([number]) * 3_000_000) for number in range(3)]

    for record in sent:
        client.send(topic, [record], request_bytes_max=4_000_000)

    assert [record for _, record in client.read(topic, 3)] == sent


def test_given_a_hundred_topics_of_ten_partitions_when_written_and_read_then_nothing_is_missing(
    client: Client,
) -> None:
    topics = [f"many-{type(client).__name__}-{number}" for number in range(TOPICS)]
    partitions = [(topic, number) for topic in topics for number in range(PARTITIONS)]
    client.create_topics(topics, PARTITIONS, 1, {})

    arrived = client.send_to_all(partitions, b"for each")
    found = client.read_all(partitions)

    counts = client.partition_counts()
    assert {counts[topic] for topic in topics} == {PARTITIONS}
    assert arrived == len(partitions)
    assert found == dict.fromkeys(partitions, b"for each")
