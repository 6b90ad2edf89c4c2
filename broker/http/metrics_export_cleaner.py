"""Cleaner metrics: compaction, as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from broker.http.metric_families import counter, gauge
from broker.metrics import CleanerMetrics

BACKLOGS_MAX: Final = 1_000
"""Partitions with a backlog of their own in a scrape: those with the most bytes."""


def cleaner_families(cleaner: CleanerMetrics) -> Iterator[Metric]:
    """Yield what is counted of compaction."""
    backlog = cleaner.backlog_bytes
    yield gauge(
        "tidelog_cleaner_backlog_bytes",
        "Bytes of compacted topics that could be cleaned and were not.",
        sum(backlog.values()),
    )
    yield gauge(
        "tidelog_cleaner_dirty_ratio_max", "Of the dirtiest partition.", cleaner.dirty_ratio_max
    )
    yield gauge(
        "tidelog_cleaner_uncleanable_partitions",
        "Partitions whose last cleaning failed; they are tried again.",
        cleaner.uncleanable_logs,
    )
    yield gauge("tidelog_cleaner_running", "1 while a partition is cleaned.", cleaner.is_running)
    yield gauge(
        "tidelog_cleaner_last_run_timestamp_seconds",
        "When a partition was last cleaned; 0: never.",
        cleaner.last_run_ms / 1000,
    )
    yield gauge("tidelog_cleaner_last_run_seconds", "How long that took.", cleaner.last_seconds)
    yield counter("tidelog_cleaner_passes", "Passes over a partition.", cleaner.passes)
    yield counter("tidelog_cleaner_failures", "Cleanings that failed.", cleaner.failures)
    yield counter("tidelog_cleaner_bytes_read", "Read by passes.", cleaner.bytes_read)
    yield counter("tidelog_cleaner_bytes_written", "Written by passes.", cleaner.bytes_written)
    yield counter("tidelog_cleaner_records_read", "Looked at by passes.", cleaner.records_read)
    yield counter("tidelog_cleaner_records_kept", "Kept by passes.", cleaner.records_kept)
    family = GaugeMetricFamily(
        "tidelog_partition_cleanable_bytes",
        "Bytes that could be cleaned and were not, of partitions of compacted topics.",
        labels=["topic", "partition"],
    )
    for topic, partition in sorted(backlog, key=backlog.__getitem__, reverse=True)[:BACKLOGS_MAX]:
        family.add_metric([topic, str(partition)], backlog[topic, partition])
    yield family
