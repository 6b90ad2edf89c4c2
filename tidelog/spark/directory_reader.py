"""DirectoryReader: a batch query over a data directory, as it is when the query is planned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from tidelog.spark import filters
from tidelog.spark.filters import Pushed
from tidelog.spark.offset_ranges import batch_ranges
from tidelog.spark.options import SourceOptions
from tidelog.spark.segment_splits import SegmentSplits
from tidelog.spark.split_rows import SplitRows

__all__ = ["directory_reader"]


def directory_reader(options: SourceOptions, rows: SplitRows) -> DataSourceReader:
    """Return a reader that takes filters if Spark has some to push, and only then."""
    kind = _PushedReader if filters.are_asked_for() else _DirectoryReader
    return kind(options, rows)


class _DirectoryReader(DataSourceReader):
    def __init__(self, options: SourceOptions, rows: SplitRows) -> None:
        self._options, self._rows = options, rows
        self._pushed = Pushed()

    def partitions(self) -> list[InputPartition]:
        directory = SegmentSplits(self._rows.location, self._options)
        ranges = batch_ranges(self._options, directory)
        wanted = [self._pushed.narrowed(each, directory) for each in ranges]
        splits = directory.splits([each for each in wanted if each is not None])
        return [InputPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._rows.read(partition)


class _PushedReader(_DirectoryReader):
    def pushFilters(self, pushed: list[Any]) -> Iterable[Any]:
        self._pushed = filters.pushed(pushed, with_offsets=self._options.on_corrupt != "tag")
        self._rows = self._rows.sparing(self._pushed)
        return pushed  # Spark checks them all again: what they tell here only spares reads
