"""SegmentSplits: the partitions of a data directory, and the splits that hold ranges of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from protocol.identifiers import TopicPartition
from tidelog.segments.errors import DataLossError
from tidelog.segments.location import Location
from tidelog.segments.log_files import PartitionFiles, list_partitions
from tidelog.segments.plan import Split, bounds, offset_for_time, plan
from tidelog.spark.offset_ranges import Bounds, OffsetRange, divide
from tidelog.spark.options import SourceOptions

__all__ = ["SegmentSplits"]

logger: Final = logging.getLogger(__name__)
T = TypeVar("T")


class SegmentSplits:
    """A data directory as it is when this is made: `Partitions` of `offset_ranges`."""

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

        return {each: self._looked_up(each, bounds_of) for each in partitions}

    def offset_for_time(self, partition: TopicPartition, timestamp_ms: int) -> int | None:
        return self._looked_up(
            partition, lambda files: offset_for_time(self._location, files, timestamp_ms)
        )

    def splits(self, ranges: Sequence[OffsetRange]) -> list[Split]:
        """Return splits that hold the ranges, each offset in one of them: minPartitions or more.

        Raises:
            DataLossError: a segment has gone since the directory was listed.
        """
        splits = [split for each in ranges for split in self._planned(each)]
        if ranges and len(splits) < (self._options.min_partitions or 0):
            ranges = divide(ranges, self._options.min_partitions or 1)
            splits = [split for each in ranges for split in self._planned(each)]
        return splits

    def _planned(self, wanted: OffsetRange) -> list[Split]:
        partition, start, end = wanted
        split_bytes = self._options.split_bytes
        return self._looked_up(
            partition,
            lambda files: plan(self._location, files, start, end, split_bytes=split_bytes),
        )

    def _looked_up(self, partition: TopicPartition, look: Callable[[PartitionFiles], T]) -> T:
        """Return what a look into a partition's files gives.

        With failOnDataLoss=false it is given again where files have gone since they were listed,
        as long as the list then differs.
        """
        while True:
            files = self._files[partition]
            try:
                return look(files)
            except DataLossError as error:
                listed = self._listed()
                if self._options.fail_on_data_loss or listed.get(partition, files) == files:
                    raise
                logger.warning("left out, for failOnDataLoss=false: %s", error)
                self._files = listed
