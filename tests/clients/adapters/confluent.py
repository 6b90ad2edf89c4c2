"""confluent-kafka: librdkafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from time import monotonic

import confluent_kafka as ck
import pytest
from confluent_kafka import admin as cka

from protocol.error_codes import ErrorCode
from tests.clients.adapters.client import SESSION_MS, WAIT_S, Client, Record


class ConfluentClient(Client):
    """confluent-kafka."""

    def _producer(self, **settings: object) -> ck.Producer:
        return ck.Producer({"bootstrap.servers": self.address, "linger.ms": 2, **settings})

    @contextmanager
    def _consumer(self, group: str = "none", **settings: object) -> Iterator[ck.Consumer]:
        consumer = ck.Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 300,
                **settings,
            }
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
        producer = self._producer(
            **{
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": is_idempotent,
                "message.max.bytes": request_bytes_max,
            }
        )
        answers: list[tuple[ck.KafkaError | None, int]] = []
        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition,
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
                on_delivery=lambda error, sent: answers.append((error, sent.offset())),
            )
        assert producer.flush(WAIT_S) == 0
        for error, _ in answers:
            if error is not None:
                raise ck.KafkaException(error)
        return [offset for _, offset in answers]

    def send_to_all(self, partitions: Iterable[tuple[str, int]], value: bytes) -> int:
        producer = self._producer()
        arrived: list[bool] = []
        for topic, partition in partitions:
            producer.produce(
                topic,
                value,
                partition=partition,
                on_delivery=lambda error, _: arrived.append(error is None),
            )
        producer.flush(WAIT_S)
        return sum(arrived)

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
        reset = "earliest" if resets else "error"
        with self._consumer(**{"auto.offset.reset": reset}) as consumer:
            consumer.assign([ck.TopicPartition(topic, partition, offset)])
            return _take(consumer, count, wait_s)

    def read_all(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], bytes]:
        with self._consumer() as consumer:
            consumer.assign([ck.TopicPartition(*one, 0) for one in partitions])
            return {
                (message.topic(), message.partition()): message.value()
                for message in _messages(consumer, len(partitions), WAIT_S)
            }

    def bounds(self, topic: str) -> tuple[int, int]:
        with self._consumer() as consumer:
            found = consumer.get_watermark_offsets(ck.TopicPartition(topic, 0), timeout=WAIT_S)
            assert found is not None
            return found

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        with self._consumer() as consumer:
            asked = [ck.TopicPartition(topic, 0, timestamp_ms)]
            (found,) = consumer.offsets_for_times(asked, timeout=WAIT_S)
        return None if found.offset == ck.OFFSET_END else found.offset

    # --- groups ---------------------------------------------------------------------------------

    def read_and_commit(self, topic: str, group: str, count: int) -> list[tuple[int, Record]]:
        with self._consumer(group) as consumer:
            consumer.subscribe([topic])
            found = _take(consumer, count, WAIT_S)
            consumer.commit(asynchronous=False)
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
        def changed(_: ck.Consumer, partitions: list[ck.TopicPartition]) -> None:
            assigned([each.partition for each in partitions])

        with self._consumer(group) as consumer:
            consumer.subscribe([topic], on_assign=changed, on_revoke=lambda *_: assigned([]))
            while not is_over():
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    received(message.partition(), message.offset())

    def groups(self) -> set[str]:
        found = self._admin.list_consumer_groups().result(WAIT_S)
        assert not found.errors
        return {group.group_id for group in found.valid}

    def group_state(self, group: str) -> str:
        (answer,) = self._admin.describe_consumer_groups([group]).values()
        name: str = answer.result(WAIT_S).state.name
        return name.lower()

    def committed(self, topic: str, group: str) -> int:
        asked = ck.ConsumerGroupTopicPartitions(group, [ck.TopicPartition(topic, 0)])
        (answer,) = self._admin.list_consumer_group_offsets([asked]).values()
        (found,) = answer.result(WAIT_S).topic_partitions
        return found.offset

    # --- topics ---------------------------------------------------------------------------------

    @cached_property  # it has to outlive the futures that it gives
    def _admin(self) -> cka.AdminClient:
        return cka.AdminClient({"bootstrap.servers": self.address})

    def create_topics(
        self, topics: Sequence[str], partitions: int, replicas: int, settings: dict[str, str]
    ) -> None:
        new = [cka.NewTopic(topic, partitions, replicas, config=settings) for topic in topics]
        for answer in self._admin.create_topics(new).values():
            answer.result(WAIT_S)

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(WAIT_S)

    def grow_topic(self, topic: str, partitions: int) -> None:
        asked = [cka.NewPartitions(topic, partitions)]
        self._admin.create_partitions(asked)[topic].result(WAIT_S)

    def delete_records(self, topic: str, before_offset: int) -> None:
        (answer,) = self._admin.delete_records(
            [ck.TopicPartition(topic, 0, before_offset)]
        ).values()
        answer.result(WAIT_S)

    def partition_counts(self) -> dict[str, int]:
        topics = self._admin.list_topics(timeout=WAIT_S).topics
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def settings(self, topic: str) -> dict[str, str]:
        resource = cka.ConfigResource("topic", topic)
        (answer,) = self._admin.describe_configs([resource]).values()
        return {name: entry.value for name, entry in answer.result(WAIT_S).items()}

    def alter_setting(self, topic: str, name: str, value: str) -> None:
        entry = cka.ConfigEntry(name, value, incremental_operation=cka.AlterConfigOpType.SET)
        resource = cka.ConfigResource("topic", topic, incremental_configs=[entry])
        (answer,) = self._admin.incremental_alter_configs([resource]).values()
        answer.result(WAIT_S)

    # --- errors ---------------------------------------------------------------------------------

    @contextmanager
    def raises(self, error: ErrorCode) -> Iterator[None]:
        with pytest.raises(ck.KafkaException) as raised:
            yield
        found: ck.KafkaError = raised.value.args[0]
        codes = {int(error)}
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:  # it tells what it did not do then
            codes |= {ck.KafkaError._AUTO_OFFSET_RESET}
        assert found.code() in codes, found


def _messages(consumer: ck.Consumer, count: int, wait_s: float) -> list[ck.Message]:
    found: list[ck.Message] = []
    deadline_s = monotonic() + wait_s
    while len(found) < count and (left_s := deadline_s - monotonic()) > 0:
        for message in consumer.consume(count - len(found), min(left_s, 0.2)):
            error = message.error()
            if error is not None:
                raise ck.KafkaException(error)
            found.append(message)
    return found


def _take(consumer: ck.Consumer, count: int, wait_s: float) -> list[tuple[int, Record]]:
    return [
        (
            message.offset(),
            Record(
                message.value(),
                message.key(),
                tuple(message.headers() or ()),
                message.timestamp()[1],
            ),
        )
        for message in _messages(consumer, count, wait_s)
    ]
