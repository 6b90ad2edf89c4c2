"""Filters: what of a query's conditions tells which records need not be read at all.

Spark pushes filters only where spark.sql.python.filterPushdown.enabled is true, and refuses a
reader that could take them where it is not. It asks in a process of its own for that: so a reader
takes filters if it is made in that process, and then only. All filters are left to Spark as well.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from protocol.errors import BrokerError, ErrorCode
from protocol.identifiers import TopicPartition
from protocol.limits import INT64_MAX
from tidelog.spark.offset_ranges import OffsetRange, Partitions

__all__ = ["Pushed", "are_asked_for", "pushed"]

PUSHING_MODULE: Final = "pyspark.sql.worker.data_source_pushdown_filters"
EPOCH: Final = datetime(1970, 1, 1)
T = TypeVar("T", str, int)


class Interval(NamedTuple):
    """Whole numbers, the end not among them."""

    start: int = -INT64_MAX
    end: int = INT64_MAX

    def and_(self, other: Interval) -> Interval:
        return Interval(max(self.start, other.start), min(self.end, other.end))


class Pushed(msgspec.Struct, frozen=True):
    """The records that can meet all conditions, and perhaps some others."""

    topics: frozenset[str] | None = None
    """None: any."""
    partitions: frozenset[int] | None = None
    partition: Interval = Interval()
    offset: Interval = Interval()
    timestamp_us: Interval = Interval()

    def selects(self, partition: TopicPartition) -> bool:
        return (
            (self.topics is None or partition.topic in self.topics)
            and (self.partitions is None or partition.partition in self.partitions)
            and self.partition.start <= partition.partition < self.partition.end
        )

    def narrowed(self, wanted: OffsetRange, partitions: Partitions) -> OffsetRange | None:
        """Return the offsets of a range that need to be read; None if none of them does."""
        partition, start, end = wanted
        if not self.selects(partition):
            return None
        start, end = max(start, self.offset.start), min(end, self.offset.end)
        if start < end and self.start_timestamp_ms is not None:
            first = _offset_for_time(partitions, partition, self.start_timestamp_ms, end)
            start = max(start, first)
        return OffsetRange(partition, start, end) if start < end else None

    @property
    def start_timestamp_ms(self) -> int | None:
        """Records before it are not wanted."""
        start = self.timestamp_us.start
        return None if start == Interval().start else -(-start // 1_000)

    @property
    def end_timestamp_ms(self) -> int | None:
        """Nor are these from it on."""
        end = self.timestamp_us.end
        return None if end == Interval().end else -(-end // 1_000)


def _offset_for_time(
    partitions: Partitions, partition: TopicPartition, timestamp_ms: int, end: int
) -> int:
    try:
        found = partitions.offset_for_time(partition, timestamp_ms)
    except BrokerError as error:
        if error.number != ErrorCode.CORRUPT_MESSAGE:
            raise
        return 0  # what becomes of the damage on the way the read decides
    return end if found is None else found


def are_asked_for() -> bool:
    """Say whether this process was started to push filters into a reader."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return PUSHING_MODULE in sys.modules or (spec is not None and spec.name == PUSHING_MODULE)


def pushed(filters: Iterable[Any], *, with_offsets: bool = True) -> Pushed:
    """Return what filters of Spark's leave; those that say nothing here are passed over.

    Args:
        with_offsets: Not with rows of damage: these have the first offset that is read of what
            they hide, which would be another one.
    """
    found = Pushed()
    for each in filters:
        column, kind = each.attribute if hasattr(each, "attribute") else (), type(each).__name__
        if column == ("topic",):
            found = _with(found, topics=_either(found.topics, _listed(kind, each, str)))
        elif column == ("partition",):
            chosen = _either(found.partitions, _listed(kind, each, int))
            interval = found.partition.and_(_interval(kind, each))
            found = _with(found, partitions=chosen, partition=interval)
        elif column == ("offset",) and with_offsets:
            found = _with(found, offset=found.offset.and_(_interval(kind, each)))
        elif column == ("timestamp",):
            found = _with(found, timestamp_us=found.timestamp_us.and_(_interval(kind, each)))
    return found


def _with(found: Pushed, **fields: Any) -> Pushed:
    return msgspec.structs.replace(found, **fields)


def _listed(kind: str, each: Any, of: type[T]) -> frozenset[T] | None:
    """Return the values that a filter allows, if it lists them."""
    values = [each.value] if kind in ("EqualTo", "EqualNullSafe") else []
    if kind == "In":
        values = list(each.value)
    return frozenset(value for value in values if isinstance(value, of)) if values else None


def _either(one: frozenset[T] | None, other: frozenset[T] | None) -> frozenset[T] | None:
    if one is None or other is None:
        return one if other is None else other
    return one & other


def _interval(kind: str, each: Any) -> Interval:
    """Return the numbers, or microseconds, that a filter allows."""
    if kind == "In":
        numbers = [number for value in each.value if (number := _number(value)) is not None]
        return Interval(min(numbers), max(numbers) + 1) if numbers else Interval()
    number = _number(getattr(each, "value", None))
    if number is None:
        return Interval()
    return {
        "EqualTo": Interval(number, number + 1),
        "EqualNullSafe": Interval(number, number + 1),
        "GreaterThan": Interval(start=number + 1),
        "GreaterThanOrEqual": Interval(start=number),
        "LessThan": Interval(end=number),
        "LessThanOrEqual": Interval(end=number + 1),
    }.get(kind, Interval())


def _number(value: Any) -> int | None:
    if isinstance(value, int):
        return value
    if isinstance(value, datetime) and value.tzinfo is not None:
        since = value.replace(tzinfo=None) - value.utcoffset() - EPOCH  # type: ignore[operator]
        return since // timedelta(microseconds=1)
    return None
