"""Fetches of the Kafka protocol: how tests ask, and what they look at in the answers."""

from __future__ import annotations

from typing import Any, Final

from protocol.kafka.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.kafka_broker import KafkaBroker, KafkaSent
from tests.support.native_broker import OS, batch
from tests.support.producers import end_transaction, producer_batch, send_in_transaction

LAST_BY_NAME: Final = 12
"""Later versions name topics by id."""
MANY: Final = 1 << 20


def asked(number: int, offset: int = 0, max_bytes: int = MANY, **how: int) -> FetchPartition:
    return FetchPartition(
        partition=number, fetch_offset=offset, partition_max_bytes=max_bytes, **how
    )


def fetch(*partitions: FetchPartition, topic: str = "logs", **how: Any) -> FetchRequest:
    """From one topic, by name; nothing is waited for unless told."""
    values = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": MANY, **how}
    return FetchRequest(topics=[FetchTopic(topic=topic, partitions=list(partitions))], **values)


def by_id(broker: KafkaBroker, *partitions: FetchPartition, **how: Any) -> FetchRequest:
    request = fetch(*partitions, topic="", **how)
    request.topics[0].topic_id = broker.manager.topic("logs").topic_id.bytes
    return request


def answered(response: Any) -> list[Any]:
    """Return what is said of each partition of the one topic."""
    assert (response.error_code, response.session_id) == (0, 0)
    (topic,) = response.responses
    return list(topic.partitions)


def fetched(broker: KafkaBroker, *partitions: FetchPartition, **how: Any) -> list[Any]:
    return answered(broker.answer(fetch(*partitions, **how), LAST_BY_NAME))


def waiting(broker: KafkaBroker, *partitions: FetchPartition, **how: Any) -> KafkaSent:
    """Send a fetch that has to wait."""
    sent = broker.ask(fetch(*partitions, **{"max_wait_ms": 10_000, **how}), LAST_BY_NAME)
    assert sent.is_waiting
    return sent


def sizes(partitions: list[Any]) -> list[int]:
    return [len(each.records) for each in partitions]


def filled(broker: KafkaBroker, *value_sizes: int, batches: int = 1) -> list[int]:
    """Make a topic with a partition for each size of values; return how large their batches are."""
    broker.create_topic("logs", len(value_sizes), OS)
    made = [batch(bytes(size)) for size in value_sizes]
    for number, data in enumerate(made):
        for _ in range(batches):
            broker.produce("logs", data, partition=number)
    return [len(data) for data in made]


def with_transactions(broker: KafkaBroker) -> None:
    """Make a topic; offsets: 0 plain, 1 aborted, 2 its marker, 3 open, 4 plain."""
    broker.create_topic("logs", settings=OS)
    log = broker.partition("logs").log
    log.append(producer_batch(5, 0))
    send_in_transaction(log, 7, 0)
    end_transaction(log, 7, commit=False)
    send_in_transaction(log, 8, 0)
    log.append(producer_batch(5, 1))
