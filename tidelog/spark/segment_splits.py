"""SegmentSplits: the partitions of a data directory, and the splits that hold ranges of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from protocol.identifiers import TopicPartition
from tidelog.segments.errors import DataLossError
from tidelog.segments.location import Location
from tidelog.segments.log_files import PartitionFiles, list_partitions
from tidelog.segments.plan import Split, bounds, offset_for_time, plan
from tidelog.spark.offset_ranges import Bounds, OffsetRange, divide, report_loss
from tidelog.spark.options import SourceOptions

__all__ = ["SegmentSplits"]

T = TypeVar("T")


class SegmentSplits:
    """A data directory as it is when this is made: `Partitions` of `offset_ranges`.

    Where files have gone since, merged by the cleaner or deleted by retention, it is listed again.
    """

    def __init__(self, location: Location, options: SourceOptions) -> None:
        self._location, self._options = location, options
        self._files = self._listed()

    def _listed(self) -> dict[TopicPartition, PartitionFiles]:
        found = list_partitions(self._location)
        return {TopicPartition(each.topic, each.partition): each for each in found}

    def all(self) -> Iterable[TopicPartition]:
        return self._files

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
        def bounds_of(files: PartitionFiles) -> Bounds:
            return Bounds(*bounds(self._location, files, isolation=self._options.isolation))

        found = {each: self._looked_up(each, bounds_of) for each in partitions}
        return {each: there for each, there in found.items() if there is not None}

    def offset_for_time(self, partition: TopicPartition, timestamp_ms: int) -> int | None:
        return self._looked_up(
            partition, lambda files: offset_for_time(self._location, files, timestamp_ms)
        )

    def splits(self, ranges: Sequence[OffsetRange]) -> list[Split]:
        """Return splits that hold the ranges, each offset in one of them: minPartitions or more.

        Raises:
            DataLossError: some of it has gone since the directory was listed, and
                failOnDataLoss=true.
        """
        splits = [split for each in ranges for split in self._planned(each)]
        if ranges and len(splits) < (self._options.min_partitions or 0):
            ranges = divide(ranges, self._options.min_partitions or 1)
            splits = [split for each in ranges for split in self._planned(each)]
        return splits

    def _planned(self, wanted: OffsetRange) -> list[Split]:
        partition, start, end = wanted

        def planned(files: PartitionFiles) -> tuple[int, list[Split]]:
            first = files.segments[0].base_offset if files.segments else end
            begin = max(start, first, files.log_start_offset)
            split_bytes = self._options.split_bytes
            return begin, plan(self._location, files, begin, end, split_bytes=split_bytes)

        begin, splits = self._looked_up(partition, planned) or (end, [])
        if begin > start:
            gone = f"offsets {start} to {min(begin, end) - 1} of {partition} are there no more"
            report_loss(self._options, gone)
        return splits

    def _looked_up(
        self, partition: TopicPartition, look: Callable[[PartitionFiles], T]
    ) -> T | None:
        """Return what a look into a partition's files gives; None if there is no such partition."""
        while (files := self._files.get(partition)) is not None:
            try:
                return look(files)
            except DataLossError:
                listed = self._listed()
                if listed.get(partition) == files:
                    raise
                self._files = listed
        return None
