"""A log as the cleaner sees it: what of it can be cleaned, and the job that does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.storage.batch_filter import LastRecord
from broker.storage.compaction import CleaningPlan, CompactionSegment, plan_cleaning
from broker.storage.compactor import CleaningJob
from protocol.limits import INT64_MAX

if TYPE_CHECKING:
    from broker.storage.partition_log import PartitionLog


def plan_log(log: PartitionLog, *, recovery_point: int, now_ms: int) -> CleaningPlan:
    """Say what of an open log can be cleaned; see `compaction`.

    Args:
        recovery_point: As it stands in the checkpoint now.

    Raises:
        StorageError: a timestamp cannot be read.
    """
    config = log.config
    limit_offset = min(
        log.last_stable_offset, log.high_watermark, log.durable_offset, recovery_point
    )
    return plan_cleaning(
        _facts(log, config.min_compaction_lag_ms > 0, config.max_compaction_lag_ms < INT64_MAX),
        config,
        cleaned_offset=log.cleaning.cleaned_offset,
        log_start_offset=log.log_start_offset,
        limit_offset=limit_offset,
        now_ms=now_ms,
    )


def _facts(
    log: PartitionLog, needs_largest: bool, needs_first: bool
) -> tuple[CompactionSegment, ...]:
    segments = list(log.segments)
    ends = [segment.base_offset for segment in segments[1:]] + [log.log_end_offset]
    return tuple(
        CompactionSegment(
            base_offset=segment.base_offset,
            next_base_offset=end,
            size_bytes=segment.size_bytes,
            first_timestamp_ms=segment.first_batch_timestamp() if needs_first else -1,
            largest_timestamp_ms=segment.largest_timestamp() if needs_largest else -1,
        )
        for segment, end in zip(segments, ends, strict=True)
    )


def cleaning_job(
    log: PartitionLog,
    plan: CleaningPlan,
    *,
    now_ms: int,
    dedupe_buffer_bytes: int,
    io_bytes_per_second: int = 0,
    free_bytes_min: int = 0,
) -> CleaningJob:
    """Return a pass over a log, and note in the log which segments it works on.

    Raises:
        StorageError: a transaction index cannot be read, or built anew.
    """
    log.upkeep.trust_indexes()
    config, end = log.config, plan.first_uncleanable_offset
    log.cleaning.begin(tuple(each for each in log.segments if each.base_offset < end))
    last_records = {
        producer.producer_id: LastRecord(producer.last_offset, producer.epoch)
        for producer in log.producers.producers.values()
    }
    return CleaningJob(
        directory=str(log.directory),
        segments=tuple(each for each in _facts(log, False, False) if each.base_offset < end),
        later_base_offsets=tuple(each for each in log.segments.base_offsets if each >= end),
        first_dirty_offset=plan.first_dirty_offset,
        first_uncleanable_offset=end,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        last_records=last_records,
        dedupe_buffer_bytes=dedupe_buffer_bytes,
        io_bytes_per_second=io_bytes_per_second,
        free_bytes_min=free_bytes_min,
    )
