"""Accumulator: messages into batches, batches through retries; no I/O, no clock.

One batch of a partition is under way at a time, so a retry cannot change the order of messages. A
batch whose answer was lost is sent again and may then lie in the log twice: without sequence
numbers nobody can tell. What must not be doubled goes through `append_at`.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from protocol.compression import Codec
from protocol.native.responses import ProduceResponse
from protocol.record import Record
from protocol.record_batch_builder import build_batch
from tidelog.client.retrying import BACKOFF_FIRST_S, BACKOFF_MAX_S, is_retriable, is_unknown_topic
from tidelog.client.values import Delivery, Headers

UNKNOWN_TOPIC_GRACE_S: Final = 1.0
"""How long a topic that the broker does not have is taken for one that is just being created. It
would not be worth the wait, but topics are also deleted and made anew."""

RECORD_OVERHEAD_BYTES: Final = 20
"""What a record takes up beside its key, value and headers, at the most."""


class DeliveryFuture(Protocol):
    """What both kinds of future have in common."""

    def done(self) -> bool: ...
    def set_result(self, result: Any) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How a producer batches, waits and retries."""

    acks: int = -1
    """-1: answered when synced and committed; 1: when written; 0: never answered."""
    batch_bytes_max: int = 512 * 1024
    """A batch is sent when it has this many bytes; keep it below the topic's max.message.bytes."""
    linger_s: float = 0.005
    """A batch is sent when its first message is this old."""
    compression: Codec = Codec.NONE
    request_timeout_ms: int = 30_000
    """How long the broker may take to commit a batch."""
    delivery_timeout_s: float = 120.0
    """After this a message fails, however many retries there were."""
    buffer_bytes_max: int = 32 * 1024 * 1024
    """Messages taken and not yet answered; beyond it producing waits."""

    def __post_init__(self) -> None:
        if self.acks not in (-1, 0, 1):
            raise ValueError(f"acks={self.acks}: must be -1 (all), 0 or 1")
        if self.batch_bytes_max < 1 or self.buffer_bytes_max < 1:
            raise ValueError("batch_bytes_max and buffer_bytes_max must be at least 1")
        if self.linger_s < 0 or self.delivery_timeout_s <= 0:
            raise ValueError("linger_s must not be negative, delivery_timeout_s must be above 0")


@dataclass(slots=True, eq=False)
class Batch:
    """Messages of one partition that travel together."""

    topic: str
    partition: int
    created_s: float
    deadline_s: float
    size_bytes: int = 0
    records: list[Record] = field(default_factory=list)
    futures: list[DeliveryFuture] = field(default_factory=list)
    attempts: int = 0
    not_before_s: float = 0.0
    is_delivered: bool = False
    is_finished: bool = False
    """Delivered or given up; nobody waits for it any more."""

    def encode(self, codec: Codec) -> bytes:
        """Return the record batch, built anew for each attempt: retries are rare."""
        return build_batch(self.records, codec=codec)

    def deliver(self, answer: ProduceResponse | None) -> None:
        """Resolve the future of every message; `answer` None: acks=0, nobody said."""
        self.is_delivered = True
        for index, (record, future) in enumerate(zip(self.records, self.futures, strict=True)):
            if future.done():
                continue
            offset, timestamp_ms = -1, record.timestamp
            if answer is not None:
                offset = answer.base_offset + index
                if answer.append_time_ms >= 0:
                    timestamp_ms = answer.append_time_ms
            future.set_result(Delivery(self.topic, self.partition, offset, timestamp_ms))

    def fail(self, error: Exception) -> None:
        """Resolve the future of every message with an error."""
        for future in self.futures:
            if not future.done():
                future.set_exception(error)


