"""Metrics: what the daemon counts of itself.

Counting is on the hot path, so it is plain attributes of plain objects, written from the event
loop's thread only: `metrics.requests("native", "produce")` is looked up once, then its numbers are
bumped. Prometheus appears in `metrics_export`, which reads these objects at a scrape.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from broker.storage.disk_guard import DirectorySample

LATENCY_BOUNDS_SECONDS: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
"""Upper bounds of latency buckets: from a produce answered from memory to a stuck disk."""


class LatencyHistogram:
    """Counts of durations by bucket, with their number and sum."""

    __slots__ = ("bucket_counts", "count", "seconds_sum")

    def __init__(self) -> None:
        self.bucket_counts = [0] * (len(LATENCY_BOUNDS_SECONDS) + 1)
        """One for each bound (durations at or below it and above the one before), one beyond."""
        self.count = 0
        self.seconds_sum = 0.0

    def observe(self, seconds: float, count: int = 1) -> None:
        """Note `count` durations of `seconds` each."""
        self.bucket_counts[bisect_left(LATENCY_BOUNDS_SECONDS, seconds)] += count
        self.count += count
        self.seconds_sum += seconds * count


class RequestMetrics:
    """Requests of one type of one API."""

    __slots__ = ("count", "errors", "latency")

    def __init__(self) -> None:
        self.count = 0
        """Requests taken in; those waiting for an answer are among them."""
        self.errors: Counter[int] = Counter()
        """Answers by error code, NONE (0) left out; one for each partition that failed."""
        self.latency = LatencyHistogram()
        """From the whole request to its answer, waiting for commits and long polls included."""


class FlushMetrics:
    """Bytes on their way to the disk."""

    __slots__ = ("failures", "files", "groups", "latency")

    def __init__(self) -> None:
        self.latency = LatencyHistogram()
        """One group commit: every file of it synced."""
        self.groups = 0
        self.files = 0
        """Logs flushed; each group has one or more."""
        self.failures = 0
        """Failed fsyncs. The first one ends the process."""


class StorageMetrics:
    """What happened to data directories."""

    __slots__ = (
        "directories", "recovered_bytes", "recovered_logs", "recovery_bytes", "recovery_logs",
        "recovery_seconds", "truncated_bytes", "write_failures",
    )  # fmt: skip

    def __init__(self) -> None:
        self.recovery_seconds = 0.0
        """What loading and recovering took at start."""
        self.truncated_bytes = 0
        """Bytes of torn tails cut at start."""
        self.recovery_bytes = self.recovered_bytes = 0
        """What a recovery in worker processes had to check at start, and has checked so far."""
        self.recovery_logs = self.recovered_logs = 0
        """The same in logs."""
        self.write_failures = 0
        """Appends that the disk refused (no space, for one); nothing of them was kept."""
        self.directories: Callable[[], Iterable[DirectorySample]] = tuple
        """Gives every data directory that is there; set once they are open."""


class CleanerMetrics:
    """Compaction."""

    __slots__ = (
        "backlog_bytes", "bytes_read", "bytes_written", "dirty_ratio_max", "failures", "is_running",
        "last_run_ms", "last_seconds", "passes", "records_kept", "records_read",
        "uncleanable_logs",
    )  # fmt: skip

    def __init__(self) -> None:
        self.backlog_bytes: dict[tuple[str, int], int] = {}
        """What could be cleaned and was not, by topic and partition, of compacted topics."""
        self.dirty_ratio_max = 0.0
        """Of the dirtiest log."""
        self.passes = 0
        self.failures = 0
        """Passes that ended with an error."""
        self.uncleanable_logs = 0
        """Those that failed the last time and will be tried again."""
        self.bytes_read = 0
        self.bytes_written = 0
        self.records_read = 0
        self.records_kept = 0
        self.is_running = False
        self.last_run_ms = 0
        """When a log was last worked on, wall clock; 0: never."""
        self.last_seconds = 0.0
        """How long that took."""


class ScrubMetrics:
    """Looking for damage before somebody reads it."""

    __slots__ = (
        "bytes_read", "failures", "findings", "index_findings", "last_round_ms",
        "last_round_seconds", "rounds",
    )  # fmt: skip

    def __init__(self) -> None:
        self.bytes_read = 0
        self.findings = 0
        """Stretches of bad bytes that nobody knew of."""
        self.index_findings = 0
        """Segments with an index that was not right."""
        self.failures = 0
        """Looks at a segment that ended with an error."""
        self.rounds = 0
        """How often every log was looked at."""
        self.last_round_ms = 0
        """When the last round was over, wall clock; 0: none was yet."""
        self.last_round_seconds = 0.0
        """How long that one took."""


class PartitionSample(NamedTuple):
    """One partition at the moment of a scrape; counters are since the start of the process."""

    topic: str
    partition: int
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    durable_offset: int
    size_bytes: int
    segment_count: int
    bytes_in: int
    messages_in: int
    bytes_out: int
    messages_out: int
    damaged_ranges: int = 0


class Metrics:
    """Everything that is counted, in one object that is handed to whoever counts."""

    __slots__ = (
        "_requests",
        "cleaner",
        "connections_closed",
        "connections_open",
        "flush",
        "is_accepting",
        "loop_lag",
        "partition_samples",
        "receive_buffer_bytes",
        "scrub",
        "storage",
        "topics_auto_created",
    )

    def __init__(self) -> None:
        self.connections_open: Callable[[], int] = int
        self.connections_closed: Counter[str] = Counter()
        """Connections that ended, by reason: a few fixed words, never text from a client."""
        self.is_accepting: Callable[[], bool] = lambda: True
        """False while there are no file descriptors for new connections."""
        self.receive_buffer_bytes: Callable[[], int] = int
        self.flush = FlushMetrics()
        self.storage = StorageMetrics()
        self.cleaner = CleanerMetrics()
        self.scrub = ScrubMetrics()
        self.loop_lag = LatencyHistogram()
        """How late a timer of the event loop fires: what a request may have to wait."""
        self.topics_auto_created = 0
        self._requests: dict[tuple[str, str], RequestMetrics] = {}
        self.partition_samples: Callable[[], Iterable[PartitionSample]] = tuple
        """Gives every partition, topic by topic; set once the partitions are loaded."""

    def requests(self, api: str, name: str) -> RequestMetrics:
        """Return the metrics of request type `name` of `api`; keep it, do not ask each time."""
        return self._requests.setdefault((api, name), RequestMetrics())

    def connection_closed(self, reason: str) -> None:
        """Note that a connection ended; `reason` is one of a few fixed words."""
        self.connections_closed[reason] += 1

    def request_types(self) -> Iterable[tuple[str, str, RequestMetrics]]:
        """Yield (api, name, metrics) of every request type that was asked for."""
        for (api, name), metrics in list(self._requests.items()):
            yield api, name, metrics
