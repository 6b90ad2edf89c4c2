"""Metrics export: the daemon's own counts as Prometheus metrics, at the moment of a scrape.

Names begin with `tidelog_` and end in their unit. The registry is the broker's own, so nothing
that a library registers globally leaks in. A scrape of thousands of partitions is written in
slices of a few milliseconds, so that clients are served in between.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from broker.health import Health
from broker.http.metric_families import buckets, gauge, histogram
from broker.http.metrics_export_storage import storage_families
from broker.metrics import Metrics, PartitionSample
from broker.topic_labels import TopicLabels
from protocol.error_codes import ErrorCode

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
SAMPLES_PER_SLICE: Final = 100

Item = TypeVar("Item")

_TOPIC_COUNTERS: Final = (
    ("bytes_in", "Bytes of record batches appended, as stored."),
    ("messages_in", "Records appended."),
    ("bytes_out", "Bytes of record batches fetched, as stored."),
    ("messages_out", "Records fetched, where the broker had to look at them (formats 0 and 1)."),
)
_PARTITION_GAUGES: Final = (
    ("log_start_offset", "log_start_offset", "The first offset there is."),
    ("high_watermark", "high_watermark", "Everything below is committed and visible."),
    ("log_end_offset", "log_end_offset", "The next offset to be written."),
    ("durable_offset", "durable_offset", "Everything below has been synced to the disk."),
    ("size_bytes", "size_bytes", "Bytes of all log files."),
    ("segments", "segment_count", "Log files."),
    ("damaged_ranges", "damaged_ranges", "Stretches whose reads answer CORRUPT_MESSAGE."),
)


class Snapshot:
    """All partitions at one moment, summed by topic; filled sample by sample, so that a caller may
    let the loop turn in between."""

    def __init__(self) -> None:
        self.samples: list[PartitionSample] = []
        self.size_bytes = 0
        self._counts: dict[str, list[int]] = {}

    def add(self, sample: PartitionSample) -> None:
        self.samples.append(sample)
        self.size_bytes += sample.size_bytes
        counts = self._counts.get(sample.topic)
        if counts is None:
            counts = self._counts[sample.topic] = [0, 0, 0, 0]
        counts[0] += sample.bytes_in
        counts[1] += sample.messages_in
        counts[2] += sample.bytes_out
        counts[3] += sample.messages_out

    def counts_by_topic(self) -> dict[str, tuple[int, ...]]:
        """Return the sums of `_TOPIC_COUNTERS`, in their order."""
        return {topic: tuple(counts) for topic, counts in self._counts.items()}


class BrokerCollector(Collector):
    """Turns `Metrics` into metric families. One with very many samples comes in pieces of one name,
    each made when it is asked for."""

    def __init__(
        self,
        metrics: Metrics,
        health: Health,
        *,
        version: str,
        labels: TopicLabels,
        partitions_max: int,
    ) -> None:
        self._metrics, self._health, self._version = metrics, health, version
        self._labels, self._partitions_max = labels, partitions_max
        self.snapshot: Snapshot | None = None
        """The partitions to show; None: look at them at the time."""

    def collect(self) -> Iterator[Metric]:
        yield from self._of_process()
        yield from self._of_requests()
        yield from self._of_connections()
        yield from storage_families(self._metrics)
        snapshot = self.snapshot
        if snapshot is None:
            snapshot = Snapshot()
            for sample in self._metrics.partition_samples():
                snapshot.add(sample)
        yield from self._of_topics(snapshot)
        yield from self._of_partitions(snapshot)

    def _of_process(self) -> Iterator[Metric]:
        loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
        facts = {"version": self._version, "python": platform.python_version(), "loop": loop}
        yield InfoMetricFamily("tidelog_build", "What is running.", value=facts)
        yield gauge("tidelog_ready", "1 while clients are served.", int(self._health.is_ready))
        yield gauge(
            "tidelog_degraded",
            "Things that do not work while the rest does; /readyz names them.",
            len(self._health.problems()),
        )
        yield histogram(
            "tidelog_event_loop_lag_seconds",
            "How late timers fire: what any request may have to wait.",
            self._metrics.loop_lag,
        )

    def _of_requests(self) -> Iterator[Metric]:
        names = ["api", "type"]
        total = CounterMetricFamily("tidelog_requests", "Requests taken in.", labels=names)
        errors = CounterMetricFamily(
            "tidelog_request_errors",
            "Answers with an error, by partition and error.",
            labels=[*names, "error"],
        )
        latency = HistogramMetricFamily(
            "tidelog_request_duration_seconds",
            "From the whole request to its answer, commits and long polls included.",
            labels=names,
        )
        for api, name, request in self._metrics.request_types():
            total.add_metric([api, name], request.count)
            latency.add_metric([api, name], *buckets(request.latency))
            for code, count in request.errors.items():
                errors.add_metric([api, name, _error_name(code)], count)
        yield total
        yield errors
        yield latency

    def _of_connections(self) -> Iterator[Metric]:
        metrics = self._metrics
        yield gauge("tidelog_connections_open", "Client connections.", metrics.connections_open())
        closed = CounterMetricFamily(
            "tidelog_connections_closed",
            "Client connections that ended, by reason.",
            labels=["reason"],
        )
        for reason, count in metrics.connections_closed.items():
            closed.add_metric([reason], count)
        yield closed
        yield gauge(
            "tidelog_accepting",
            "0 while there are no file descriptors for new connections: they wait.",
            int(metrics.is_accepting()),
        )
        yield gauge(
            "tidelog_receive_buffers_bytes",
            "Memory of requests that are being received.",
            metrics.receive_buffer_bytes(),
        )

    def _of_topics(self, snapshot: Snapshot) -> Iterator[Metric]:
        counts = snapshot.counts_by_topic()
        yield gauge("tidelog_topics", "Topics.", len(counts))
        yield gauge("tidelog_partitions", "Partitions that are open.", len(snapshot.samples))
        yield gauge("tidelog_log_size_bytes", "Bytes of all log files.", snapshot.size_bytes)
        by_label = list(self._labels.by_label(counts).items())
        for position, (name, text) in enumerate(_TOPIC_COUNTERS):
            for piece in _pieces(by_label):
                family = CounterMetricFamily(f"tidelog_topic_{name}", text, labels=["topic"])
                for label, values in piece:
                    family.add_metric([label], values[position])
                yield family

    def _of_partitions(self, snapshot: Snapshot) -> Iterator[Metric]:
        is_labelled = self._labels.is_labelled
        shown = [sample for sample in snapshot.samples if is_labelled(sample.topic)]
        del shown[self._partitions_max :]
        for name, field, text in _PARTITION_GAUGES:
            for piece in _pieces(shown):
                family = GaugeMetricFamily(
                    f"tidelog_partition_{name}", text, labels=["topic", "partition"]
                )
                for sample in piece:
                    labels = [sample.topic, str(sample.partition)]
                    family.add_metric(labels, getattr(sample, field))
                yield family


class Exporter:
    """The registry and the text of a scrape."""

    def __init__(
        self,
        metrics: Metrics,
        health: Health,
        *,
        version: str,
        topics_max: int,
        partitions_max: int,
    ) -> None:
        self._metrics = metrics
        self.collector = BrokerCollector(
            metrics,
            health,
            version=version,
            labels=TopicLabels(topics_max),
            partitions_max=partitions_max,
        )
        self.registry = CollectorRegistry()
        self.registry.register(self.collector)
        ProcessCollector(registry=self.registry)
        self._scraping = asyncio.Lock()

    async def text(self) -> bytes:
        """Return the exposition, letting the loop turn every few milliseconds."""
        async with self._scraping:  # one at a time: each takes memory and turns
            snapshot = Snapshot()
            for number, sample in enumerate(self._metrics.partition_samples(), start=1):
                snapshot.add(sample)
                if number % SAMPLES_PER_SLICE == 0:
                    await asyncio.sleep(0)
            self.collector.snapshot = snapshot
            parts: list[bytes] = []
            name = ""
            for family in self.registry.collect():
                text: bytes = generate_latest(_OneFamily(family))
                parts.append(text if family.name != name else _without_heading(text))
                name = family.name
                await asyncio.sleep(0)
            self.collector.snapshot = None
            return b"".join(parts)


class _OneFamily:
    """As much of a registry as `generate_latest` needs."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> list[Metric]:
        return [self._family]


def _pieces(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Yield `items` in slices; an empty one if there are none."""
    for start in range(0, max(1, len(items)), SAMPLES_PER_SLICE):
        yield items[start : start + SAMPLES_PER_SLICE]


def _without_heading(text: bytes) -> bytes:
    return b"".join(line for line in text.splitlines(True) if not line.startswith(b"# "))


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
