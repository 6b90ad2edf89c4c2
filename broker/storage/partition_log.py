"""PartitionLog: the log of one partition: append, read, commit, cut (R28 to R30, R33, R35, R36).

Owned by the event loop; nothing here waits, but for `close` and the cuts. What holds at all times:
`log start <= last stable <= high watermark <= log end`, `recovery point <= durable <= log end`, and
under flush policy `commit` no high watermark is set above the durable offset.

How bytes become durable, and in which order, is written in `flush`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack
from uuid import UUID

from broker.storage.append_info import AppendInfo, AppendRules
from broker.storage.damage import Damage, LogDamage
from broker.storage.deleted_segments import abandon_segment
from broker.storage.flush import FlushTask
from broker.storage.high_watermark import HighWatermark
from broker.storage.log_appender import AppendOptions, LogAppender
from broker.storage.log_cleaning import LogCleaning
from broker.storage.log_config import FlushPolicy, LogConfig
from broker.storage.log_listener import LogListener, NullListener
from broker.storage.log_reader import LogReader, ReadLimit
from broker.storage.log_trimmer import SEGMENTS_MAX, LogTrimmer
from broker.storage.log_wounds import add_damage, mark_wounds
from broker.storage.offset_metadata import FetchData, LogOffsetMetadata
from broker.storage.producer_upkeep import ProducerUpkeep
from broker.storage.segment import LogSegment
from broker.storage.unflushed import Unflushed
from protocol.errors import StorageError
from protocol.identifiers import TopicPartition

if TYPE_CHECKING:
    from broker.storage.disk import DiskFile
    from broker.storage.durable_offsets import DurableOffsets, DurableSlot
    from broker.storage.leader_epochs import LeaderEpochs
    from broker.storage.log_context import LogContext
    from broker.storage.producer_loader import LoadedProducers
    from broker.storage.segments import Segments


class PartitionLog:
    """The log of one partition. Made by `log_loader`, which reads or creates its directory."""

    __slots__ = (
        "_context", "_durable_slot", "_loaded_end_offset", "active", "appender", "cleaning",
        "config", "damage", "directory", "durable_offset", "epochs", "follows_log_end",
        "is_closed", "leader_epoch", "listener", "log_end_offset", "log_start_offset",
        "producers", "reader", "recovery_point", "refusal", "rules", "segments", "snapshots",
        "topic_id", "topic_partition", "trimmer", "unflushed", "upkeep", "watermark",
    )  # fmt: skip

    def __init__(
        self,
        context: LogContext,
        topic_partition: TopicPartition,
        topic_id: UUID,
        directory: Path,
        config: LogConfig,
        segments: Segments,
        epochs: LeaderEpochs,
        producers: LoadedProducers,
        *,
        log_start_offset: int,
        log_end_offset: int,
        damage: tuple[Damage, ...] = (),
        kept_segments: tuple[int, ...] = (),
    ) -> None:
        """Take over a log that was loaded: all that the segments hold is durable.

        Args:
            segments: At least one; the last is active, and `log_end_offset` is its end.
            kept_segments: Base offsets of those whose wounds are all in durable reports.
        """
        assert segments.active is not None
        self._context = context
        self.topic_partition, self.topic_id = topic_partition, topic_id
        self.directory = directory
        self.listener: LogListener = NullListener()
        self.segments = segments
        """Replaced whole on each change, so that a reader goes on with the one it has."""
        self.active: LogSegment = segments.active
        self.leader_epoch = epochs.latest
        self.log_start_offset, self.log_end_offset = log_start_offset, log_end_offset
        self.damage = LogDamage(damage, kept_segments)
        """All wounds that are known; told to the segments too, whose look-ups step over them."""
        for base_offset in {each.segment_base_offset for each in damage}:
            mark_wounds(self, base_offset)
        self.durable_offset = self.recovery_point = log_end_offset
        """The recovery point is for the next checkpoint: after a crash, check from there on."""
        self._set_durable_offset(log_end_offset)
        self.is_closed, self.refusal = False, ""
        """Why no append is accepted."""
        self.epochs, self.snapshots = epochs, producers.snapshots
        self.producers = producers.state
        """Idempotent producers and open transactions."""
        context.producer_room.join(self.producers)
        self._loaded_end_offset = log_end_offset
        self._durable_slot: DurableSlot | None = None
        self._make_parts(context)
        self.update_config(config)
        self.watermark.move_to(log_end_offset, self.end_metadata())

    def _make_parts(self, context: LogContext) -> None:
        self.unflushed = Unflushed(self, context)
        """What is written and not durable yet; for the engine's own parts."""
        self.appender = LogAppender(self, context)
        self.reader = LogReader(self)
        self.trimmer = LogTrimmer(self, context)
        self.cleaning = LogCleaning(self, context)
        self.upkeep = ProducerUpkeep(self, context)
        self.watermark = HighWatermark(self)

    # --- appending ----------------------------------------------------------------------------

    def append(self, batches: memoryview, **how: Unpack[AppendOptions]) -> AppendInfo:
        """Validate a set of batches, stamp it in place, write it; see `LogAppender` (R29)."""
        return self.appender.append(batches, **how)

    def begin_leader_epoch(self, epoch: int) -> None:
        """Write in `epoch` from LEO on; one that is not above all before it changes nothing.

        Raises:
            OSError: it cannot be noted durably: the log goes on in the epoch before.
        """
        if self.epochs.assign(epoch, self.log_end_offset):
            self.leader_epoch = epoch

    def roll(self) -> LogSegment:
        """Seal the active segment, begin a new one at LEO, return that; see `LogAppender` (R27)."""
        return self.appender.roll()

    # --- flushing -----------------------------------------------------------------------------

    @property
    def unflushed_bytes(self) -> int:
        """Written and not durable yet."""
        return self.unflushed.size_bytes

    @property
    def flush_due_at(self) -> float | None:
        """When the log is to be flushed, on the monotonic clock; None if that is not yet known."""
        return self.unflushed.due_at

    def flush_task(self) -> FlushTask | None:
        """Return a flush of all there is, to be run in a thread; None: nothing, or one is out.

        It goes back to `flush_completed` or `flush_failed`."""
        try:
            return None if self.refusal else self.unflushed.begin()
        except OSError as error:
            self.fail(error)
            return None

    def flush_completed(self, task: FlushTask) -> None:
        """Take note that a task has run: what it covers is durable, and may be committed."""
        offset = self.unflushed.finish(task)
        if self.is_closed or task.unreachable is not None:
            return
        self.raise_durable_offset(offset)
        if not self.follows_log_end and offset > self.watermark.offset:
            is_whole = offset == task.end.message_offset
            self.watermark.move_to(offset, task.end if is_whole else None)
        context = self._context
        context.bytes_since_checkpoint += task.size_bytes
        if task.files or context.bytes_since_checkpoint > context.options.unflushed_bytes_max:
            context.is_checkpoint_due = True  # a segment was sealed, or much is behind the last one
        self.unflushed.note()

    def flush_failed(self, task: FlushTask, error: OSError) -> None:
        """Take note that a sync failed: final. Nothing is acknowledged or appended any more."""
        self.unflushed.finish(task)
        self.fail(error)

    def fail(self, error: OSError) -> None:
        """Accept nothing any more, and tell the listener. What is committed stays readable."""
        self.refusal = f"has failed: {error.strerror or error}"
        self.listener.log_failed(self, error)

    def flush(self) -> None:
        """Flush in place, blocking: at the end, and where bytes are cut.

        Raises:
            OSError: final, as `flush_failed` says.
            StorageError: its directory is not there; nothing is lost.
        """
        assert self.unflushed.task is None, "a flush is under way"
        task = self.flush_task()
        if task is None:
            return
        try:
            task.run()
        except OSError as error:
            self.flush_failed(task, error)
            raise
        self.flush_completed(task)
        task.check_reached()

    def writeback_due(self) -> tuple[DiskFile, int, int] | None:
        """Return file, position and size of what the kernel should start to write, if anything.

        For `DiskFile.start_writeback`, in a thread: it may block. Each byte is named once.
        """
        return None if self.refusal else self.unflushed.writeback_due()

    def raise_durable_offset(self, offset: int) -> None:
        """Note that everything below `offset` is durable, or need not be; never lowers it."""
        if offset <= self.durable_offset:
            return
        assert offset <= self.log_end_offset, (offset, self.log_end_offset)
        self._set_durable_offset(offset)
        if self._durable_slot is not None:
            self._durable_slot.set(offset)

    def lower_durable_offset(self, offset: int) -> None:
        """Set it back, durably on return: before anything at or above `offset` is cut.

        Raises:
            OSError: final; nothing may be cut.
        """
        self._set_durable_offset(offset)
        if self._durable_slot is not None:
            self._durable_slot.lower(offset)

    def _set_durable_offset(self, offset: int) -> None:
        self.durable_offset = offset
        self._context.touched[self] = None
        # Damage keeps the recovery point below it, so that the next start finds it again; unless it
        # finds durable reports.
        wounded = self.damage.first_unkept_segment
        self.recovery_point = offset if wounded is None else min(offset, wounded)

    def keep_durable_offset_in(self, durable_offsets: DurableOffsets) -> None:
        """Take a slot in the data directory's file of durable offsets."""
        self._durable_slot = durable_offsets.add(
            self.topic_id, self.topic_partition.partition, self.durable_offset
        )

    # --- damage -------------------------------------------------------------------------------

    def add_damage(self, damage: Damage) -> bool:
        """Take note of a wound found while the log is open; see `log_wounds.add_damage`."""
        return add_damage(self, self._context, damage)

    def damage_changed(self) -> None:
        """Set the recovery point anew, which stays below all damage."""
        self._set_durable_offset(self.durable_offset)

    # --- reading ------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        limit: ReadLimit = ReadLimit.HIGH_WATERMARK,
        min_one: bool = True,
        at_once: bool = True,
    ) -> FetchData:
        """Return slices of the segment files from `offset` on; see `LogReader.read` (R30)."""
        return self.reader.read(offset, max_bytes, limit, min_one=min_one, at_once=at_once)

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Return (timestamp, offset) of the first record that is late enough (R33)."""
        return self.reader.offset_for_timestamp(timestamp_ms)

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return producer id and first offset of aborted transactions; see `LogReader`."""
        found = self.reader.aborted_transactions(start, end)
        return [(each.producer_id, each.first_offset) for each in found]

    def segment_base_offsets_below(self, offset: int, count: int) -> list[int]:
        """Return up to `count` base offsets of segments below `offset`, newest first."""
        return self.reader.segment_base_offsets_below(offset, count)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the epoch at or below `epoch`, and where it ends; see `LeaderEpochs`."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """Return an offset with its place in the files (R35); see `LogReader.metadata`."""
        return self.reader.metadata(offset)

    def end_metadata(self) -> LogOffsetMetadata:
        """Return LEO with its place."""
        active = self.active
        return LogOffsetMetadata(self.log_end_offset, active.base_offset, active.size_bytes)

    # --- cutting ------------------------------------------------------------------------------

    def advance_log_start(self, offset: int) -> bool:
        """Move the log start forward, up to the high watermark; see `LogTrimmer`."""
        self.check_open()
        return self.trimmer.advance_log_start(offset)

    def delete_old_segments(self, now_ms: int, limit: int = SEGMENTS_MAX) -> int:
        """Remove the segments that are due; return how many (R38); see `LogTrimmer`."""
        if self.refusal or self.cleaning.is_replacing:
            return 0
        return self.trimmer.delete_old_segments(now_ms, limit)

    def truncate_to(self, offset: int) -> int:
        """Cut everything at or above `offset`; return the new LEO; see `LogTrimmer`."""
        if self.refusal:
            raise StorageError(f"{self.topic_partition} {self.refusal}")
        self.cleaning.before_cut(offset)
        return self.trimmer.truncate_to(offset)

    def update_config(self, config: LogConfig) -> None:
        """Take over changed settings: from the next append, flush or retention round on."""
        self.config = config
        self.rules = AppendRules(config)
        self.follows_log_end = config.flush_policy is not FlushPolicy.COMMIT
        self.active.update_config(config)  # a sealed one takes them over if it gets active
        if self.follows_log_end:
            self.watermark.move_to(self.log_end_offset)
        self.unflushed.policy_changed()

    def prepare_close(self) -> None:
        """Seal what was appended to, so that the next flush covers all that a clean stop saves.

        No append may follow; `close` does the same, and then has to wait for the disk itself.
        """
        if not self.refusal and self.log_end_offset != self._loaded_end_offset:
            self._loaded_end_offset = self.log_end_offset
            self.active.seal()
            self.unflushed.add_sealed(self.active)
            self.upkeep.write_snapshot()

    def close(self) -> None:
        """Flush, trim the indexes, close the files. A second call does nothing.

        Raises:
            OSError: a sync failed: the stop is not a clean one.
        """
        if self.is_closed:
            return
        if not self.refusal:
            self.epochs.save()
            self.prepare_close()
            self.flush()
        self._end("is closed")
        for segment in self.segments:
            segment.close()

    def abandon(self) -> None:
        """Close the files and save nothing: the partition is being deleted."""
        self._end("is deleted")
        for segment in self.segments:
            abandon_segment(segment)
        self.trimmer.deleted.abandon()

    def _end(self, refusal: str) -> None:
        self.is_closed = True
        self.refusal = refusal
        self._context.producer_room.leave(self.producers)
        self.unflushed.drop()

    def check_open(self) -> None:
        """Raise StorageError if the log is closed."""
        if self.is_closed:
            raise StorageError(f"{self.topic_partition} is closed")

    @property
    def high_watermark(self) -> int:
        """Everything below is committed and visible."""
        return self.watermark.offset

    @property
    def last_stable_offset(self) -> int:
        """Everything below is committed and of a decided transaction."""
        return self.watermark.last_stable_offset

    @property
    def size_bytes(self) -> int:
        """Of all batches; indexes not counted."""
        return sum(segment.size_bytes for segment in self.segments)
