"""LogAppender: puts batches at the end of a log, and rolls (R27 to R29).

`append_plain` and `append_plain_run` are the hot path: the second writes as many sets as a read of
the socket brought at once. `append` takes any set and says exactly what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.storage.append_info import (
    AppendInfo,
    analyze_and_validate,
    assign_offsets,
    trim_invalid_bytes,
)
from broker.storage.plain_batches import stamp_plain
from protocol.errors import OutOfOrderSequenceError, StorageError
from protocol.identifiers import NO_TIMESTAMP

if TYPE_CHECKING:
    from broker.storage.log_context import LogContext
    from broker.storage.partition_log import PartitionLog
    from broker.storage.segment import LogSegment


class LogAppender:
    """The appending side of a PartitionLog."""

    __slots__ = ("_context", "_log", "_now_ms")

    def __init__(self, log: PartitionLog, context: LogContext) -> None:
        self._log, self._context = log, context
        self._now_ms = context.clock.now_ms

    def append(
        self,
        batches: memoryview,
        *,
        expected_offset: int | None = None,
        now_ms: int | None = None,
    ) -> AppendInfo:
        """Validate a set of record batches, stamp it in place, write it (R29).

        All or nothing, but for a cut batch at the set's end, which is left out. Not durable when
        this returns, and perhaps not committed: see `flush` and `high_watermark`.

        Args:
            batches: Writable: it is stamped.
            expected_offset: Append only if the log ends there.
            now_ms: The wall clock, if the caller knows it.

        Raises:
            OutOfOrderSequenceError: LEO is not `expected_offset`.
            CorruptMessageError, InvalidRecordError, ...: see `analyze_and_validate`.
            StorageError: the disk refused, and nothing was written; or the log is closed or failed.
        """
        log = self._log
        self._check_accepts()
        first_offset = log.log_end_offset
        if expected_offset is not None and expected_offset != first_offset:
            raise OutOfOrderSequenceError(
                f"{log.topic_partition} ends at offset {first_offset}, not {expected_offset}"
            )
        if now_ms is None:
            now_ms = self._now_ms()
        info = analyze_and_validate(batches, log.rules, now_ms, first_offset)
        size = info.valid_bytes
        batches = trim_invalid_bytes(batches, info)
        # Sequence numbers of idempotent producers are to be checked here, before a byte is changed.
        if log.active.should_roll(size, info.last_offset, info.max_timestamp, now_ms):
            self.roll()
        assign_offsets(batches, info, log.leader_epoch)
        log.active.append(
            info.last_offset, info.max_timestamp, info.offset_of_max_timestamp, (batches,), size
        )
        self._appended(info.last_offset + 1, size)
        return info

    def append_plain(self, batches: memoryview) -> int:
        """Append a set if it is a plain one (`plain_batches`); return its records.

        Returns:
            0: nothing was appended, for any reason: `append` does it, or says what is wrong.

        Raises:
            StorageError: the disk refused, and nothing was written; or the log is closed or failed.
        """
        log = self._log
        if log.refusal or self._context.pause:
            self._check_accepts()
        now_ms = self._now_ms()
        first_offset, size = log.log_end_offset, len(batches)
        plain = stamp_plain(batches, log.rules, now_ms, first_offset, log.leader_epoch)
        if plain is None:
            return 0
        count, timestamp = plain
        last_offset = first_offset + count - 1
        active = log.active
        if active.should_roll(size, last_offset, timestamp, now_ms):
            return 0
        active.append(last_offset, timestamp, last_offset, (batches,), size)
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
        now_ms, room = self._now_ms(), active.room_bytes()
        next_offset = largest_offset = log.log_end_offset
        largest_timestamp, size = int(NO_TIMESTAMP), 0
        buffers: list[memoryview] = []
        counts: list[int] = []
        for batches in sets:
            plain = stamp_plain(batches, rules, now_ms, next_offset, epoch)
            if plain is None or size + len(batches) > room:
                break
            count, timestamp = plain
            next_offset += count
            size += len(batches)
            if timestamp > largest_timestamp:
                largest_timestamp, largest_offset = timestamp, next_offset - 1
            buffers.append(batches)
            counts.append(count)
        last_offset = next_offset - 1
        if not counts or active.should_roll(size, last_offset, largest_timestamp, now_ms):
            return [], 0
        active.append(last_offset, largest_timestamp, largest_offset, buffers, size)
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
        log.segments = log.segments.with_added(active)
        log.active = active
        log.unflushed.writeback_at = self._context.options.writeback_bytes
        log.unflushed.add_sealed(sealed)
        log.unflushed.add_directory(log.directory)
        # A snapshot of the producers' state is to be written here, as Kafka does at each roll.
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
