"""Storage metrics: flushes, the disk, recovery and what else data directories go through."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from broker.http.metric_families import counter, counters, gauge, gauges, histogram
from broker.http.metrics_export_cleaner import cleaner_families
from broker.metrics import Metrics, ScrubMetrics, StorageMetrics


def storage_families(metrics: Metrics) -> Iterator[Metric]:
    """Yield what is counted of the disk's side; cheap, whatever the number of partitions."""
    flush, storage = metrics.flush, metrics.storage
    yield histogram(
        "tidelog_flush_duration_seconds", "One group commit, all its files.", flush.latency
    )
    yield counter("tidelog_flushed_logs", "Partitions flushed by them.", flush.files)
    yield counter(
        "tidelog_fsync_failures", "Failed fsyncs; the first ends the process.", flush.failures
    )
    yield counter(
        "tidelog_write_failures", "Appends that the disk refused.", storage.write_failures
    )
    yield counter(
        "tidelog_topics_auto_created",
        "Topics made by producing to them.",
        metrics.topics_auto_created,
    )
    yield gauge("tidelog_recovery_seconds", "What loading took at start.", storage.recovery_seconds)
    yield gauge(
        "tidelog_recovery_truncated_bytes", "Torn tails cut at start.", storage.truncated_bytes
    )
    yield from _recovery_families(storage)
    yield from _directory_families(metrics)
    yield from cleaner_families(metrics.cleaner)
    yield from _scrub_families(metrics.scrub)


def _recovery_families(storage: StorageMetrics) -> Iterator[Metric]:
    """Yield how far a recovery is; all is 0 where the start had little to check."""
    yield gauge(
        "tidelog_recovery_bytes", "What the start has to check of logs.", storage.recovery_bytes
    )
    yield gauge("tidelog_recovery_done_bytes", "What of it was checked.", storage.recovered_bytes)
    yield gauge(
        "tidelog_recovery_partitions", "Partitions with something to check.", storage.recovery_logs
    )
    yield gauge(
        "tidelog_recovery_done_partitions", "Those of them that are done.", storage.recovered_logs
    )


def _scrub_families(scrub: ScrubMetrics) -> Iterator[Metric]:
    """Yield what the search for damage has done, and found."""
    yield counter("tidelog_scrub_bytes", "Looked at for damage.", scrub.bytes_read)
    yield counter("tidelog_scrub_findings", "Stretches of bad bytes found by it.", scrub.findings)
    yield counter("tidelog_scrub_index_findings", "Wrong indexes found.", scrub.index_findings)
    yield counter("tidelog_scrub_failures", "Looks that ended with an error.", scrub.failures)
    yield counter("tidelog_scrub_rounds", "How often all logs were looked at.", scrub.rounds)
    yield gauge(
        "tidelog_scrub_last_round_timestamp_seconds",
        "When that was done the last time; 0: never.",
        scrub.last_round_ms / 1000,
    )
    yield gauge("tidelog_scrub_last_round_seconds", "How long that took.", scrub.last_round_seconds)


def _directory_families(metrics: Metrics) -> Iterator[Metric]:
    """Yield what is known of each data directory's disk."""
    directories = list(metrics.storage.directories())
    yield gauges(
        "tidelog_directory_free_bytes",
        "What may still be written to a data directory's file system.",
        "directory",
        [(each.path, each.free_bytes) for each in directories],
    )
    yield gauges(
        "tidelog_directory_size_bytes",
        "The size of a data directory's file system.",
        "directory",
        [(each.path, each.total_bytes) for each in directories],
    )
    yield gauges(
        "tidelog_directory_reserve_bytes",
        "Below so many free bytes a data directory takes no appends.",
        "directory",
        [(each.path, each.reserve_bytes) for each in directories],
    )
    yield gauges(
        "tidelog_directory_paused",
        "1 while a data directory takes no appends: nearly full, or out of reach.",
        "directory",
        [(each.path, int(each.is_paused)) for each in directories],
    )
    yield counters(
        "tidelog_directory_refused_appends",
        "Appends that were refused meanwhile.",
        "directory",
        [(each.path, each.refused_appends) for each in directories],
    )
