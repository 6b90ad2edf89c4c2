"""Metric families: the few shapes in which the daemon's counts become Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from broker.metrics import LATENCY_BOUNDS_SECONDS, LatencyHistogram

_BOUNDS: Final = (*(str(bound) for bound in LATENCY_BOUNDS_SECONDS), "+Inf")


def gauge(name: str, text: str, value: float) -> Metric:
    """Return a value that goes up and down."""
    return GaugeMetricFamily(name, text, value=value)


def gauges(name: str, text: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
    """Return values that go up and down, one for each value of a label."""
    family = GaugeMetricFamily(name, text, labels=[label])
    for text_of_label, value in values:
        family.add_metric([text_of_label], value)
    return family


def counter(name: str, text: str, value: float) -> Metric:
    """Return a value that only grows; Prometheus adds `_total` to its name."""
    return CounterMetricFamily(name, text, value=value)


def counters(name: str, text: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
    """Return values that only grow, one for each value of a label."""
    family = CounterMetricFamily(name, text, labels=[label])
    for text_of_label, value in values:
        family.add_metric([text_of_label], value)
    return family


def histogram(name: str, text: str, observed: LatencyHistogram) -> Metric:
    """Return durations by bucket."""
    family = HistogramMetricFamily(name, text)
    family.add_metric([], *buckets(observed))
    return family


def buckets(observed: LatencyHistogram) -> tuple[list[tuple[str, float]], float]:
    """Return cumulative (bound, count) pairs and the sum, as Prometheus wants them."""
    pairs: list[tuple[str, float]] = []
    seen = 0
    for bound, count in zip(_BOUNDS, observed.bucket_counts, strict=True):
        seen += count
        pairs.append((bound, seen))
    return pairs, observed.seconds_sum
