"""SegmentOutput: batches written as the segments of a partition, with their indexes.

Indexes are made as Kafka makes them with an append: an entry in front of a batch as soon as more
bytes than `index_interval_bytes` lie behind the entry before. They are kept in memory until their
segment is full, and synced with it where the files are this machine's.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from pyarrow.fs import LocalFileSystem

from protocol.identifiers import NO_TIMESTAMP, Buffer
from protocol.limits import SEGMENT_OFFSET_SPAN_MAX
from protocol.stored import transaction_index
from protocol.stored.file_names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
)
from protocol.stored.index_entries import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from protocol.stored.transaction_index import AbortedTransaction
from tidelog.segments.location import Location

__all__ = ["INDEX_INTERVAL_BYTES", "SEGMENT_BYTES", "SegmentOutput", "write_file"]

SEGMENT_BYTES: Final = 128 << 20
INDEX_INTERVAL_BYTES: Final = 4096
INDEX_BYTES_MAX: Final = 10 << 20
"""What Kafka gives an index; a segment ends before either is larger."""
WRITE_BYTES: Final = 1 << 20


def write_file(location: Location, data: Buffer) -> None:
    """Write a whole file; durable where it is one of this machine's.

    Raises:
        OSError: the disk, or the object store, refused.
    """
    with location.filesystem.open_output_stream(location.path, compression=None) as file:
        file.write(data)
    _sync(location)


def _sync(location: Location) -> None:
    if isinstance(location.filesystem, LocalFileSystem):
        file = os.open(location.path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


class SegmentOutput:
    """The segments of one partition, in a directory that is there."""

    def __init__(
        self,
        directory: Location,
        base_offset: int,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        index_interval_bytes: int = INDEX_INTERVAL_BYTES,
    ) -> None:
        """Args:
        base_offset: The name of the first segment, at or below all that will be appended.
        """
        self._directory = directory
        self._segment_bytes, self._index_interval_bytes = segment_bytes, index_interval_bytes
        self._segment = _OpenSegment(directory, base_offset, index_interval_bytes)
        self.size_bytes = 0
        """Of the logs of segments that are done."""
        self.segments = 0

    def append(
        self,
        batch: Buffer,
        *,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        aborted: Sequence[AbortedTransaction] = (),
    ) -> None:
        """Add a batch, to a new segment if this one is full.

        Args:
            aborted: The transactions that the batch ends as an abort marker.

        Raises:
            OSError: the disk, or the object store, refused.
        """
        if not self._segment.has_room(len(batch), last_offset, self._segment_bytes):
            self._end()
            self._segment = _OpenSegment(self._directory, base_offset, self._index_interval_bytes)
        self._segment.append(batch, last_offset, max_timestamp, aborted)

    def finish(self) -> None:
        """Write what is left; nothing can be appended any more. OSError as `append`."""
        self._end()
        _sync(self._directory)

    def abandon(self) -> None:
        """Close the open file; what was written stays where it is."""
        self._segment.file.close()

    def _end(self) -> None:
        self._segment.end()
        self.size_bytes += self._segment.size_bytes
        self.segments += 1


class _OpenSegment:
    """The segment that is being written."""

    def __init__(self, directory: Location, base_offset: int, index_interval_bytes: int) -> None:
        self._directory, self._base_offset = directory, base_offset
        self._index_interval_bytes = index_interval_bytes
        self.size_bytes = self._indexed_at = 0
        self._largest = self._timestamp_indexed = int(NO_TIMESTAMP)
        self._offset_of_largest = base_offset
        self._offset_index, self._time_index = bytearray(), bytearray()
        self._aborted: list[AbortedTransaction] = []
        self._pending = bytearray()
        path = self._place(LOG_SUFFIX).path
        self.file = directory.filesystem.open_output_stream(path, compression=None)

    def has_room(self, size_bytes: int, last_offset: int, size_bytes_max: int) -> bool:
        """Whether a batch goes in; the first one does, whatever its size is."""
        if last_offset - self._base_offset > SEGMENT_OFFSET_SPAN_MAX:
            return False
        index_bytes = max(len(self._offset_index), len(self._time_index))
        fits = self.size_bytes + size_bytes <= size_bytes_max and index_bytes < INDEX_BYTES_MAX
        return fits or not self.size_bytes

    def append(
        self,
        batch: Buffer,
        last_offset: int,
        max_timestamp: int,
        aborted: Sequence[AbortedTransaction],
    ) -> None:
        if max_timestamp > self._largest:
            self._largest, self._offset_of_largest = max_timestamp, last_offset
        position = self.size_bytes
        if position - self._indexed_at > self._index_interval_bytes:
            self._offset_index += OFFSET_INDEX_ENTRY.pack(last_offset - self._base_offset, position)
            self._index_time()
            self._indexed_at = position
        self._aborted += aborted
        self.size_bytes += len(batch)
        self._pending += batch
        if len(self._pending) >= WRITE_BYTES:
            self._write()

    def end(self) -> None:
        """Write what is left, and the indexes."""
        self._write()
        self.file.close()
        _sync(self._place(LOG_SUFFIX))
        self._index_time()
        write_file(self._place(OFFSET_INDEX_SUFFIX), bytes(self._offset_index))
        write_file(self._place(TIME_INDEX_SUFFIX), bytes(self._time_index))
        if self._aborted:
            data = transaction_index.encode(self._aborted)
            write_file(self._place(TRANSACTION_INDEX_SUFFIX), data)

    def _place(self, kind: str) -> Location:
        return self._directory.child(segment_file_name(self._base_offset, kind))

    def _index_time(self) -> None:
        if self._largest > self._timestamp_indexed:
            self._timestamp_indexed = self._largest
            relative = self._offset_of_largest - self._base_offset
            self._time_index += TIME_INDEX_ENTRY.pack(self._largest, relative)

    def _write(self) -> None:
        self.file.write(self._pending)
        self._pending = bytearray()