class Accumulator:
    """The batches of one producer, by partition, oldest first.

    It resolves no future: those may call the user's code, which a producer must not do while it
    holds a lock.
    """

    def __init__(self, settings: ProducerSettings) -> None:
        self._settings = settings
        self._queues: dict[tuple[str, int], deque[Batch]] = {}
        self._in_flight: set[tuple[str, int]] = set()
        self._unknown_since: dict[tuple[str, int], tuple[float, float]] = {}
        self.buffered_bytes = 0
        self.flushes = 0
        """While there is one, batches are due at once, however small and young."""

    @property
    def is_empty(self) -> bool:
        return self.buffered_bytes == 0

    @property
    def has_room(self) -> bool:
        return self.buffered_bytes < self._settings.buffer_bytes_max

    def append(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers,
        future: DeliveryFuture,
        now_s: float,
    ) -> bool:
        """Add a message; return True if a batch has become due by it."""
        size_bytes = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
        for name, header_value in headers:
            size_bytes += RECORD_OVERHEAD_BYTES + len(name) + len(header_value or b"")
        queue = self._queues.setdefault((topic, partition), deque())
        batch = queue[-1] if queue else None
        limit = self._settings.batch_bytes_max
        if (
            batch is None
            or batch.attempts
            or (len(queue) == 1 and (topic, partition) in self._in_flight)
            or batch.size_bytes + size_bytes > limit
        ):
            batch = Batch(topic, partition, now_s, now_s + self._settings.delivery_timeout_s)
            queue.append(batch)
        offset = len(batch.records)
        batch.records.append(Record(offset, timestamp_ms, key, value, tuple(headers)))
        batch.futures.append(future)
        batch.size_bytes += size_bytes
        self.buffered_bytes += size_bytes
        return batch.size_bytes >= limit or offset == 0

    def take_due(self, now_s: float) -> list[Batch]:
        """Return the batches to send now, at most one for each partition; they are under way."""
        due = []
        for key, queue in self._queues.items():
            if key in self._in_flight or not queue:
                continue
            if self._due_at(queue) <= now_s:
                self._in_flight.add(key)
                due.append(queue[0])
                queue[0].attempts += 1
        return due

    def next_due_s(self) -> float | None:
        """Return when `take_due` will next have something, or None: when something new comes."""
        times = [
            self._due_at(queue)
            for key, queue in self._queues.items()
            if queue and key not in self._in_flight
        ]
        return min(times) if times else None

    def _due_at(self, queue: deque[Batch]) -> float:
        batch = queue[0]
        is_full = len(queue) > 1 or batch.size_bytes >= self._settings.batch_bytes_max
        linger_s = 0.0 if is_full or self.flushes else self._settings.linger_s
        return max(batch.created_s + linger_s, batch.not_before_s)

    def retry(self, batch: Batch, error: Exception, now_s: float) -> bool:
        """Plan a retry, if one may help; False if the batch has failed for good."""
        if not is_retriable(error) or now_s >= batch.deadline_s:
            return False
        if is_unknown_topic(error) and self._is_given_up(batch, now_s):
            return False
        exponent = min(batch.attempts - 1, 10)
        backoff_s = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2**exponent)
        batch.not_before_s = now_s + backoff_s * random.uniform(0.8, 1.2)
        self._in_flight.discard((batch.topic, batch.partition))
        return True

    def _is_given_up(self, batch: Batch, now_s: float) -> bool:
        """Whether the broker has been saying for long enough that it has no such partition."""
        key = (batch.topic, batch.partition)
        since_s, last_s = self._unknown_since.get(key, (now_s, now_s))
        if now_s > last_s + 2 * UNKNOWN_TOPIC_GRACE_S:  # another time than the last
            since_s = now_s
        self._unknown_since[key] = (since_s, now_s)
        return now_s >= since_s + UNKNOWN_TOPIC_GRACE_S

    def unfinished(self) -> list[Batch]:
        """Return all batches there are now; a flush waits for these, not for later ones."""
        return [batch for queue in self._queues.values() for batch in queue]

    def abort(self) -> list[Batch]:
        """Finish everything that is left; return it, so that it can be failed."""
        left = self.unfinished()
        for batch in left:
            self.finish(batch)
        return left

    def finish(self, batch: Batch) -> None:
        """Forget a batch that was delivered or has failed; the next of its partition may go."""
        batch.is_finished = True
        key = (batch.topic, batch.partition)
        self._in_flight.discard(key)
        if batch.is_delivered:
            self._unknown_since.pop(key, None)
        queue = self._queues[key]
        assert queue[0] is batch, "one batch of a partition at a time, the oldest first"
        queue.popleft()
        self.buffered_bytes -= batch.size_bytes
        if not queue:
            del self._queues[key]
