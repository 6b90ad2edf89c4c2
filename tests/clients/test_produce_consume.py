"""Records that clients send come back as they were."""

from __future__ import annotations

import pytest

from tests.clients.adapters.client import CODECS, NOW_MS, Client, Record


def different_records(count: int) -> list[Record]:
    """Records with everything a record can have, and without.

    Only librdkafka would send one with neither key nor value; the others refuse to.
    """
    return [
        Record(
            None if number % 7 == 3 else b"value %d " % number * (number % 50),
            None if number % 3 == 0 and number % 7 != 3 else b"key %d" % number,
            tuple((f"header {one}", b"\x00\xff" * one) for one in range(number % 4)),
            NOW_MS + number * 1_000,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_given_a_codec_when_records_are_sent_then_they_come_back_as_they_were(
    client: Client, topic: str, codec: str
) -> None:
    sent = different_records(300)

    offsets = client.send(topic, sent, codec=codec)
    received = client.read(topic, len(sent))

    assert offsets == list(range(300))
    assert [record for _, record in received] == sent
    assert [offset for offset, _ in received] == offsets


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_given_acks_when_records_are_sent_then_all_are_there(
    client: Client, topic: str, acks: int
) -> None:
    sent = different_records(50)

    offsets = client.send(topic, sent, acks=acks)
    received = client.read(topic, len(sent))

    assert [record for _, record in received] == sent
    if acks:  # without an answer a client knows no offset
        assert offsets == list(range(50))


def test_given_an_idempotent_producer_when_it_sends_again_and_again_then_each_record_is_there_once(
    client: Client, topic: str
) -> None:
    sent = different_records(100)

    offsets = [client.send(topic, sent, is_idempotent=True) for _ in range(3)]
    received = client.read(topic, 300)

    assert [offset for each in offsets for offset in each] == list(range(300))
    assert [record for _, record in received] == sent * 3


def test_given_several_partitions_when_sent_to_then_each_has_its_own(
    client: Client, new_topic
) -> None:
    topic = new_topic(3)

    for partition in range(3):
        client.send(topic, [Record(b"for %d" % partition)], partition=partition)

    for partition in range(3):
        ((offset, record),) = client.read(topic, 1, partition=partition)
        assert (offset, record.value) == (0, b"for %d" % partition)


def test_given_a_topic_nobody_made_when_sent_to_then_it_is_made(client: Client) -> None:
    topic = f"unmade-{type(client).__name__}"
    assert topic not in client.partition_counts()

    client.send(topic, [Record(b"first")])

    assert client.partition_counts()[topic] == 1
    assert [record.value for _, record in client.read(topic, 1)] == [b"first"]


def test_given_a_topic_with_append_times_when_read_then_the_brokers_time_comes_back(
    client: Client, new_topic
) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")

    client.send(topic, [Record(b"x", timestamp_ms=1_000)])
    ((_, record),) = client.read(topic, 1)

    assert record.value == b"x"
    assert record.timestamp_ms >= NOW_MS
