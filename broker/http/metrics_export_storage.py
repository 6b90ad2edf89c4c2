"""Storage metrics: flushes, the disk, recovery and what else data directories go through."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from broker.http.metric_families import counter, gauge, histogram
from broker.metrics import Metrics


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
