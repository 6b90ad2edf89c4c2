"""Client: the blocking client of a Tidelog broker."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from protocol.errors import BrokerError
from protocol.limits import RESPONSE_BYTES_MAX
from protocol.native.responses import ProduceResponse
from tidelog.client import calls, splitting
from tidelog.client.accumulator import ProducerSettings
from tidelog.client.address import Address
from tidelog.client.blocking_connection import BlockingConnection
from tidelog.client.blocking_producer import Producer
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


class Client:
    """Talks to one broker over one connection; may be shared by threads, one call at a time.

        with Client("localhost:9091") as client:
            for message in client.messages("logs", start="beginning"):
                print(message.offset, message.value)

    Args:
        address: "host", "host:port" or "[::1]:port"; the port defaults to 9091.
        timeout_s: How long an answer may take, beside what a call itself waits for.
        response_bytes_max: The largest answer to buffer.
        retries: How often a call that changes nothing is repeated after a retriable error.
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

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Producers have their own and are closed on their own."""
        self._connection.close()

    # --- topics -----------------------------------------------------------------------------

    def topics(self, *names: str) -> list[TopicInfo]:
        """Describe the named topics, or all; a topic that does not exist has its error set."""
        return self._call_split(splitting.topics(names))

    def create_topic(
        self, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        """Make a topic; `settings` under Kafka's names, e.g. {"retention.ms": "3600000"}."""
        self._call(calls.create_topic(name, partitions, settings))

    def alter_topic(self, name: str, settings: Mapping[str, str | None]) -> None:
        """Change settings of a topic; None puts one back to the broker's default.

        All of them or none, durable and in effect on return; what is not named stays as it is.
        """
        self._call(calls.alter_topic(name, settings))

    def delete_topic(self, name: str) -> None:
        """Remove a topic and its data."""
        self._call(calls.delete_topic(name))

    def delete_records(self, topic: str, offsets: Mapping[int, int]) -> list[DeletedRecords]:
        """Delete what lies below an offset, for good.

        Args:
            offsets: By partition; `LATEST` deletes everything up to the high watermark.

        Returns:
            For each partition where it begins now, or its error, such as OFFSET_OUT_OF_RANGE for
            an offset above the high watermark.

        Raises:
            BrokerError: there is no such topic, or clients may not write to it.
        """
        return self._call_split(splitting.delete_records(topic, offsets))

    # --- reading ----------------------------------------------------------------------------

    def offsets(
        self, topic: str, partition: int = 0, *, time_ms: int = calls.LATEST, max_offsets: int = 1
    ) -> list[int]:
        """Return offsets for a time in ms, for `calls.LATEST` or for `calls.EARLIEST`."""
        return self._call(calls.offsets(topic, partition, time_ms, max_offsets))

    def fetch(
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
        return self._call(call, max_wait_ms / 1000)

    def fetch_batches(
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
        return self._call(call, max_wait_ms / 1000)

    def transactions(
        self, topic: str, partition: int = 0, *, start: int = 0, end: int = 0
    ) -> Transactions:
        """Return up to where a partition's transactions are decided, and which were aborted.

        Of what `fetch_batches` brings, a reader of committed messages leaves out the batches of
        these.

        Args:
            start, end: Of the offsets to be read; aborted transactions with batches from the one to
                below the other are told, without them none.
        """
        return self._call_split(splitting.transactions(topic, partition, start, end))

    def multi_fetch(
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
        return self._call_split(split_call)

    def messages(
        self,
        topic: str,
        partitions: Sequence[int] | None = None,
        *,
        start: Start = "beginning",
        follow: bool = False,
        max_bytes: int = 1024 * 1024,
    ) -> Iterator[Message]:
        """Iterate over messages, in offset order within each partition.

        Args:
            partitions: All of the topic where None.
            start: "beginning", "end", an offset, or a datetime with a time zone.
            follow: Go on when the end is reached; else stop at what was the end at the call.
        """
        for found in self.message_lists(
            topic, partitions, start=start, follow=follow, max_bytes=max_bytes
        ):
            yield from found

    def message_lists(
        self,
        topic: str,
        partitions: Sequence[int] | None = None,
        *,
        start: Start = "beginning",
        follow: bool = False,
        max_bytes: int = 1024 * 1024,
    ) -> Iterator[list[Message]]:
        """Iterate like `messages`, over what each answer brought; a list may be empty.

        For those who pass messages on and want to know when there is nothing more for now.
        """
        if partitions is None:
            info = self.topics(topic)[0]
            calls.check(info.error, topic)
            partitions = [partition.partition for partition in info.partitions]
        ends = {number: self._offset_at(topic, number, calls.LATEST) for number in partitions}
        starts = {number: self._start(topic, number, start, ends[number]) for number in partitions}
        stops = None if follow else ends
        cursor = Cursor(topic, starts, stops, max_bytes, self._response_bytes_max)
        while not cursor.is_done:
            yield self._call(cursor.next_call(), cursor.wait_ms / 1000)

    def _start(self, topic: str, partition: int, start: Start, end: int) -> int:
        if start == "end":
            return end
        if isinstance(start, int):
            return start
        if isinstance(start, datetime):
            found = self.offsets(topic, partition, time_ms=start_time_ms(start))
            return time_or_log_end(found, end)
        return self._offset_at(topic, partition, calls.EARLIEST)

    def _offset_at(self, topic: str, partition: int, time: int) -> int:
        return self._call(calls.offsets(topic, partition, time))[0]

    # --- writing ----------------------------------------------------------------------------

    def producer(self, **settings: Any) -> Producer:
        """Return a producer on a connection of its own; see ProducerSettings for the settings."""
        return Producer(self._new_connection(), ProducerSettings(**settings))

    def append_at(
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
        return self._call(call, self._timeout_s)

    def _new_connection(self) -> BlockingConnection:
        return BlockingConnection(
            self._address, timeout_s=self._timeout_s, response_bytes_max=self._response_bytes_max
        )

    def _call(self, call: calls.Call[T], extra_wait_s: float = 0.0) -> T:
        backoffs = backoffs_s(self._retries)
        while True:
            try:
                return self._connection.call(call, extra_wait_s=extra_wait_s)
            except (BrokerError, ConnectionLostError) as error:
                backoff_s = next(backoffs, None)
                if backoff_s is None or not is_repeatable(call, error):
                    raise
            time.sleep(backoff_s)

    def _call_split(self, split_call: splitting.SplitCall[T]) -> T:
        call, wait_s = next(split_call)
        while True:
            answer = self._call(call, wait_s)
            try:
                call, wait_s = split_call.send(answer)
            except StopIteration as stop:
                whole: T = stop.value
                return whole
