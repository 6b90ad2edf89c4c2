"""aiokafka; each call runs an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from time import monotonic
from typing import Any, TypeVar

import pytest
from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    ConsumerRecord,
)
from aiokafka import TopicPartition as Partition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

from protocol.error_codes import ErrorCode
from tests.clients.adapters.client import SESSION_MS, WAIT_S, Client, Record

Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end, but not for ever."""
    return asyncio.run(asyncio.wait_for(work, 2 * WAIT_S))


class AiokafkaClient(Client):
    """aiokafka."""

    @asynccontextmanager
    async def _producer(self, **settings: Any) -> AsyncIterator[AIOKafkaProducer]:
        producer = AIOKafkaProducer(bootstrap_servers=self.address, linger_ms=2, **settings)
        await producer.start()
        try:
            yield producer
        finally:
            await producer.stop()

    @asynccontextmanager
    async def _consumer(
        self, group: str | None = None, **settings: Any
    ) -> AsyncIterator[AIOKafkaConsumer]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.address,
            group_id=group,
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            **{"auto_offset_reset": "earliest", **settings},
        )
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()

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
        async def send() -> list[int]:
            async with self._producer(
                compression_type=None if codec == "none" else codec,
                acks=acks,
                enable_idempotence=is_idempotent,
                max_request_size=request_bytes_max,
            ) as producer:
                futures = [
                    await producer.send(
                        topic,
                        record.value,
                        record.key,
                        partition,
                        record.timestamp_ms,
                        list(record.headers),
                    )
                    for record in records
                ]
                answers = await asyncio.gather(*futures)
                return [-1 if each is None else each.offset for each in answers]

        return run(send())

    def send_to_all(self, partitions: Iterable[tuple[str, int]], value: bytes) -> int:
        async def send() -> int:
            async with self._producer() as producer:
                futures = [
                    await producer.send(topic, value, partition=partition)
                    for topic, partition in partitions
                ]
                return len(await asyncio.gather(*futures))

        return run(send())

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
        async def read() -> list[tuple[int, Record]]:
            reset = "earliest" if resets else "none"
            async with self._consumer(auto_offset_reset=reset) as consumer:
                consumer.assign([Partition(topic, partition)])
                consumer.seek(Partition(topic, partition), offset)
                return await _take(consumer, count, wait_s)

        return run(read())

    def read_all(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], bytes]:
        async def read() -> dict[tuple[str, int], bytes]:
            async with self._consumer() as consumer:
                consumer.assign([Partition(*one) for one in partitions])
                await consumer.seek_to_beginning()
                return {
                    (found.topic, found.partition): found.value
                    for found in await _records(consumer, len(partitions), WAIT_S)
                }

        return run(read())

    def bounds(self, topic: str) -> tuple[int, int]:
        async def ask() -> tuple[int, int]:
            one = Partition(topic, 0)
            async with self._consumer() as consumer:
                first = await consumer.beginning_offsets([one])
                end = await consumer.end_offsets([one])
                return first[one], end[one]

        return run(ask())

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        async def ask() -> int | None:
            one = Partition(topic, 0)
            async with self._consumer() as consumer:
                found = (await consumer.offsets_for_times({one: timestamp_ms}))[one]
                return None if found is None else found.offset

        return run(ask())

    # --- groups ---------------------------------------------------------------------------------

    def read_and_commit(self, topic: str, group: str, count: int) -> list[tuple[int, Record]]:
        async def read() -> list[tuple[int, Record]]:
            async with self._consumer(group) as consumer:
                consumer.subscribe([topic])
                found = await _take(consumer, count, WAIT_S)
                await consumer.commit()
                return found

        return run(read())

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

        async def follow() -> None:
            async with self._consumer(group) as consumer:
                consumer.subscribe([topic], listener=Listener())
                while not is_over():
                    for records in (await consumer.getmany(timeout_ms=100)).values():
                        for record in records:
                            received(record.partition, record.offset)

        asyncio.run(follow())

    def groups(self) -> set[str]:
        found = self._administer(lambda admin: admin.list_consumer_groups())
        return {name for name, *_ in found}

    def group_state(self, group: str) -> str:
        (answer,) = self._administer(lambda admin: admin.describe_consumer_groups([group]))
        ((_, _, state, *_),) = answer.groups
        return state.lower()

    def committed(self, topic: str, group: str) -> int:
        found = self._administer(lambda admin: admin.list_consumer_group_offsets(group))
        return found[Partition(topic, 0)].offset

    # --- topics ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.address)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    def _administer(
        self, work: Callable[[AIOKafkaAdminClient], Coroutine[Any, Any, Result]]
    ) -> Result:
        async def administer() -> Result:
            async with self._admin() as admin:
                return await work(admin)

        return run(administer())

    def create_topics(
        self, topics: Sequence[str], partitions: int, replicas: int, settings: dict[str, str]
    ) -> None:
        new = [NewTopic(topic, partitions, replicas, topic_configs=settings) for topic in topics]
        _check(self._administer(lambda admin: admin.create_topics(new)).topic_errors)

    def delete_topic(self, topic: str) -> None:
        _check(self._administer(lambda admin: admin.delete_topics([topic])).topic_error_codes)

    def grow_topic(self, topic: str, partitions: int) -> None:
        asked = {topic: NewPartitions(partitions)}
        _check(self._administer(lambda admin: admin.create_partitions(asked)).topic_errors)

    def delete_records(self, topic: str, before_offset: int) -> None:
        asked = {Partition(topic, 0): RecordsToDelete(before_offset)}
        self._administer(lambda admin: admin.delete_records(asked))

    def partition_counts(self) -> dict[str, int]:
        found = self._administer(lambda admin: admin.describe_topics())
        return {each["topic"]: len(each["partitions"]) for each in found}

    def settings(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (answer,) = self._administer(lambda admin: admin.describe_configs([resource]))
        ((error, _, _, _, entries),) = answer.resources
        _check([(topic, error)])
        return {entry[0]: entry[1] for entry in entries}

    def alter_setting(self, topic: str, name: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
        (answer,) = self._administer(lambda admin: admin.alter_configs([resource]))
        _check([(each[3], each[0]) for each in answer.resources])

    # --- errors ---------------------------------------------------------------------------------

    def raises(self, error: ErrorCode) -> AbstractContextManager[object]:
        return pytest.raises(for_code(int(error)))


def _check(errors: Iterable[Sequence[Any]]) -> None:
    """Raise what aiokafka's admin client leaves to its user: name and code come first."""
    for _, code, *_ in errors:
        if code:
            raise for_code(code)


async def _records(
    consumer: AIOKafkaConsumer, count: int, wait_s: float
) -> list[ConsumerRecord[bytes | None, bytes | None]]:
    found: list[ConsumerRecord[bytes | None, bytes | None]] = []
    deadline_s = monotonic() + wait_s
    while len(found) < count and monotonic() < deadline_s:
        taken = await consumer.getmany(timeout_ms=200, max_records=count - len(found))
        for records in taken.values():
            found += records
    return found


async def _take(consumer: AIOKafkaConsumer, count: int, wait_s: float) -> list[tuple[int, Record]]:
    return [
        (each.offset, Record(each.value, each.key, tuple(each.headers), each.timestamp))
        for each in await _records(consumer, count, wait_s)
    ]
