"""LogAppender: puts batches at the end of a log, and rolls (R27 to R29).

`append_plain` and `append_plain_run` are the hot path; the second writes as many sets as a read of
the socket brought at once. Both take what comes without a producer, or is its producer's next.
`append` takes any set and says exactly what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypedDict, Unpack

from broker.storage.append_info import (
    AppendInfo,
    analyze_and_validate,
    assign_offsets,
    trim_invalid_bytes,
)
from broker.storage.append_origin import AppendOrigin
from broker.storage.plain_batches import stamp_plain
from broker.storage.producer import BATCHES_KEPT, sequence_after
from protocol.errors import OutOfOrderSequenceError, StorageError
from protocol.identifiers import NO_TIMESTAMP
from protocol.limits import INT32_MAX

if TYPE_CHECKING:
    from broker.storage.log_context import LogContext
    from broker.storage.partition_log import PartitionLog
    from broker.storage.producer import Producer
    from broker.storage.producer_state import ProducerAppend
    from broker.storage.segment import LogSegment


class AppendOptions(TypedDict, total=False):
    """What may be said of an append; each has a default."""

    expected_offset: int | None
    """Append only if the log ends there."""
    now_ms: int | None
    """The wall clock, if the caller knows it."""
    origin: AppendOrigin
    """Who sends it, and so what may be in it; a client unless said otherwise."""
    is_verified: bool
    """The client's transaction is known to be open, and to have this partition. Without that its
    transactional batches are refused."""


class _RunWriters:
    """The idempotent producers of a run: told of it when it is written, of their last batches only.

    Their next sequence is moved on meanwhile, for the batches behind.
    """

    __slots__ = ("_batches", "_sequences")

    def __init__(self) -> None:
        self._sequences: dict[Producer, int] = {}  # which was next before the run
        self._batches: list[tuple[Producer, int, int, int, int]] = []

    def add(self, producer: Producer, last_offset: int, delta: int, timestamp: int) -> None:
        """Take the next batch of a producer; `delta` is its last offset less its first."""
        sequence = producer.next_sequence
        if producer not in self._sequences:
            self._sequences[producer] = sequence
        last = sequence + delta
        if last >= INT32_MAX:
            last = sequence_after(sequence, delta)
        producer.next_sequence = 0 if last == INT32_MAX else last + 1
        self._batches.append((producer, last, last_offset, delta, timestamp))

    def give_up(self) -> None:
        """Nothing was written."""
        for producer, sequence in self._sequences.items():
            producer.next_sequence = sequence

    def tell(self, now_ms: int) -> None:
        """All is written."""
        for producer in self._sequences:
            its = [each for each in self._batches if each[0] is producer]
            for _, *batch in its[-BATCHES_KEPT:]:
                producer.add_batch(producer.epoch, *batch)
            producer.heard_at_ms = now_ms


class LogAppender:
    """The appending side of a PartitionLog."""

    __slots__ = ("_context", "_log", "_now_ms")

    def __init__(self, log: PartitionLog, context: LogContext) -> None:
        self._log, self._context = log, context
        self._now_ms = context.clock.now_ms

    def append(self, batches: memoryview, **how: Unpack[AppendOptions]) -> AppendInfo:
        """Validate a set of record batches, stamp it in place, write it (R29).

        All or nothing, but for a cut batch at the set's end, which is left out. Not durable when
        this returns, and perhaps not committed: see `flush` and `high_watermark`. A repetition of
        what an idempotent producer has appended is not appended again: the answer says where it is.

        Args:
            batches: Writable: it is stamped.
            how: See `AppendOptions`.

        Raises:
            OutOfOrderSequenceError: LEO is not `expected_offset`; or a sequence is not the next.
            InvalidProducerEpochError, ...: see `ProducerState.check`.
            CorruptMessageError, InvalidRecordError, ...: see `analyze_and_validate`.
            StorageError: the disk refused, and nothing was written; or the log is closed or failed.
        """
        log = self._log
        self._check_accepts()
        first_offset = log.log_end_offset
        expected_offset = how.get("expected_offset")
        if expected_offset is not None and expected_offset != first_offset:
            raise OutOfOrderSequenceError(
                f"{log.topic_partition} ends at offset {first_offset}, not {expected_offset}"
            )
        now_ms, origin = how.get("now_ms"), how.get("origin", AppendOrigin.CLIENT)
        if now_ms is None:
            now_ms = self._now_ms()
        is_verified = how.get("is_verified", False)
        info = analyze_and_validate(
            batches, log.rules, now_ms, first_offset, origin=origin, is_verified=is_verified
        )
        size = info.valid_bytes
        batches = trim_invalid_bytes(batches, info)
        producers = None
        if info.producer_batches:
            if origin is AppendOrigin.CLIENT and (original := self._original_of(info)) is not None:
                return original
            producers = log.producers.check(info.producer_batches, origin)
        if log.active.should_roll(size, info.last_offset, info.max_timestamp, now_ms):
            self.roll()
        assign_offsets(batches, info, log.leader_epoch)
        if producers is None:
            log.active.append(
                info.last_offset, info.max_timestamp, info.offset_of_max_timestamp, (batches,), size
            )
        else:
            self._write_of_producers(batches, info, producers, now_ms)
        self._appended(info.last_offset + 1, size)
        return info

    def _original_of(self, info: AppendInfo) -> AppendInfo | None:
        """Return what was appended, if all of the set was before, in one stretch."""
        if len(info.producer_batches) != info.shallow_count:
            return None
        found = self._log.producers.duplicate_of(info.producer_batches)
        if found is None:
            return None
        append_time_ms = found[0].timestamp if self._log.rules.log_append_time else NO_TIMESTAMP
        return info._replace(
            first_offset=found[0].first_offset,
            last_offset=found[-1].last_offset,
            append_time_ms=append_time_ms,
            is_duplicate=True,
        )

    def _write_of_producers(
        self, batches: memoryview, info: AppendInfo, append: ProducerAppend, now_ms: int
    ) -> None:
        """Write batches of idempotent producers, or markers; their state follows what is written.

        The index entry of an aborted transaction is written before its marker: see
        `transaction_index`.
        """
        log = self._log
        active, index, size_before = log.active, log.active.transaction_index, 0
        aborted = append.aborted
        if aborted:
            log.upkeep.trusted_index(active)
            if not index.size_bytes:
                log.unflushed.add_directory(log.directory)
            size_before = index.append(aborted)
        try:
            active.append(
                info.last_offset, info.max_timestamp, info.offset_of_max_timestamp, (batches,),
                info.valid_bytes,
            )  # fmt: skip
        except BaseException:
            if aborted:
                index.cut_to(size_before)
            raise
        log.producers.apply(append, now_ms)

    def append_plain(self, batches: memoryview) -> int:
        """Append a set if it is a plain one (`plain_batches`).

        Returns:
            Its records. 0: nothing was appended, for any reason: `append` does it, or says what is
            wrong.

        Raises:
            StorageError: the disk refused, and nothing was written; or the log is closed or failed.
        """
        log = self._log
        if log.refusal or self._context.pause:
            self._check_accepts()
        now_ms = self._now_ms()
        first_offset, size = log.log_end_offset, len(batches)
        plain = stamp_plain(
            batches, log.rules, now_ms, first_offset, log.leader_epoch, log.producers.producers
        )
        if plain is None:
            return 0
        count, timestamp, producer = plain
        last_offset = first_offset + count - 1
        active = log.active
        if active.should_roll(size, last_offset, timestamp, now_ms):
            return 0
        active.append(last_offset, timestamp, last_offset, (batches,), size)
        if producer is not None:
            last_sequence = sequence_after(producer.next_sequence, count - 1)
            producer.add_batch(producer.epoch, last_sequence, last_offset, count - 1, timestamp)
            producer.heard_at_ms = now_ms
        self._appended(last_offset + 1, size)
        return count

    def append_plain_run(self, sets: Iterable[memoryview]) -> tuple[list[int], int]:
        """Append the plain sets at the head of `sets`, all or none, with one write.

        Returns:
            The records of each set that was appended, and the bytes of all; none: `append` does it.

        Raises: as `append_plain`.
        """
        log = self._log
        self._check_accepts()
        active, rules, epoch = log.active, log.rules, log.leader_epoch
        producers = log.producers.producers
        now_ms, room = self._now_ms(), active.room_bytes()
        next_offset = largest_offset = log.log_end_offset
        largest_timestamp, size = int(NO_TIMESTAMP), 0
        buffers: list[memoryview] = []
        counts: list[int] = []
        writers = _RunWriters()
        for batches in sets:
            plain = stamp_plain(batches, rules, now_ms, next_offset, epoch, producers)
            if plain is None or size + len(batches) > room:
                break
            count, timestamp, producer = plain
            next_offset += count
            size += len(batches)
            if timestamp > largest_timestamp:
                largest_timestamp, largest_offset = timestamp, next_offset - 1
            if producer is not None:
                writers.add(producer, next_offset - 1, count - 1, timestamp)
            buffers.append(batches)
            counts.append(count)
        last_offset = next_offset - 1
        if not counts or active.should_roll(size, last_offset, largest_timestamp, now_ms):
            writers.give_up()
            return [], 0
        try:
            active.append(last_offset, largest_timestamp, largest_offset, buffers, size)
        except BaseException:
            writers.give_up()
            raise
        writers.tell(now_ms)
        self._appended(next_offset, size)
        return counts, size

    def _appended(self, end_offset: int, size: int) -> None:
        """Move LEO, and what follows it, over bytes that were written."""
        log = self._log
        log.log_end_offset = end_offset
        unflushed = log.unflushed
        unflushed.size_bytes += size
        if not unflushed.is_noted and unflushed.size_bytes > unflushed.notice_bytes:
            unflushed.note()
        if not log.follows_log_end:
            return
        # Policies `interval` and `os`: what was appended is committed at once.
        if log.active.size_bytes >= unflushed.writeback_at:
            log.listener.unflushed(log)
        if self._context.handles.is_crowded:
            unflushed.flush_now()
        log.watermark.move_to(end_offset)

    def roll(self) -> LogSegment:
        """Seal the active segment, begin a new one at LEO, and return that (R27).

        The sealed one is due to be flushed at once, under every policy. An empty active segment is
        left as it is: rolling twice is rolling once.

        Raises:
            StorageError: the new one cannot be made; the old one stays active.
        """
        log = self._log
        self._check_usable()
        sealed = log.active
        if sealed.base_offset == log.log_end_offset:
            return sealed
        active = self._context.open_segment(
            log.directory, log.log_end_offset, log.config, create=True, active=True
        )
        sealed.seal()
        active.transaction_index.is_trusted = True  # there is none
        log.segments = log.segments.with_added(active)
        log.active = active
        log.unflushed.writeback_at = self._context.options.writeback_bytes
        log.unflushed.add_sealed(sealed)
        log.unflushed.add_directory(log.directory)
        log.upkeep.write_snapshot()
        log.unflushed.note()
        return active

    def _check_accepts(self) -> None:
        self._check_usable()
        context = self._context
        if context.pause:
            context.refused_appends += 1
            raise StorageError(f"{self._log.topic_partition}: {context.pause}")

    def _check_usable(self) -> None:
        if self._log.refusal:
            raise StorageError(f"{self._log.topic_partition} {self._log.refusal}")
