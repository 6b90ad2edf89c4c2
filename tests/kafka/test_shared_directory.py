"""One data directory, now Apache Kafka's, now ours, now Kafka's again: nobody notices."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.structs import TopicPartition

from tests.support.kafka_jars import KafkaPrograms
from tests.support.kafka_node import KafkaNode
from tests.support.running_broker import BrokerProcess
from tidelog.client import Client

pytestmark = pytest.mark.timeout(900)  # the jars may have to be fetched first

COUNT = 200


def values(start: int) -> list[bytes]:
    return [b"%d " % number * 40 for number in range(start, start + COUNT)]


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def produce_to_kafka(node: KafkaNode, messages: Iterable[bytes]) -> None:
    producer = KafkaProducer(bootstrap_servers=node.address, acks="all", linger_ms=5)
    for message in messages:
        producer.send("shared", message, partition=0)
    producer.flush()
    producer.close()


def consumed_from_kafka(node: KafkaNode, count: int) -> list[tuple[int, bytes]]:
    consumer = KafkaConsumer(
        bootstrap_servers=node.address, auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    partition = TopicPartition("shared", 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found = []
    for record in consumer:
        found.append((record.offset, record.value))
        if len(found) == count:
            break
    consumer.close()
    return found


def test_given_a_kafka_directory_when_we_append_to_it_then_kafka_goes_on_with_all_of_it(
    kafka: KafkaPrograms, tmp_path: Path
) -> None:
    node = KafkaNode(kafka, tmp_path)
    with node:
        admin = KafkaAdminClient(bootstrap_servers=node.address)
        admin.create_topics([NewTopic("shared", 1, 1)])
        admin.close()
        produce_to_kafka(node, values(0))
        node.stop()
    metadata = files_of(node.data / "__cluster_metadata-0")

    ours = BrokerProcess(tmp_path, "topics.retention_ms=-1", "topics.segment_bytes=50000")
    ours.data_directory = node.data
    with ours:
        with Client(ours.address) as client:
            with client.producer() as producer:
                sent = [
                    producer.produce("shared", message, partition=0) for message in values(COUNT)
                ]
            assert [each.result().offset for each in sent] == list(range(COUNT, 2 * COUNT))
            mine = [(message.offset, message.value) for message in client.messages("shared")]
        assert ours.stop() == 0
    assert files_of(node.data / "__cluster_metadata-0") == metadata, "that log is Kafka's alone"

    with node:
        produce_to_kafka(node, values(2 * COUNT))
        found = consumed_from_kafka(node, 3 * COUNT)
        node.stop()

    assert mine == list(enumerate(values(0) + values(COUNT)))
    assert found == list(enumerate(values(0) + values(COUNT) + values(2 * COUNT)))
