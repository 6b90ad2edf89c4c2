"""AsyncProducer: batches messages on the event loop and gives each a future."""

from __future__ import annotations

import asyncio
import time

from protocol.native.responses import ProduceResponse
from tidelog.client import calls
from tidelog.client.accumulator import Accumulator, Batch, ProducerSettings
from tidelog.client.async_connection import AsyncConnection
from tidelog.client.errors import BrokerError, ClientClosedError, ConnectionLostError
from tidelog.client.retrying import backoffs_s, is_retriable
from tidelog.client.topic_cache import TopicCache
from tidelog.client.values import Delivery, Headers


class AsyncProducer:
    """Sends messages in batches; made by `AsyncClient.producer`.

        async with client.producer(acks=-1) as producer:
            delivered = await producer.produce("logs", b"a line")
            print((await delivered).offset)

    A message whose answer was lost is sent again and may then lie in the log twice. Leaving the
    `async with` block, or `close`, sends and waits for everything that was produced.
    """

    def __init__(self, connection: AsyncConnection, settings: ProducerSettings) -> None:
        self._connection, self._settings = connection, settings
        self._accumulator = Accumulator(settings)
        self._topics = TopicCache()
        self._wake = asyncio.Event()
        self._answered = asyncio.Condition()
        self._is_closed = False
        self._under_way: set[asyncio.Task[None]] = set()
        self._sender: asyncio.Task[None] | None = None

    async def __aenter__(self) -> AsyncProducer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> asyncio.Future[Delivery]:
        """Take a message; the future says where it lies, or raises why it does not.

        Waits while `buffer_bytes_max` is used up.

        Raises:
            ClientClosedError: the producer was closed, before or while this waited.
            BrokerError: the topic cannot be produced to.
            ConnectionLostError: the broker cannot be asked how many partitions the topic has.
        """
        if partition is None:
            partition = await self._partition(topic, key)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        if not self._accumulator.has_room:
            async with self._answered:
                await self._answered.wait_for(lambda: self._accumulator.has_room)
        if self._is_closed:  # from here on nothing waits, so a close cannot come between
            raise ClientClosedError("the producer is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Delivery] = loop.create_future()
        is_due = self._accumulator.append(
            topic, partition, key, value, timestamp_ms, headers, future, loop.time()
        )
        if self._sender is None:
            self._sender = loop.create_task(self._run())
        elif is_due:
            self._wake.set()
        return future

    async def flush(self) -> None:
        """Send everything now and wait until it is answered. Errors stay in the futures."""
        batches = self._accumulator.unfinished()
        self._accumulator.flushes += 1
        self._wake.set()
        try:
            async with self._answered:
                await self._answered.wait_for(lambda: all(batch.is_finished for batch in batches))
        finally:
            self._accumulator.flushes -= 1

    async def close(self) -> None:
        """Send and wait for everything, then close the connection; take nothing more meanwhile."""
        self._is_closed = True
        await self.flush()
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)
        await self._connection.close()

    async def _partition(self, topic: str, key: bytes | None) -> int:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._settings.delivery_timeout_s
        backoffs = backoffs_s()
        while (question := self._topics.question(topic, loop.time())) is not None:
            try:
                self._topics.learn(topic, await self._connection.call(question), loop.time())
                break
            except (BrokerError, ConnectionLostError) as error:
                if self._topics.keep(topic, loop.time()):
                    break
                if loop.time() >= deadline_s or not is_retriable(error):
                    raise
            await asyncio.sleep(next(backoffs))
        return self._topics.partition(topic, key)

    async def _run(self) -> None:
        """Send what is due, and wait for more."""
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            for batch in self._accumulator.take_due(loop.time()):
                task = loop.create_task(self._send(batch))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)
            due_s = self._accumulator.next_due_s()
            try:
                async with asyncio.timeout_at(due_s):
                    await self._wake.wait()
            except TimeoutError:
                pass  # something is due now

    async def _send(self, batch: Batch) -> None:
        settings, answer = self._settings, None
        error: Exception | None = None
        try:
            call: calls.Call[ProduceResponse] = calls.produce(
                batch.topic,
                batch.partition,
                batch.encode(settings.compression),
                acks=settings.acks,
                timeout_ms=settings.request_timeout_ms,
            )
            wait_s = settings.request_timeout_ms / 1000
            answer = await self._connection.call(call, extra_wait_s=wait_s)
        except Exception as raised:
            error = raised
        now_s = asyncio.get_running_loop().time()
        if error is None:
            batch.deliver(answer)
        elif not self._accumulator.retry(batch, error, now_s):
            batch.fail(error)
        else:
            self._wake.set()
            return
        self._accumulator.finish(batch)
        self._wake.set()
        async with self._answered:
            self._answered.notify_all()
