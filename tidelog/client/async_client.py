"""AsyncClient: the asyncio client of a Tidelog broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from protocol.errors import BrokerError
from protocol.limits import RESPONSE_BYTES_MAX
from protocol.native.responses import ProduceResponse
from tidelog.client import calls, splitting
from tidelog.client.accumulator import ProducerSettings
from tidelog.client.address import Address
from tidelog.client.async_connection import AsyncConnection
from tidelog.client.async_producer import AsyncProducer
from tidelog.client.cursor import Cursor
from tidelog.client.errors import ConnectionLostError
from tidelog.client.retrying import backoffs_s, is_repeatable
from tidelog.client.starts import start_time_ms, time_or_log_end
from tidelog.client.values import (
    DeletedRecords,
    FetchAnswer,
    FetchFrom,
    Message,
    Start,
    StoredBatches,
    TopicInfo,
    Transactions,
)

T = TypeVar("T")


class AsyncClient:
    """Talks to one broker over one connection; calls may overlap, each loop has its own client.

        async with AsyncClient("localhost:9091") as client:
            async for message in client.messages("logs", follow=True):
                print(message.offset, message.value)

    The arguments are those of `Client`. A long poll holds up the answers behind it: a program that
    follows a topic and asks other things uses a client for each.
    """

    def __init__(
        self,
        address: str = "localhost",
        *,
        timeout_s: float = 30.0,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
        retries: int = 5,
    ) -> None:
        self._address = Address.parse(address)
        self._timeout_s, self._retries = timeout_s, retries
        self._response_bytes_max = response_bytes_max
        self._connection = self._new_connection()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. Producers have their own and are closed on their own."""
        await self._connection.close()

    # --- topics -----------------------------------------------------------------------------

    async def topics(self, *names: str) -> list[TopicInfo]:
        """Describe the named topics, or all; a topic that does not exist has its error set."""
        return await self._call_split(splitting.topics(names))

    async def create_topic(
        self, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        """Make a topic; `settings` under Kafka's names, e.g. {"retention.ms": "3600000"}."""
        await self._call(calls.create_topic(name, partitions, settings))

    async def alter_topic(self, name: str, settings: Mapping[str, str | None]) -> None:
        """Change settings of a topic; None puts one back to the broker's default.

        All of them or none, durable and in effect on return; what is not named stays as it is.
        """
        await self._call(calls.alter_topic(name, settings))

    async def delete_topic(self, name: str) -> None:
        """Remove a topic and its data."""
        await self._call(calls.delete_topic(name))

    async def delete_records(self, topic: str, offsets: Mapping[int, int]) -> list[DeletedRecords]:
        """Delete what lies below an offset, for good.

        Args:
            offsets: By partition; `LATEST` deletes everything up to the high watermark.

        Returns:
            For each partition where it begins now, or its error, such as OFFSET_OUT_OF_RANGE for
            an offset above the high watermark.

        Raises:
            BrokerError: there is no such topic, or clients may not write to it.
        """
        return await self._call_split(splitting.delete_records(topic, offsets))

    # --- reading ----------------------------------------------------------------------------

    async def offsets(
        self, topic: str, partition: int = 0, *, time_ms: int = calls.LATEST, max_offsets: int = 1
    ) -> list[int]:
        """Return offsets for a time in ms, for `calls.LATEST` or for `calls.EARLIEST`."""
        return await self._call(calls.offsets(topic, partition, time_ms, max_offsets))

    async def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int = 1024 * 1024,
        min_bytes: int = 1,
        max_wait_ms: int = 0,
    ) -> FetchAnswer:
        """Fetch messages from `offset` on.

        Raises:
            BrokerError: the broker's code, e.g. OFFSET_OUT_OF_RANGE.
            FetchTooLargeError: the first batch is larger than `response_bytes_max`.
        """
        source = FetchFrom(topic, partition, offset, max_bytes)
        call = calls.fetch(
            source,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
            response_bytes_max=self._response_bytes_max,
        )
        return await self._call(call, max_wait_ms / 1000)

    async def fetch_batches(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int = 1024 * 1024,
        min_bytes: int = 1,
        max_wait_ms: int = 0,
    ) -> StoredBatches:
        """Fetch record batches as they are stored, from the one that holds `offset` on.

        For those who decode, forward or store whole batches themselves: what they hold, their CRC
        too, is not looked at.

        Raises:
            BrokerError: the broker's code, e.g. OFFSET_OUT_OF_RANGE.
            FetchTooLargeError: the first batch is larger than `response_bytes_max`.
            DamagedBatchError: the first header is damaged.
        """
        call = calls.fetch_batches(
            FetchFrom(topic, partition, offset, max_bytes),
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
            response_bytes_max=self._response_bytes_max,
        )
        return await self._call(call, max_wait_ms / 1000)

    async def transactions(
        self, topic: str, partition: int = 0, *, start: int = 0, end: int = 0
    ) -> Transactions:
        """Return up to where transactions are decided, and which were aborted; as `Client`."""
        return await self._call_split(splitting.transactions(topic, partition, start, end))

    async def multi_fetch(
        self,
        sources: Sequence[FetchFrom],
        *,
        max_bytes: int = 16 * 1024 * 1024,
        min_bytes: int = 1,
        max_wait_ms: int = 0,
    ) -> list[FetchAnswer]:
        """Fetch from several partitions at once; each answer has its own error code."""
        split_call = splitting.multi_fetch(
            sources,
            max_bytes=max_bytes,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
            response_bytes_max=self._response_bytes_max,
        )
        return await self._call_split(split_call)

    async def messages(
        self,
        topic: str,
        partitions: Sequence[int] | None = None,
        *,
        start: Start = "beginning",
        follow: bool = False,
        max_bytes: int = 1024 * 1024,
    ) -> AsyncIterator[Message]:
        """Iterate over messages, in offset order within each partition; as `Client.messages`."""
        if partitions is None:
            info = (await self.topics(topic))[0]
            calls.check(info.error, topic)
            partitions = [partition.partition for partition in info.partitions]
        ends = {
            number: (await self.offsets(topic, number, time_ms=calls.LATEST))[0]
            for number in partitions
        }
        starts = {
            number: await self._start(topic, number, start, ends[number]) for number in partitions
        }
        stops = None if follow else ends
        cursor = Cursor(topic, starts, stops, max_bytes, self._response_bytes_max)
        while not cursor.is_done:
            for message in await self._call(cursor.next_call(), cursor.wait_ms / 1000):
                yield message

    async def _start(self, topic: str, partition: int, start: Start, end: int) -> int:
        if start == "end":
            return end
        if isinstance(start, int):
            return start
        if isinstance(start, datetime):
            found = await self.offsets(topic, partition, time_ms=start_time_ms(start))
            return time_or_log_end(found, end)
        return (await self.offsets(topic, partition, time_ms=calls.EARLIEST))[0]

    # --- writing ----------------------------------------------------------------------------

    def producer(self, **settings: Any) -> AsyncProducer:
        """Return a producer on a connection of its own; see ProducerSettings for the settings."""
        return AsyncProducer(self._new_connection(), ProducerSettings(**settings))

    async def append_at(
        self, topic: str, partition: int, expected_offset: int, batches: bytes
    ) -> ProduceResponse:
        """Append record batches only if the log ends at `expected_offset`, synced.

        Raises:
            UnexpectedOffsetError: it ends elsewhere; nothing was appended.
        """
        timeout_ms = int(self._timeout_s * 1000)
        call = calls.append_at(
            topic, partition, batches, expected_offset=expected_offset, timeout_ms=timeout_ms
        )
        return await self._call(call, self._timeout_s)

    def _new_connection(self) -> AsyncConnection:
        return AsyncConnection(
            self._address, timeout_s=self._timeout_s, response_bytes_max=self._response_bytes_max
        )

    async def _call(self, call: calls.Call[T], extra_wait_s: float = 0.0) -> T:
        backoffs = backoffs_s(self._retries)
        while True:
            try:
                return await self._connection.call(call, extra_wait_s=extra_wait_s)
            except (BrokerError, ConnectionLostError) as error:
                backoff_s = next(backoffs, None)
                if backoff_s is None or not is_repeatable(call, error):
                    raise
            await asyncio.sleep(backoff_s)

    async def _call_split(self, split_call: splitting.SplitCall[T]) -> T:
        call, wait_s = next(split_call)
        while True:
            answer = await self._call(call, wait_s)
            try:
                call, wait_s = split_call.send(answer)
            except StopIteration as stop:
                whole: T = stop.value
                return whole
