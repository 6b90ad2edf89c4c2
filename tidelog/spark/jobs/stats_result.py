"""StatsResult: what is said of each partition and topic, from their `LogStatistics`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from tidelog.segments.statistics.log_statistics import LogStatistics
from tidelog.segments.statistics.sketches.log_histogram import LogHistogram

__all__ = ["CodecShare", "KeyCount", "LogFigures", "SizeFigures", "StatsResult", "figures_of"]

TOP_KEYS: int = 20


class SizeFigures(msgspec.Struct, frozen=True):
    """A distribution; quantiles are within 1 %, the others exact; None: there was nothing."""

    mean: float | None
    p50: int | None
    p90: int | None
    p99: int | None
    largest: int | None


class KeyCount(msgspec.Struct, frozen=True):
    """A key that comes often."""

    key: str
    """Its first 64 bytes; what is no UTF-8 as \\xNN."""
    count: int
    """At least."""
    error: int
    """At most so many more; 0: the count is exact."""


class CodecShare(msgspec.Struct, frozen=True):
    """What is stored with one codec."""

    codec: str
    batches: int
    records: int
    stored_bytes: int
    raw_bytes: int


class LogFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One partition, or all of a topic."""

    topic: str
    partition: int | None
    """None: all of the topic."""
    records: int
    control_records: int
    """Markers of transactions, which count nowhere else."""
    size_bytes: int
    """As stored."""
    first_offset: int | None
    last_offset: int | None
    gaps: int
    missing_offsets: int
    first_time: datetime | None
    last_time: datetime | None
    untimed: int
    records_per_second: float | None
    """From the first to the last time."""
    bytes_per_second: float | None
    record_bytes: SizeFigures
    """Records decompressed, with all that is theirs: headers, lengths and deltas."""
    batch_bytes: SizeFigures
    batch_records: SizeFigures
    null_keys: int
    null_values: int
    distinct_keys: int
    distinct_keys_error: float
    """Relative standard error; 0: exact."""
    top_keys: list[KeyCount]
    codecs: list[CodecShare]
    compression_ratio: float | None
    out_of_order: int
    late: int
    latest_by_ms: int
    lateness_is_exact: bool
    """If not, the three are too small."""
    damaged_bytes: int


class StatsResult(msgspec.Struct, kw_only=True):
    """What was found out."""

    partitions: list[LogFigures] = []
    topics: list[LogFigures] = []
    segments: int = 0
    size_bytes: int = 0
    """Of the files."""
    written: list[str] = []
    """Files, Parquet and HTML."""
    is_dry_run: bool = False

    @property
    def is_ok(self) -> bool:
        return True

    def rows(self) -> Sequence[dict[str, object]]:
        """Return a row a partition."""
        return [
            {
                "topic": each.topic,
                "partition": each.partition,
                "records": each.records,
                "bytes": each.size_bytes,
                "records_per_s": _short(each.records_per_second),
                "record_p50": each.record_bytes.p50,
                "record_p99": each.record_bytes.p99,
                "batch_p50": each.batch_bytes.p50,
                "keys": each.distinct_keys,
                "codecs": "+".join(share.codec for share in each.codecs) or None,
                "ratio": _short(each.compression_ratio),
                "missing": each.missing_offsets,
                "out_of_order": each.out_of_order,
                "late": each.late,
            }
            for each in self.partitions
        ]

    def sentence(self) -> str:
        files = f"{self.segments:,} segments, {self.size_bytes:,} bytes"
        if self.is_dry_run:
            return f"{files} would be read"
        records = sum(each.records for each in self.partitions)
        damaged = sum(each.damaged_bytes for each in self.partitions)
        said = f"{files}, {records:,} records in {len(self.partitions):,} partitions"
        if self.written:
            said += f"; written: {', '.join(self.written)}"
        if damaged:
            said += f"; {damaged:,} bytes are damaged: `tidelog spark audit` says where"
        return said


def figures_of(topic: str, partition: int | None, found: LogStatistics) -> LogFigures:
    """Return what is said of one partition, or of a topic (partition None)."""
    first_ms, last_ms = found.first_timestamp_ms, found.last_timestamp_ms
    seconds = None
    if first_ms is not None and last_ms is not None and last_ms > first_ms:
        seconds = (last_ms - first_ms) / 1000
    error = found.top_keys.error
    return LogFigures(
        topic=topic,
        partition=partition,
        records=found.records,
        control_records=found.control_records,
        size_bytes=found.size_bytes,
        first_offset=None if partition is None else found.first_offset,
        last_offset=None if partition is None else found.last_offset,
        gaps=found.gaps,
        missing_offsets=found.missing_offsets,
        first_time=_time(first_ms),
        last_time=_time(last_ms),
        untimed=found.untimed,
        records_per_second=found.records / seconds if seconds else None,
        bytes_per_second=found.record_bytes.total / seconds if seconds else None,
        record_bytes=_sizes(found.record_bytes),
        batch_bytes=_sizes(found.batch_bytes),
        batch_records=_sizes(found.batch_records),
        null_keys=found.null_keys,
        null_values=found.null_values,
        distinct_keys=found.distinct_keys,
        distinct_keys_error=found.distinct_keys_error,
        top_keys=[
            KeyCount(each.name.decode("utf-8", "backslashreplace"), each.times, error)
            for each in found.top_keys.top(TOP_KEYS)
        ],
        codecs=[
            CodecShare(codec.name.lower(), *use) for codec, use in sorted(found.codecs.items())
        ],
        compression_ratio=found.compression_ratio,
        out_of_order=found.lateness.out_of_order,
        late=found.lateness.late,
        latest_by_ms=found.lateness.latest_by_ms,
        lateness_is_exact=found.lateness.is_exact,
        damaged_bytes=found.damaged_bytes,
    )


def _sizes(sizes: LogHistogram) -> SizeFigures:
    if not sizes.count:
        return SizeFigures(None, None, None, None, None)
    p50, p90, p99 = (round(sizes.quantile(share) or 0) for share in (0.5, 0.9, 0.99))
    return SizeFigures(sizes.mean, p50, p90, p99, sizes.largest)


def _time(time_ms: int | None) -> datetime | None:
    return None if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC)


def _short(number: float | None) -> float | None:
    return None if number is None else round(number, 2)
