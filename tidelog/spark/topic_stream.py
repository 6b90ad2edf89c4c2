"""TopicStream: the driver's side of a stream over partitions, for each source that has some.

Since Spark 4.2 a source is told where it is and how much to read at most; before, it says how far
it could go, and reads that at once. Which of the two this is, the signature tells.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from tidelog.segments.errors import OptionError
from tidelog.spark.offset_ranges import (
    OffsetRange,
    Offsets,
    Partitions,
    fair_share,
    offsets_from_json,
    offsets_to_json,
    stream_ends,
    stream_ranges,
    stream_starts,
    stream_target,
)
from tidelog.spark.options import SourceOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TopicStream"]

HAS_LIMITS: Final = "limit" in inspect.signature(DataSourceStreamReader.latestOffset).parameters


class _Stream(DataSourceStreamReader):
    """What both kinds have in common.

    Spark's offsets are JSON as those of its Kafka source: `{"web-logs": {"0": 42}}`.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        options.stream_start()  # so that what is wrong with it is said before the stream starts

    @abstractmethod
    def partitions_now(self) -> Partitions:
        """Return what there is at this moment."""

    @abstractmethod
    def inputs(self, partitions: Partitions, ranges: list[OffsetRange]) -> list[InputPartition]:
        """Return what the tasks of one micro-batch read, the same for the same ranges."""

    @abstractmethod
    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Give the records of one of them as record batches; runs in the tasks."""

    def initialOffset(self) -> dict[str, Any]:
        return dict(offsets_to_json(stream_starts(self.options, self.partitions_now())))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if start == end:
            return []
        partitions = self.partitions_now()
        ranges = stream_ranges(
            self.options, partitions, offsets_from_json(start), offsets_from_json(end)
        )
        return self.inputs(partitions, ranges)


if HAS_LIMITS:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    class TopicStream(_Stream, SupportsTriggerAvailableNow):
        """A stream reader that keeps to maxOffsetsPerTrigger and to Trigger.AvailableNow."""

        _target: Offsets | None = None
        """Where Trigger.AvailableNow stops."""
        _ends: Offsets | None = None

        def getDefaultReadLimit(self) -> ReadLimit:
            offsets_max = self.options.max_offsets_per_trigger
            return ReadAllAvailable() if offsets_max is None else ReadMaxRows(offsets_max)

        def prepareForTriggerAvailableNow(self) -> None:
            self._target = stream_target(self.options, self.partitions_now())

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            read = offsets_from_json(start)
            begins, ends = stream_ends(self.options, self.partitions_now(), read)
            if self._target is not None:
                target = {**read, **self._target}
                begins = {each: begins[each] for each in begins if each in target}
                ends = {each: max(begins[each], min(ends[each], target[each])) for each in begins}
            self._ends = ends
            if isinstance(limit, ReadMaxRows):
                ends = fair_share(begins, ends, limit.max_rows)
            return dict(offsets_to_json(ends))

        def reportLatestOffset(self) -> dict[str, Any] | None:
            return None if self._ends is None else dict(offsets_to_json(self._ends))

else:

    class TopicStream(_Stream):  # type: ignore[no-redef]
        """A stream reader that reads all there is at each trigger."""

        def __init__(self, options: SourceOptions) -> None:
            super().__init__(options)
            self._planned: Offsets = {}  # up to where it was read, as far as this process knows
            if options.max_offsets_per_trigger is not None:
                version = pyspark.__version__
                raise OptionError(f"maxOffsetsPerTrigger needs Spark 4.2 or newer, not {version}")

        def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
            _, ends = stream_ends(self.options, self.partitions_now(), self._planned)
            return dict(offsets_to_json(ends))

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
            self._planned = offsets_from_json(end)
            return super().partitions(start, end)
