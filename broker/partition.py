"""Partition: one partition's log, who waits for its high watermark, and what is counted of it.

A produce with acks -1 waits in a deque in the order of offsets; a fetch that found too little waits
as a `FetchWaiter`. Both are served when the high watermark moves, never by a timer of their own:
produce deadlines are checked by one coarse tick over the partitions that have waiters at all.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from protocol.error_codes import ErrorCode
from protocol.record_batch import MAGIC

if TYPE_CHECKING:
    import asyncio

    from broker.clock import Clock
    from broker.flusher import Flusher
    from broker.storage.partition_log import PartitionLog
    from broker.storage.segment import LogSegment

MAGIC_POSITION: Final = 16
"""In record batches and legacy entries alike."""

DEADLINE_TICK_S: Final = 0.05
"""How late a produce may learn that its time ran out."""

_NONE: Final = ErrorCode.NONE


class FetchWaiter(Protocol):
    """A fetch that waits for more bytes than there are."""

    def wake(self, partition: Partition) -> None:
        """Look again: its high watermark moved, or the partition is gone or failed."""
        ...


class Partition:
    """One partition. Everything here happens on the event loop's thread."""

    __slots__ = (
        "_call_soon",
        "_commit_waiters",
        "_deadlines",
        "_fetch_waiters",
        "_flusher",
        "_legacy_end_offset",
        "_wake_is_scheduled",
        "bytes_in",
        "bytes_out",
        "log",
        "messages_in",
        "messages_out",
        "number",
        "topic",
    )

    def __init__(
        self,
        log: PartitionLog,
        flusher: Flusher,
        deadlines: CommitDeadlines,
        call_soon: Callable[..., object],
    ) -> None:
        self.log = log
        self.topic: str = log.topic_partition.topic
        self.number: int = log.topic_partition.partition
        self.bytes_in = self.messages_in = self.bytes_out = self.messages_out = 0
        """Since the process started; messages out are counted where they are known (0 and 1)."""
        self._flusher, self._deadlines, self._call_soon = flusher, deadlines, call_soon
        self._commit_waiters: deque[tuple[int, float, Callable[[ErrorCode], object]]] = deque()
        self._fetch_waiters: dict[FetchWaiter, None] = {}
        self._wake_is_scheduled = False
        self._legacy_end_offset: int | None = None

    @property
    def legacy_end_offset(self) -> int:
        """From here on there are record batches only; below may lie message format v0 or v1.

        0 but for what a Kafka before 0.11 wrote: a log was upgraded once, and never went back, so
        the first entries of its segments tell. Looked for once; nothing is written as v0 or v1.

        Raises:
            StorageError: the log cannot be read.
        """
        if self._legacy_end_offset is None:
            segments = tuple(self.log.segments)
            first = bisect_left(segments, True, key=starts_with_record_batch)
            if first == len(segments):
                self._legacy_end_offset = self.log.log_end_offset
            else:
                self._legacy_end_offset = segments[first].base_offset if first else 0
        return self._legacy_end_offset

    # --- those who wait -----------------------------------------------------------------------

    def when_committed(
        self, end_offset: int, deadline_s: float, callback: Callable[[ErrorCode], object]
    ) -> None:
        """Call `callback` once: NONE when the high watermark is at or above `end_offset`.

        Or with the error that came first: REQUEST_TIMED_OUT past `deadline_s` (of the monotonic
        clock; the data stays), KAFKA_STORAGE_ERROR when it will never be committed.

        Args:
            end_offset: The offset after the last one of the batches just appended, or of those
                that they repeat. Not yet committed.
        """
        waiters = self._commit_waiters
        if not waiters:
            self._deadlines.watch(self)
        if waiters and waiters[-1][0] > end_offset:  # a repetition: behind those of its offset
            index = bisect_right(waiters, end_offset, key=_end_offset_of)
            waiters.insert(index, (end_offset, deadline_s, callback))
            return
        waiters.append((end_offset, deadline_s, callback))

    def add_fetch_waiter(self, waiter: FetchWaiter) -> None:
        """Wake `waiter` each time the high watermark moves, until it is removed."""
        self._fetch_waiters[waiter] = None

    def remove_fetch_waiter(self, waiter: FetchWaiter) -> None:
        """Wake `waiter` no more; that it was not there is no error."""
        self._fetch_waiters.pop(waiter, None)

    def wake_fetch_waiters(self) -> None:
        """Have every waiting fetch look again, now."""
        self._wake_is_scheduled = False
        for waiter in list(self._fetch_waiters):
            waiter.wake(self)

    def fail_waiters(self, code: ErrorCode) -> None:
        """End all waiting: produces with `code`, fetches with what they find when they look."""
        waiters, self._commit_waiters = self._commit_waiters, deque()
        for _, _, callback in waiters:
            callback(code)
        self.wake_fetch_waiters()

    def expire_commit_waiters(self, now_s: float) -> bool:
        """Answer produces whose time ran out; return whether any still wait."""
        waiters = self._commit_waiters
        expired = [waiter for waiter in waiters if waiter[1] <= now_s]
        if expired:
            self._commit_waiters = deque(waiter for waiter in waiters if waiter[1] > now_s)
            for _, _, callback in expired:
                callback(ErrorCode.REQUEST_TIMED_OUT)
        return bool(self._commit_waiters)

    @property
    def has_waiters(self) -> bool:
        """Whether anybody waits here."""
        return bool(self._commit_waiters or self._fetch_waiters)

    # --- LogListener --------------------------------------------------------------------------

    def unflushed(self, log: PartitionLog) -> None:
        """The log has bytes that must be flushed."""
        self._flusher.wake(log)

    def high_watermark_moved(self, log: PartitionLog) -> None:
        """Answer the produces that are committed now; have fetches look once this loop turn.

        Under the policies `os` and `interval` this runs for every append.
        """
        if self._commit_waiters:
            waiters, high_watermark = self._commit_waiters, log.high_watermark
            while waiters and waiters[0][0] <= high_watermark:
                waiters.popleft()[2](_NONE)
        if self._fetch_waiters and not self._wake_is_scheduled:
            self._wake_is_scheduled = True
            self._call_soon(self.wake_fetch_waiters)

    def flush_postponed(self, log: PartitionLog) -> None:
        """The directory is not there: nobody waits for it; the data may become durable yet."""
        self.fail_waiters(ErrorCode.KAFKA_STORAGE_ERROR)

    def log_failed(self, log: PartitionLog, error: OSError) -> None:
        """A sync failed: nobody must wait any more, and the broker must end."""
        self.fail_waiters(ErrorCode.KAFKA_STORAGE_ERROR)
        self._flusher.fail(error)


def _end_offset_of(waiter: tuple[int, float, object]) -> int:
    return waiter[0]


def starts_with_record_batch(segment: LogSegment) -> bool:
    """Whether a segment's first entry is a record batch; True where there is none yet."""
    magic = segment.records.read_bytes(MAGIC_POSITION, 1)
    return not magic or magic[0] >= MAGIC


class CommitDeadlines:
    """One timer for all produces that wait: it ticks only while some do."""

    __slots__ = ("_clock", "_loop", "_partitions", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop, self._clock = loop, clock
        self._partitions: set[Partition] = set()
        self._timer: Any = None

    def watch(self, partition: Partition) -> None:
        """Check the deadlines of `partition` until it has no waiters."""
        self._partitions.add(partition)
        if self._timer is None:
            self._timer = self._loop.call_later(DEADLINE_TICK_S, self._tick)

    def stop(self) -> None:
        """Tick no more."""
        self._partitions.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        now_s = self._clock.monotonic()
        for partition in list(self._partitions):
            if not partition.expire_commit_waiters(now_s):
                self._partitions.discard(partition)
        if self._partitions and self._timer is None:
            self._timer = self._loop.call_later(DEADLINE_TICK_S, self._tick)
