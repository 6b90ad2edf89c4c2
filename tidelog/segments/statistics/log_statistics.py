"""LogStatistics: what can be said of a stretch of a partition in little room, and merged."""

from __future__ import annotations

from typing import NamedTuple

from protocol.compression import Codec
from tidelog.segments.statistics.sketches.heavy_hitters import HeavyHitters
from tidelog.segments.statistics.sketches.hyperloglog import STANDARD_ERROR, HyperLogLog
from tidelog.segments.statistics.sketches.lateness import Lateness
from tidelog.segments.statistics.sketches.log_histogram import LogHistogram
from tidelog.segments.statistics.sketches.time_buckets import TimeBuckets

__all__ = ["CodecUse", "LogStatistics", "StatisticsAim"]


class StatisticsAim(NamedTuple):
    """What is looked at, and how finely."""

    bucket_ms: int = 60_000
    """Width of the intervals of rates."""
    late_ms: int = 60_000
    """A record is late if it is older than one before it by more than this."""
    start_timestamp_ms: int | None = None
    """Records of an earlier time are left out."""
    end_timestamp_ms: int | None = None
    """So are those of this time or a later one."""


class CodecUse(NamedTuple):
    """What is stored with one codec."""

    batches: int = 0
    records: int = 0
    stored_bytes: int = 0
    """Of the records as they are stored, without the headers of batches."""
    raw_bytes: int = 0
    """Of the records, decompressed."""

    def plus(self, other: CodecUse) -> CodecUse:
        """Return the sums of both."""
        return CodecUse(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class LogStatistics:
    """Figures and sketches of records in the order of their offsets; it pickles."""

    def __init__(self, aim: StatisticsAim) -> None:
        self.records = self.control_records = 0
        self.null_keys = self.null_values = 0
        self.untimed = 0
        """Records whose timestamp is below 0 or beyond the year 9999."""
        self.size_bytes = self.damaged_bytes = 0
        """Of batches, whole, in which there is a record that counts; of what cannot be read."""
        self.first_offset: int | None = None
        self.last_offset: int | None = None
        self.gaps = self.missing_offsets = 0
        """Between batches; and in all, also those that compaction took out of batches."""
        self.first_timestamp_ms: int | None = None
        self.last_timestamp_ms: int | None = None
        self.record_bytes, self.batch_bytes = LogHistogram(), LogHistogram()
        self.batch_records = LogHistogram()
        self.keys, self.top_keys = HyperLogLog(), HeavyHitters()
        self.rates = TimeBuckets(aim.bucket_ms)
        self.lateness = Lateness(aim.late_ms)
        self.codecs: dict[Codec, CodecUse] = {}

    def append(self, other: LogStatistics) -> None:
        """Take note of what comes next in the same partition."""
        if self.last_offset is not None and other.first_offset is not None:
            missing = other.first_offset - self.last_offset - 1
            self.gaps += missing > 0
            self.missing_offsets += max(missing, 0)
        if self.first_offset is None:
            self.first_offset = other.first_offset
        if other.last_offset is not None:
            self.last_offset = other.last_offset
        self.lateness.append(other.lateness)
        self._merge(other)

    def merge(self, other: LogStatistics) -> None:
        """Take note of another partition; offsets of several say nothing."""
        self.lateness.merge(other.lateness)
        self._merge(other)

    def _merge(self, other: LogStatistics) -> None:
        self.records += other.records
        self.control_records += other.control_records
        self.null_keys += other.null_keys
        self.null_values += other.null_values
        self.untimed += other.untimed
        self.size_bytes += other.size_bytes
        self.damaged_bytes += other.damaged_bytes
        self.gaps += other.gaps
        self.missing_offsets += other.missing_offsets
        self.see_times(other.first_timestamp_ms, other.last_timestamp_ms)
        self.record_bytes.merge(other.record_bytes)
        self.batch_bytes.merge(other.batch_bytes)
        self.batch_records.merge(other.batch_records)
        self.keys.merge(other.keys)
        self.top_keys.merge(other.top_keys)
        self.rates.merge(other.rates)
        for codec, use in other.codecs.items():
            self.see_codec(codec, use)

    def see_times(self, first_ms: int | None, last_ms: int | None) -> None:
        """Take note of the smallest and the largest of some timestamps; None: there are none."""
        if first_ms is None or last_ms is None:
            return
        if self.first_timestamp_ms is None or self.last_timestamp_ms is None:
            self.first_timestamp_ms, self.last_timestamp_ms = first_ms, last_ms
        self.first_timestamp_ms = min(self.first_timestamp_ms, first_ms)
        self.last_timestamp_ms = max(self.last_timestamp_ms, last_ms)

    def see_codec(self, codec: Codec, use: CodecUse) -> None:
        """Take note of batches of a codec."""
        self.codecs[codec] = self.codecs.get(codec, CodecUse()).plus(use)

    @property
    def distinct_keys(self) -> int:
        """How many keys there are: exact while all have a counter, else an estimate."""
        if self.top_keys.error == 0:
            return len(self.top_keys)
        return round(self.keys.estimate())

    @property
    def distinct_keys_error(self) -> float:
        """The relative standard error of that; 0: it is exact."""
        return 0.0 if self.top_keys.error == 0 else STANDARD_ERROR

    @property
    def compression_ratio(self) -> float | None:
        """Bytes of records for each byte that is stored; None without any."""
        stored = sum(use.stored_bytes for use in self.codecs.values())
        return sum(use.raw_bytes for use in self.codecs.values()) / stored if stored else None
