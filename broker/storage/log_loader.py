"""LogLoader: makes PartitionLogs, from a partition's directory or for a new partition (R31)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import structlog

from broker.storage.disk import replace_file, storage_errors
from broker.storage.epoch_loader import load_epochs
from broker.storage.leftovers import finish_leftovers
from broker.storage.log_plan import LogPlan, RecoveredFacts
from broker.storage.partition_log import PartitionLog
from broker.storage.producer_loader import (
    LoadedProducers,
    load_producers,
    rebuild_transaction_index,
)
from broker.storage.recovery import Hints, Recovered, recover_segments
from broker.storage.remembered_wounds import with_remembered
from broker.storage.segments import Segments
from protocol.errors import CorruptMessageError, StorageError, StoredFormatError
from protocol.limits import INT64_MAX
from protocol.stored import partition_metadata
from protocol.stored.file_names import PARTITION_METADATA

if TYPE_CHECKING:
    from broker.storage.log_config import LogConfig
    from broker.storage.log_context import LogContext
    from broker.storage.segment import LogSegment

_log = structlog.get_logger(__name__)


class LoadedLog(NamedTuple):
    """A log, and what loading it took."""

    log: PartitionLog
    checked_bytes: int = 0
    cut_bytes: int = 0


def load_log(context: LogContext, plan: LogPlan, facts: RecoveredFacts | None = None) -> LoadedLog:
    """Open the log of a partition, recovering it unless the last stop was a clean one (R31).

    On return everything in it is durable.

    Args:
        facts: What a recovery says that has run just before, in another process perhaps.

    Raises:
        StorageError: a file cannot be read or changed: this log cannot be used now, others can.
        OSError: a sync failed: final.
    """
    directory, config, hints = plan.directory, plan.config, plan.hints
    recovered = None
    if facts is not None:
        recovered = _open_recovered(context, directory, config, facts)
    if recovered is not None:
        producers = _load_producers(context, plan, recovered)
    else:
        recovered, producers = _load_segments(context, plan)
    log_start_offset = recovered.segments[0].base_offset
    if hints.log_start_offset <= recovered.log_end_offset:  # else not believed: `_load_clean`
        log_start_offset = max(log_start_offset, hints.log_start_offset)
    with storage_errors("write the leader epochs of", directory):
        epochs = load_epochs(
            context.disk, directory, Segments(recovered.segments),
            log_start_offset=log_start_offset, log_end_offset=recovered.log_end_offset,
        )  # fmt: skip
    log = PartitionLog(
        context, plan.topic_partition, plan.topic_id, directory, config,
        Segments(recovered.segments), epochs, producers, log_start_offset=log_start_offset,
        log_end_offset=recovered.log_end_offset, damage=recovered.damage,
        kept_segments=recovered.kept_segments,
    )  # fmt: skip
    if hints.cleaned_offset:
        log.cleaning.cleaned_offset = hints.cleaned_offset
    return LoadedLog(log, recovered.checked_bytes, recovered.cut_bytes)


def _load_segments(context: LogContext, plan: LogPlan) -> tuple[Recovered, LoadedProducers]:
    """Put a directory in order, open or recover its segments, load its producers."""
    directory, config, hints = plan.directory, plan.config, plan.hints
    leftovers = finish_leftovers(context, directory)
    base_offsets = leftovers.base_offsets
    if not base_offsets:  # a new one, in the place of all that is gone
        base_offset = max(
            hints.log_start_offset, hints.durable_offset or 0, hints.recovery_point or 0
        )
        context.open_segment(directory, base_offset, config, create=True).close()
        base_offsets = (base_offset,)
    recovered = rebuild_from = None
    if hints.is_clean and not leftovers.lost_segments:
        recovered = _load_clean(context, directory, base_offsets, config, hints)
    if recovered is None:
        recovered = recover_segments(
            context, directory, base_offsets, config, hints, leftovers.lost_segments
        )
        rebuild_from = first_checked([each.base_offset for each in recovered.segments], hints)
    if leftovers.has_reports or recovered.damage:
        recovered = with_remembered(context, directory, recovered)
    producers = _load_producers(context, plan, recovered, rebuild_from)
    segments = Segments(recovered.segments)
    for segment, following in zip(recovered.segments, recovered.segments[1:], strict=False):
        if segment.base_offset in leftovers.swapped_segments:
            rebuild_transaction_index(
                context, producers.snapshots, segments, config, segment, following.base_offset
            )
    return recovered, producers


def _load_producers(
    context: LogContext, plan: LogPlan, recovered: Recovered, rebuild_from: int | None = None
) -> LoadedProducers:
    return load_producers(
        context, plan.directory, recovered.segments, plan.config,
        log_end_offset=recovered.log_end_offset, rebuild_from=rebuild_from,
        recent_batches=recovered.recent_batches,
    )  # fmt: skip


def _open_recovered(
    context: LogContext, directory: Path, config: LogConfig, facts: RecoveredFacts
) -> Recovered | None:
    """Open the segments of a log that was recovered; None if they are not as that has left them."""
    segments = _open_segments(context, directory, tuple(facts.segment_sizes), config)
    sizes = {each.base_offset: each.size_bytes for each in segments}
    if sizes != facts.segment_sizes or check_clean_segments(segments) != facts.log_end_offset:
        _log.error("a log was changed since it was recovered", path=str(directory))
        return None
    for segment in segments:
        if segment.base_offset in facts.checked_segments:
            segment.check.unchecked = None
    return Recovered(
        tuple(segments),
        facts.log_end_offset,
        facts.damage,
        facts.checked_bytes,
        facts.cut_bytes,
        kept_segments=facts.kept_segments,
    )


def _open_segments(
    context: LogContext, directory: Path, base_offsets: tuple[int, ...], config: LogConfig
) -> list[LogSegment]:
    """Open segments whose files need no check, by one look at the directory; the last is active."""
    with storage_errors("read", directory):
        sizes = context.disk.file_sizes(directory)
    active_base = base_offsets[-1]
    segments = [
        context.open_segment(
            directory, base_offset, config, active=base_offset == active_base, sizes=sizes
        )
        for base_offset in base_offsets
    ]
    for segment in segments[:-1]:
        segment.records.seal()
    return segments


def first_checked(base_offsets: Sequence[int], hints: Hints) -> int:
    """Return the base offset of the first segment that recovery has checked."""
    ends = [*base_offsets[1:], INT64_MAX]
    check_from = hints.check_from
    return next(base for base, end in zip(base_offsets, ends, strict=True) if end > check_from)


def _load_clean(
    context: LogContext,
    directory: Path,
    base_offsets: tuple[int, ...],
    config: LogConfig,
    hints: Hints,
) -> Recovered | None:
    """Open the segments after a clean stop; None if the log is not as one leaves it.

    That is: its end is not sound, offsets are missing, or not all of it lies below the recovery
    point, as where damage is known (`PartitionLog.recovery_point`).
    """
    segments = _open_segments(context, directory, base_offsets, config)
    log_end_offset = check_clean_segments(segments)
    if log_end_offset is None:
        return None
    log_start_offset = hints.log_start_offset
    is_end_known = hints.durable_offset is None and hints.recovery_point == log_end_offset
    if is_end_known and log_end_offset < log_start_offset:
        # Kafka's: its recovery point and its segments agree, so the log start is what is wrong.
        _log.warning(
            "a log start is not believed: the log ends below it",
            path=str(directory), log_start_offset=log_start_offset, log_end_offset=log_end_offset,
        )  # fmt: skip
        log_start_offset = 0
    if log_end_offset < max(log_start_offset, hints.durable_offset or 0):
        return None
    if hints.recovery_point is not None and hints.recovery_point != log_end_offset:
        return None
    if hints.durable_offset is not None and hints.durable_offset != log_end_offset:
        return None
    return Recovered(tuple(segments), log_end_offset, (), 0, 0)


def check_clean_segments(segments: list[LogSegment]) -> int | None:
    """Return the log end offset after a clean stop; None if the end is not as a clean stop has it.

    Reads the tail of the active segment and its indexes, and nothing else: what is wrong with other
    segments' indexes shows, and is put right, when they are used.
    """
    active = segments[-1]
    try:
        log_end_offset = active.next_offset()
    except (CorruptMessageError, StorageError) as error:
        _log.warning("the end of a log is not sound", segment=repr(active), error=str(error))
        return None
    active.sanity_check()  # what is wrong is built anew by the first look-up
    return log_end_offset


def read_topic_id(
    context: LogContext,
    directory: Path,
    topic: str,
    topic_id_of: Callable[[str], UUID],
) -> UUID:
    """Return the id in `partition.metadata`; where it says none, write down what it should say.

    Raises:
        StorageError: the file cannot be read or written.
    """
    path = directory / PARTITION_METADATA
    with storage_errors("read", path):
        try:
            return partition_metadata.decode(context.disk.read_file(path))
        except FileNotFoundError:
            pass  # Kafka before 2.8 had none; and a crash may take it from an empty partition
        except StoredFormatError as error:
            _log.warning("topic id is not readable", path=str(path), error=str(error))
        topic_id = topic_id_of(topic)
        replace_file(context.disk, path, partition_metadata.encode(topic_id))
        return topic_id
