"""Compaction: a partition's segments written anew with the last record of each key only.

Offsets stay what they are. Three readings: the headers, for producers and transactions, with every
CRC checked; the keys; and what is written. The source is only read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
import numpy as np

from protocol.limits import SEGMENT_BYTES_MAX
from protocol.stored.cleaned_transactions import CleanedTransactions
from tidelog.segments.compaction.batch_thinning import BatchThinning, ThinningRules, dropped_batches
from tidelog.segments.compaction.latest_records import KeySpans, find_latest
from tidelog.segments.compaction.log_facts import LogFacts, read_facts
from tidelog.segments.compaction.segment_output import SEGMENT_BYTES, SegmentOutput
from tidelog.segments.compaction.stored_runs import DecodedRun, decoded_runs, stored_runs
from tidelog.segments.errors import DataLossError, OptionError
from tidelog.segments.location import Location
from tidelog.segments.log_files import PartitionFiles
from tidelog.segments.plan import bounds
from tidelog.segments.record_spans import NULL_END

__all__ = ["MEMORY_BYTES", "CompactedPartition", "CompactionRules", "compact_partition"]

DAY_MS: Final = 24 * 60 * 60 * 1000
MEMORY_BYTES: Final = 1 << 30


class CompactionRules(msgspec.Struct, frozen=True, kw_only=True):
    """How partitions are compacted."""

    now_ms: int
    delete_retention_ms: int = DAY_MS
    """How long tombstones and markers stay from now on, Kafka's `delete.retention.ms`."""
    segment_bytes: int = SEGMENT_BYTES
    """A new segment ends before it is larger."""
    memory_bytes: int = MEMORY_BYTES
    """What the table of keys may take. With more keys they are read several times."""

    def __post_init__(self) -> None:
        if not 0 < self.segment_bytes <= SEGMENT_BYTES_MAX:
            raise OptionError(
                f"segment_bytes is {self.segment_bytes}; it may be 1 to {SEGMENT_BYTES_MAX}"
            )


class CompactedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one partition."""

    topic: str
    partition: int
    log_start_offset: int
    cleaned_offset: int
    """Below it all is compacted: the log's end, or where its first open transaction begins."""
    end_offset: int
    records_read: int
    records_kept: int
    keyless: int
    """Records that went because they have no key."""
    keys: int
    readings: int
    """How often the keys were read; more than 1: they did not fit the memory at once."""
    bytes_read: int
    bytes_written: int
    segments: int


def compact_partition(
    location: Location, files: PartitionFiles, output: Location, rules: CompactionRules
) -> CompactedPartition:
    """Write what stays of a partition to a directory, which is there and is empty.

    Raises:
        DamagedError: the source is not sound.
        DataLossError: a segment is gone.
        OSError: the output cannot be written.
    """
    start_offset, end_offset = bounds(location, files)
    files = _readable(files, start_offset)
    facts = read_facts(stored_runs(location, files, end_offset), end_offset)
    thin = ThinningRules(
        now_ms=rules.now_ms,
        delete_retention_ms=rules.delete_retention_ms,
        start_offset=start_offset,
        end_offset=facts.decided_offset,
    )
    latest = find_latest(
        _keys(location, files, facts, thin, end_offset),
        facts.records,
        memory_bytes_max=rules.memory_bytes,
    )
    thinning = BatchThinning(latest, facts, thin)
    runs = _same_runs(location, files, facts, end_offset)
    base_offset = files.segments[0].base_offset if files.segments else end_offset
    written = _write(runs, thinning, base_offset, output, rules.segment_bytes)
    counts = thinning.counts
    return CompactedPartition(
        topic=files.topic,
        partition=files.partition,
        log_start_offset=start_offset,
        cleaned_offset=facts.decided_offset,
        end_offset=end_offset,
        records_read=counts.records_read,
        records_kept=counts.records_kept,
        keyless=counts.keyless,
        keys=latest.keys,
        readings=latest.readings,
        bytes_read=facts.size_bytes,
        bytes_written=written.size_bytes,
        segments=written.segments,
    )


def _same_runs(
    location: Location, files: PartitionFiles, facts: LogFacts, end_offset: int
) -> Iterator[DecodedRun]:
    """Yield all batches of the log that the facts are of.

    Raises:
        DataLossError: after the last: a broker's cleaner has replaced a segment meanwhile.
        DamagedError, DataLossError: see `decoded_runs`.
    """
    crc_sum = 0
    for run in decoded_runs(location, files, end_offset):
        crc_sum += int(run.table["crc"].sum(dtype=np.uint64))
        yield run
    if crc_sum != facts.crc_sum:
        raise DataLossError(
            f"segments of {files.topic}-{files.partition} were replaced while it was compacted: "
            "its broker cleans it; try again"
        )


def _write(
    runs: Iterator[DecodedRun],
    thinning: BatchThinning,
    base_offset: int,
    output: Location,
    segment_bytes: int,
) -> SegmentOutput:
    """Write what stays of all batches; return the output, which is finished."""
    written = SegmentOutput(output, base_offset, segment_bytes=segment_bytes)
    try:
        for run in runs:
            for batch in thinning.kept(run):
                written.append(
                    batch.data,
                    base_offset=batch.base_offset,
                    last_offset=batch.last_offset,
                    max_timestamp=batch.max_timestamp,
                    aborted=batch.aborted,
                )
        written.finish()
    except BaseException:
        written.abandon()
        raise
    return written


def _readable(files: PartitionFiles, start_offset: int) -> PartitionFiles:
    """Return the partition without segments of which all records are deleted."""
    ends = [each.base_offset for each in files.segments[1:]]
    gone = sum(end <= start_offset for end in ends)
    return files._replace(segments=files.segments[gone:])


def _keys(
    location: Location,
    files: PartitionFiles,
    facts: LogFacts,
    rules: ThinningRules,
    end_offset: int,
) -> Callable[[], Iterator[KeySpans]]:
    """Return what begins a reading of the keys that count."""

    def read() -> Iterator[KeySpans]:
        transactions = CleanedTransactions(facts.aborted)
        for run in _same_runs(location, files, facts, end_offset):
            spans, table = run.spans, run.table
            dropped = dropped_batches(table, transactions)
            dropped |= table["base_offset"] >= rules.end_offset
            counts = ~dropped[spans.batch]
            counts &= (spans.key_end != NULL_END) & (spans.offset >= rules.start_offset)
            ordinals = counts.nonzero()[0] + run.first_ordinal
            yield KeySpans(run.buffer, spans.key_start[counts], spans.key_end[counts], ordinals)

    return read
