"""kafka-python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from time import monotonic
from typing import Final

import kafka
import pytest
from kafka import ConsumerRebalanceListener
from kafka import TopicPartition as Partition
from kafka.admin import ConfigResource, NewPartitions
from kafka.errors import for_code

from protocol.error_codes import ErrorCode
from tests.clients.adapters.client import SESSION_MS, WAIT_S, Client, Record

POLL_MS: Final = 1_000
STUCK_S: Final = 3.0
"""A poll of kafka-python 3.0 that ends between the answers to JoinGroup and SyncGroup leaves a
member without partitions, which sends no heartbeats and does not join again: docs/clients.md."""


class KafkaPythonClient(Client):
    """kafka-python."""

    def _producer(self, **settings: object) -> kafka.KafkaProducer:
        return kafka.KafkaProducer(
            bootstrap_servers=self.address, linger_ms=2, metrics_enabled=False, **settings
        )

    @contextmanager
    def _consumer(
        self, group: str | None = None, **settings: object
    ) -> Iterator[kafka.KafkaConsumer]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.address,
            group_id=group,
            enable_auto_commit=False,
            metrics_enabled=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            **{"auto_offset_reset": "earliest", **settings},
        )
        try:
            yield consumer
        finally:
            consumer.close()

    # --- records --------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: int = -1,
        is_idempotent: bool = False,
        request_bytes_max: int = 1_000_000,
    ) -> list[int]:
        with closing(
            self._producer(
                compression_type=None if codec == "none" else codec,
                acks=acks,
                enable_idempotence=is_idempotent,
                max_request_size=request_bytes_max,
            )
        ) as producer:
            futures = [
                producer.send(
                    topic,
                    record.value,
                    record.key,
                    list(record.headers),
                    partition,
                    record.timestamp_ms,
                )
                for record in records
            ]
            return [each.get(WAIT_S).offset for each in futures]

    def send_to_all(self, partitions: Iterable[tuple[str, int]], value: bytes) -> int:
        partitions = list(partitions)
        with closing(self._producer()) as producer, ThreadPoolExecutor(50) as threads:
            # It asks for metadata every 100 ms at most: asking for all topics at once saves time.
            for _ in threads.map(producer.partitions_for, {topic for topic, _ in partitions}):
                pass
            futures = [
                producer.send(topic, value, partition=partition) for topic, partition in partitions
            ]
            producer.flush(WAIT_S)
            return sum(each.succeeded() for each in futures)

    def read(
        self,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        offset: int = 0,
        wait_s: float = WAIT_S,
        resets: bool = True,
    ) -> list[tuple[int, Record]]:
        reset = "earliest" if resets else "none"
        with self._consumer(auto_offset_reset=reset) as consumer:
            consumer.assign([Partition(topic, partition)])
            consumer.seek(Partition(topic, partition), offset)
            return _take(consumer, count, wait_s)

    def read_all(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], bytes]:
        with self._consumer() as consumer:
            consumer.assign([Partition(*one) for one in partitions])
            consumer.seek_to_beginning()
            return {
                (found.topic, found.partition): found.value
                for found in _records(consumer, len(partitions), WAIT_S)
            }

    def bounds(self, topic: str) -> tuple[int, int]:
        one = Partition(topic, 0)
        with self._consumer() as consumer:
            return consumer.beginning_offsets([one])[one], consumer.end_offsets([one])[one]

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        one = Partition(topic, 0)
        with self._consumer() as consumer:
            found = consumer.offsets_for_times({one: timestamp_ms})[one]
        return None if found is None else found.offset

    # --- groups ---------------------------------------------------------------------------------

    def read_and_commit(self, topic: str, group: str, count: int) -> list[tuple[int, Record]]:
        with self._consumer(group) as consumer:
            found = _take(_Member(consumer, topic), count, WAIT_S)
            consumer.commit()
            return found

    def follow(
        self,
        topic: str,
        group: str,
        *,
        assigned: Callable[[list[int]], None],
        received: Callable[[int, int], None],
        is_over: Callable[[], bool],
    ) -> None:
        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_revoked(self, revoked: list[Partition]) -> None:
                assigned([])

            def on_partitions_assigned(self, partitions: list[Partition]) -> None:
                assigned([each.partition for each in partitions])

        with self._consumer(group) as consumer:
            member = _Member(consumer, topic, Listener())
            while not is_over():
                for records in member.poll(POLL_MS).values():
                    for record in records:
                        received(record.partition, record.offset)

    def groups(self) -> set[str]:
        with self._admin() as admin:
            return {each["group_id"] for each in admin.list_groups()}

    def group_state(self, group: str) -> str:
        with self._admin() as admin:
            state: str = admin.describe_groups([group])[group]["group_state"]
        return state.lower()

    def committed(self, topic: str, group: str) -> int:
        with self._admin() as admin:
            found = admin.list_group_offsets(group)
        return found[group][Partition(topic, 0)].offset

    # --- topics ---------------------------------------------------------------------------------

    def _admin(self) -> AbstractContextManager[kafka.KafkaAdminClient]:
        return closing(kafka.KafkaAdminClient(bootstrap_servers=self.address))

    def create_topics(
        self, topics: Sequence[str], partitions: int, replicas: int, settings: dict[str, str]
    ) -> None:
        options = {
            "num_partitions": partitions,
            "replication_factor": replicas,
            "configs": settings,
        }
        with self._admin() as admin:
            admin.create_topics(dict.fromkeys(topics, options))

    def delete_topic(self, topic: str) -> None:
        with self._admin() as admin:
            admin.delete_topics([topic])

    def grow_topic(self, topic: str, partitions: int) -> None:
        with self._admin() as admin:
            admin.create_partitions({topic: NewPartitions(partitions)})

    def delete_records(self, topic: str, before_offset: int) -> None:
        with self._admin() as admin:
            admin.delete_records({Partition(topic, 0): before_offset})

    def partition_counts(self) -> dict[str, int]:
        with self._admin() as admin:
            return {each["name"]: len(each["partitions"]) for each in admin.describe_topics()}

    def settings(self, topic: str) -> dict[str, str]:
        with self._admin() as admin:
            found = admin.describe_configs([ConfigResource("topic", topic)], config_filter="all")
        return {name: entry["value"] for name, entry in found["topic"][topic].items()}

    def alter_setting(self, topic: str, name: str, value: str) -> None:
        with self._admin() as admin:
            admin.alter_configs([ConfigResource("topic", topic, {name: value})])

    # --- errors ---------------------------------------------------------------------------------

    def raises(self, error: ErrorCode) -> AbstractContextManager[object]:
        return pytest.raises(for_code(int(error)))


class _Member:
    """A consumer in a group, which joins anew where it has forgotten that it joined."""

    def __init__(
        self,
        consumer: kafka.KafkaConsumer,
        topic: str,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        self._consumer, self._topic, self._listener = consumer, topic, listener
        self._join()

    def poll(
        self, timeout_ms: int, max_records: int | None = None
    ) -> dict[Partition, list[kafka.ConsumerRecord]]:
        found: dict[Partition, list[kafka.ConsumerRecord]] = self._consumer.poll(
            timeout_ms, max_records=max_records
        )
        if self._consumer.assignment():
            self._idle_since_s = monotonic()
        elif monotonic() - self._idle_since_s > STUCK_S:
            self._consumer.unsubscribe()
            self._join()
        return found

    def _join(self) -> None:
        self._consumer.subscribe([self._topic], listener=self._listener)
        self._idle_since_s = monotonic()


def _records(
    consumer: kafka.KafkaConsumer | _Member, count: int, wait_s: float
) -> list[kafka.ConsumerRecord]:
    found: list[kafka.ConsumerRecord] = []
    deadline_s = monotonic() + wait_s
    poll_ms = min(POLL_MS, int(wait_s * 1_000))
    while len(found) < count and monotonic() < deadline_s:
        for records in consumer.poll(poll_ms, max_records=count - len(found)).values():
            found += records
    return found


def _take(
    consumer: kafka.KafkaConsumer | _Member, count: int, wait_s: float
) -> list[tuple[int, Record]]:
    return [
        (each.offset, Record(each.value, each.key, tuple(each.headers), each.timestamp))
        for each in _records(consumer, count, wait_s)
    ]
