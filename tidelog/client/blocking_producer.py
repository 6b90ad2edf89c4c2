"""Producer: batches messages on a thread of its own and gives each a future."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, wait
from typing import Any

from tidelog.client import calls
from tidelog.client.accumulator import Accumulator, Batch, ProducerSettings
from tidelog.client.blocking_connection import BlockingConnection
from tidelog.client.errors import BrokerError, ClientClosedError, ConnectionLostError
from tidelog.client.retrying import backoffs_s, is_retriable
from tidelog.client.topic_cache import TopicCache
from tidelog.client.values import Delivery, Headers


class Producer:
    """Sends messages in batches; made by `Client.producer`. Any thread may call it.

        with client.producer(acks=-1, linger_s=0.01) as producer:
            delivered = producer.produce("logs", b"a line")
            print(delivered.result().offset)

    A message whose answer was lost is sent again and may then lie in the log twice. Leaving the
    `with` block, or `close`, sends and waits for everything that was produced. Callbacks of futures
    run on the producer's thread, so they must not wait for its other futures; what they produce
    does not wait for room. After a fork only the parent has the producer.
    """

    def __init__(self, connection: BlockingConnection, settings: ProducerSettings) -> None:
        self._connection, self._settings = connection, settings
        self._accumulator = Accumulator(settings)
        self._topics = TopicCache()
        # Held by `with self._lock`, never by `with self._changed`: in the Python code of the latter
        # a Ctrl-C may come between taking the lock and being bound to give it back.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="tidelog-producer", daemon=True)
        self._thread.start()

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> Future[Delivery]:
        """Take a message; the future says where it lies, or raises why it does not.

        Waits while `buffer_bytes_max` is used up.

        Raises:
            ClientClosedError: the producer was closed, or belongs to the parent process.
            BrokerError: the topic cannot be produced to.
            ConnectionLostError: the broker cannot be asked how many partitions the topic has.
        """
        if not self._thread.is_alive():
            raise ClientClosedError("the producer is closed, or another process has it")
        if partition is None:
            partition = self._partition(topic, key)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        future: Future[Delivery] = Future()
        future.set_running_or_notify_cancel()  # a message that was taken is sent
        accumulator = self._accumulator
        with self._lock:
            while not (accumulator.has_room or self._is_closed or self._is_own_thread):
                self._changed.wait()
            if self._is_closed:
                raise ClientClosedError("the producer is closed")
            is_due = accumulator.append(
                topic, partition, key, value, timestamp_ms, headers, future, time.monotonic()
            )
            if is_due:
                self._changed.notify_all()
        return future

    def flush(self, futures: Iterable[Future[Delivery]] = ()) -> None:
        """Send everything now and wait until it is answered; then for `futures`, if given.

        Errors stay in the futures.

        Raises:
            RuntimeError: called by a future's callback, it would wait for itself.
        """
        if self._is_own_thread:
            raise RuntimeError("a callback of a future cannot flush")
        if self._thread.is_alive():
            with self._lock:
                batches = self._accumulator.unfinished()
                self._accumulator.flushes += 1
                self._changed.notify_all()
                try:
                    while not all(batch.is_finished for batch in batches):
                        self._changed.wait()
                finally:
                    self._accumulator.flushes -= 1
        wait(futures)

    def close(self) -> None:
        """Send and wait for everything, then close the connection; take nothing more meanwhile."""
        if self._thread.is_alive():
            with self._lock:
                self._is_closed = True
                self._accumulator.flushes += 1
                self._changed.notify_all()
            self._thread.join()
        self._connection.close()

    @property
    def _is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def _partition(self, topic: str, key: bytes | None) -> int:
        deadline_s = time.monotonic() + self._settings.delivery_timeout_s
        backoffs = backoffs_s()
        while (question := self._topics.question(topic, time.monotonic())) is not None:
            try:
                self._topics.learn(topic, self._connection.call(question), time.monotonic())
                break
            except (BrokerError, ConnectionLostError) as error:
                now_s = time.monotonic()
                if self._topics.keep(topic, now_s):
                    break
                if now_s >= deadline_s or not is_retriable(error):
                    raise
            time.sleep(next(backoffs))
        return self._topics.partition(topic, key)

    def _run(self) -> None:
        """Send what is due, read the answers, and wait for more; on the producer's thread."""
        reason = "the producer was closed"
        try:
            while True:
                with self._lock:
                    batches = self._wait_for_due()
                if batches is None:
                    return
                self._send(batches)
        except BaseException as error:
            reason = f"the producer's thread failed: {error!r}"
            raise
        finally:
            with self._lock:
                self._is_closed = True
                left = self._accumulator.abort()
                self._changed.notify_all()
            for batch in left:
                batch.fail(ClientClosedError(reason))

    def _wait_for_due(self) -> list[Batch] | None:
        while True:
            now_s = time.monotonic()
            batches = self._accumulator.take_due(now_s)
            if batches:
                return batches
            if self._is_closed and self._accumulator.is_empty:
                return None
            due_s = self._accumulator.next_due_s()
            self._changed.wait(None if due_s is None else max(0.0, due_s - now_s))

    def _send(self, batches: list[Batch]) -> None:
        settings = self._settings
        requests = []
        sent = []
        for batch in batches:
            try:
                requests.append(
                    calls.produce(
                        batch.topic,
                        batch.partition,
                        batch.encode(settings.compression),
                        acks=settings.acks,
                        timeout_ms=settings.request_timeout_ms,
                    )
                )
                sent.append(batch)
            except Exception as error:  # something in it has no place in a batch
                self._settle(batch, error)
        try:
            wait_s = settings.request_timeout_ms / 1000
            outcomes = self._connection.call_all(requests, extra_wait_s=wait_s)
        except Exception as error:
            outcomes = [error] * len(sent)
        for batch, outcome in zip(sent, outcomes, strict=True):
            self._settle(batch, outcome)

    def _settle(self, batch: Batch, outcome: Any) -> None:
        """Take in what became of a batch; futures are resolved without the lock."""
        if isinstance(outcome, Exception):
            with self._lock:
                if self._accumulator.retry(batch, outcome, time.monotonic()):
                    return
            batch.fail(outcome)
        else:
            batch.deliver(outcome)
        with self._lock:
            self._accumulator.finish(batch)
            self._changed.notify_all()
