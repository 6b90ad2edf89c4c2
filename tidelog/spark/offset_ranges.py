"""OffsetRanges: which offsets of which partitions a query reads.

The rules are those of Spark's own Kafka source: JSON names each partition that is read; partitions
that appear while a stream runs are read from their first offset; what is gone fails the query,
unless failOnDataLoss=false.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Protocol, TypeAlias

from protocol.identifiers import TopicPartition
from tidelog.segments.errors import DataLossError, OptionError
from tidelog.spark.options import EARLIEST, LATEST, Limit, SourceOptions

__all__ = [
    "Bounds",
    "OffsetRange",
    "Offsets",
    "Partitions",
    "batch_ranges",
    "divide",
    "fair_share",
    "offsets_from_json",
    "offsets_to_json",
    "report_loss",
    "stream_ends",
    "stream_ranges",
    "stream_starts",
    "stream_target",
]

logger: Final = logging.getLogger(__name__)

Offsets: TypeAlias = Mapping[TopicPartition, int]
"""Of each partition the next offset to read."""
JsonOffsets: TypeAlias = dict[str, dict[str, int]]


class Bounds(NamedTuple):
    """What of a partition can be read."""

    earliest: int
    end: int
    """One above the last."""


class OffsetRange(NamedTuple):
    """Offsets of one partition, the end not among them."""

    partition: TopicPartition
    start: int
    end: int


class Partitions(Protocol):
    """What there is to read: a broker's topics, or a directory's."""

    def all(self) -> Iterable[TopicPartition]:
        """Return all partitions there are."""

    def bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """Return the offsets that each of these has; those that are gone are left out."""

    def offset_for_time(self, partition: TopicPartition, timestamp_ms: int) -> int | None:
        """Return the first offset whose record is as late as that; None if there is none."""


def batch_ranges(options: SourceOptions, partitions: Partitions) -> list[OffsetRange]:
    """Return what a batch query reads, without partitions that have nothing of it.

    Raises:
        OptionError: the options do not fit each other, or the partitions there are.
        DataLossError: offsets that were asked for are not there.
    """
    starting, ending = options.batch_limits()
    chosen = _chosen(options, partitions)
    bounds = partitions.bounds(chosen)
    _report_gone(options, chosen, bounds)
    starts = _resolved("starting", starting, options, partitions, bounds)
    ends = _resolved("ending", ending, options, partitions, bounds)
    ranges = [OffsetRange(each, starts[each], ends[each]) for each in sorted(bounds)]
    return _there(ranges, bounds, options)


def stream_starts(options: SourceOptions, partitions: Partitions) -> Offsets:
    """Return where a stream without a checkpoint begins. Raises as `batch_ranges`."""
    starting = options.stream_start()
    bounds = partitions.bounds(_chosen(options, partitions))
    return _resolved("starting", starting, options, partitions, bounds)


def stream_ends(
    options: SourceOptions, partitions: Partitions, starts: Offsets
) -> tuple[Offsets, Offsets]:
    """Return where all there is begins and ends, for a stream that has read up to `starts`.

    Begins are `starts`, and the first offsets of partitions that are new since. No end is below
    its begin.

    Raises:
        DataLossError: a partition is gone, or shorter than what was read of it.
    """
    bounds = partitions.bounds(_chosen(options, partitions, known=starts))
    _report_gone(options, starts, bounds)
    begins = {each: starts.get(each, bounds[each].earliest) for each in sorted(bounds)}
    for partition, begin in begins.items():
        end = bounds[partition].end
        if begin > end:
            report_loss(options, f"{partition} was read up to {begin} and ends at {end} now")
    return begins, {each: max(begins[each], bounds[each].end) for each in begins}


def stream_target(options: SourceOptions, partitions: Partitions) -> Offsets:
    """Return where all there is ends; what is missing `stream_ends` tells."""
    selected = [each for each in partitions.all() if options.selects(each)]
    return {each: there.end for each, there in partitions.bounds(selected).items()}


def stream_ranges(
    options: SourceOptions, partitions: Partitions, starts: Offsets, ends: Offsets
) -> list[OffsetRange]:
    """Return what one micro-batch reads: the same for the same offsets, as long as it is there.

    Raises:
        DataLossError: some of it is not there any more.
    """
    grown = [each for each in sorted(ends) if ends[each] > starts.get(each, 0)]
    if not grown:
        return []
    bounds = partitions.bounds(grown)
    _report_gone(options, grown, bounds)
    ranges = [
        OffsetRange(each, starts.get(each, 0), ends[each]) for each in grown if each in bounds
    ]
    return _there(ranges, bounds, options)


def fair_share(starts: Offsets, ends: Offsets, offsets_max: int) -> Offsets:
    """Return ends at most about `offsets_max` above the starts in all, each in proportion."""
    lengths = {each: ends[each] - starts[each] for each in ends}
    total = sum(lengths.values())
    if total <= offsets_max:
        return ends
    shares = {each: length * offsets_max // total for each, length in lengths.items()}
    return {each: starts[each] + max(shares[each], min(1, lengths[each])) for each in ends}


def divide(ranges: Sequence[OffsetRange], count_min: int) -> list[OffsetRange]:
    """Return the same offsets in about `count_min` ranges at least, none of them empty."""
    total = sum(each.end - each.start for each in ranges)
    divided: list[OffsetRange] = []
    for partition, start, end in ranges:
        length = end - start
        count = min(length, -(-length * count_min // total))  # rounded up
        cuts = [start + length * n // count for n in range(count + 1)]
        divided += [OffsetRange(partition, *cut) for cut in pairwise(cuts)]
    return divided


def offsets_to_json(offsets: Offsets) -> JsonOffsets:
    """Return `{"web-logs": {"0": 42}}`, in order: Spark compares offsets as text."""
    topics: JsonOffsets = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def offsets_from_json(topics: JsonOffsets) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, each in topics.items()
        for partition, offset in each.items()
    }


def report_loss(options: SourceOptions, what: str) -> None:
    """Raise DataLossError; with failOnDataLoss=false only warn."""
    if options.fail_on_data_loss:
        raise DataLossError(f"{what}; failOnDataLoss=false goes on with what there is")
    logger.warning("%s; the query goes on, for failOnDataLoss=false", what)


def _report_gone(
    options: SourceOptions,
    wanted: Iterable[TopicPartition],
    there: Mapping[TopicPartition, Bounds],
) -> None:
    gone = [each for each in wanted if each not in there]
    if gone:
        report_loss(options, f"{_names(gone)} is there no more")


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))


def _chosen(
    options: SourceOptions, partitions: Partitions, known: Iterable[TopicPartition] = ()
) -> list[TopicPartition]:
    """Return what the options choose of what is there.

    Args:
        known: What was there before: if it is gone that is loss, and no wrong option.
    """
    there = sorted(partitions.all())
    were_there = {*there, *known}
    topics = {each.topic for each in were_there}
    missing = [topic for topic in options.topics or () if topic not in topics]
    if options.assigned is not None:
        missing = [str(each) for each in options.assigned if each not in were_there]
    if missing:
        names = sorted({each.topic for each in there})
        raise OptionError(f"{', '.join(missing)} is not there; there is {', '.join(names)}")
    return [each for each in there if options.selects(each)]


def _resolved(
    side: str,
    limit: Limit,
    options: SourceOptions,
    partitions: Partitions,
    bounds: Mapping[TopicPartition, Bounds],
) -> Offsets:
    """Return the offset of each partition at which one side of the read lies."""
    if limit.everywhere is None and limit.by_partition.keys() != bounds.keys():
        missing, other = bounds.keys() - limit.by_partition, limit.by_partition.keys() - bounds
        problem = f"lacks {_names(missing)}" if missing else f"has {_names(other)} as well"
        raise OptionError(
            f"the JSON of the {side} offsets must name the partitions read: it {problem}"
        )
    resolved: dict[TopicPartition, int] = {}
    for partition, there in bounds.items():
        wanted = limit.everywhere
        if wanted is None:
            wanted = limit.by_partition[partition]
        if limit.kind == "offset":
            resolved[partition] = {EARLIEST: there.earliest, LATEST: there.end}.get(wanted, wanted)
            continue
        offset = partitions.offset_for_time(partition, wanted)
        if offset is None and side == "starting" and options.later_strategy == "error":
            raise OptionError(
                f"{partition} has no record as late as {wanted} ms; "
                "startingOffsetsByTimestampStrategy=latest begins at its end"
            )
        resolved[partition] = there.end if offset is None else min(offset, there.end)
    return resolved


def _there(
    ranges: Iterable[OffsetRange], bounds: Mapping[TopicPartition, Bounds], options: SourceOptions
) -> list[OffsetRange]:
    """Return what is there of the ranges, without empty ones; fail if that is not all of them."""
    found: list[OffsetRange] = []
    for partition, start, end in ranges:
        earliest, there_end = bounds[partition]
        if start < earliest or max(start, end) > there_end:
            report_loss(
                options,
                f"offsets {start} to {end - 1} of {partition} were asked for, it has "
                f"{earliest} to {there_end - 1}",
            )
        start, end = max(start, earliest), min(end, there_end)
        if start < end:
            found.append(OffsetRange(partition, start, end))
    return found
