"""IndexBuilder: makes both indexes of a segment from its batches, as the append does (R19)."""

from __future__ import annotations

from broker.storage.offset_index import OffsetIndex
from broker.storage.time_index import TimeIndex
from protocol.identifiers import NO_TIMESTAMP
from protocol.limits import INT32_MAX


class IndexBuilder:
    """Takes the batches of a segment in order; the indexes are active, with all in memory."""

    __slots__ = (
        "_base_offset",
        "_full_sizes",
        "_index_interval_bytes",
        "_last_indexed_offset",
        "_last_indexed_position",
        "_offset_index",
        "_time_index",
        "_were_active",
        "due_position",
        "largest_timestamp",
        "offset_of_largest_timestamp",
    )

    def __init__(
        self, offset_index: OffsetIndex, time_index: TimeIndex, index_interval_bytes: int
    ) -> None:
        """Empty the indexes; `finish` puts the files right of those that are active now."""
        self._were_active = offset_index.is_active
        self._full_sizes = offset_index.size_bytes_max, time_index.size_bytes_max
        offset_index.reset()
        time_index.reset()
        self._offset_index, self._time_index = offset_index, time_index
        self._base_offset = offset_index.base_offset
        self._index_interval_bytes = index_interval_bytes
        self._last_indexed_position = 0
        self.due_position: int = index_interval_bytes
        """The first batch behind this position gets an entry."""
        self._last_indexed_offset = offset_index.base_offset - 1
        self.largest_timestamp: int = NO_TIMESTAMP
        self.offset_of_largest_timestamp = offset_index.base_offset

    def add(
        self, position: int, last_offset: int, max_timestamp: int, *, forced: bool = False
    ) -> None:
        """Take one batch; `forced` gives it an entry even if the last one is near."""
        if not 0 <= last_offset - self._base_offset <= INT32_MAX:
            return  # behind damage, by its header alone: no CRC covers an offset
        if max_timestamp > self.largest_timestamp:
            self.largest_timestamp = max_timestamp
            self.offset_of_largest_timestamp = last_offset
        if position <= self.due_position and not forced:
            return
        if last_offset <= self._last_indexed_offset or not position:
            return  # an offset that goes back is the log's fault, not ours
        if self._offset_index.is_full:  # today's size may be less than that of yesterday
            self._offset_index.limit_to(2 * self._offset_index.size_bytes_max + 1024)
        self._offset_index.append(last_offset, position)
        self._add_time_entry()
        self._last_indexed_position, self._last_indexed_offset = position, last_offset
        self.due_position = position + self._index_interval_bytes

    def _add_time_entry(self) -> None:
        if self._time_index.is_full:
            self._time_index.limit_to(2 * self._time_index.size_bytes_max + 1024)
        self._time_index.append(self.largest_timestamp, self.offset_of_largest_timestamp)

    def finish(self, end_position: int) -> int:
        """Add the last time entry; return the bytes since the last index entry."""
        self._add_time_entry()
        for index, size_bytes in zip(
            (self._offset_index, self._time_index), self._full_sizes, strict=True
        ):
            index.limit_to(size_bytes)
            if self._were_active:
                index.settle()
        return end_position - self._last_indexed_position
