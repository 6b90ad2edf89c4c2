"""TimeLookup: the first record of a partition that is late enough, by time indexes and the log.

As a broker answers to ListOffsets: first in the order of offsets, though later ones may be older.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from protocol.limits import INT64_MAX
from tidelog.segments.boundaries import Boundary, boundary_before
from tidelog.segments.decoding import Aim, decode_sections
from tidelog.segments.file_window import FileWindow
from tidelog.segments.index_files import offset_hints, time_hints
from tidelog.segments.location import Location, opened
from tidelog.segments.log_files import PartitionFiles, SegmentFile
from tidelog.segments.log_scan import LegacyEntries, SoundBatches, scan
from tidelog.segments.read_options import ReadOptions

__all__ = ["offset_for_time"]

WALK_BYTES: Final = 1 << 20


def offset_for_time(location: Location, files: PartitionFiles, timestamp_ms: int) -> int | None:
    """Return the first offset whose record is of that time or later; None if there is none.

    Control records count, as with Kafka; damaged stretches do not: only reading tells of them.

    Raises:
        DataLossError: a segment is gone since the files were listed.
    """
    for segment in files.segments:
        found = _in_segment(location, files, segment, timestamp_ms)
        if found is not None:
            end = files.high_watermark
            return found if end is None or found < end else None
    return None


def _in_segment(
    location: Location, files: PartitionFiles, segment: SegmentFile, timestamp_ms: int
) -> int | None:
    options = ReadOptions(
        columns=("offset",),
        on_corrupt="skip",
        include_control=True,
        start_timestamp_ms=timestamp_ms,
    )
    aim = Aim(files.topic, files.partition, segment.path, options, files.log_start_offset)
    with opened(location, segment.path, segment.base_offset, None) as file:
        size = file.size()
        start = _scan_start(location, file, segment, size, timestamp_ms)
        window = FileWindow(file, start.position, size, WALK_BYTES)
        sections = scan(window, end_position=size, first_offset=start.offset)
        for rows in decode_sections(sections, aim):
            return int(rows.column(0)[0].as_py())
    return None


def _scan_start(
    location: Location, file: Any, segment: SegmentFile, size: int, timestamp_ms: int
) -> Boundary:
    """Return a batch before which no record is late enough.

    The last entry of the time index below the time says: nothing up to its offset is later than
    its timestamp. It is believed if that batch is found to have this timestamp.
    """
    begin = Boundary(0, segment.base_offset)
    times = time_hints(location, segment.path)
    number = int(np.searchsorted(times.timestamps, timestamp_ms)) - 1
    if number < 0:
        return begin
    timestamp, offset = int(times.timestamps[number]), int(times.offsets[number])
    hints = offset_hints(location, segment.path)
    start = boundary_before(file, segment, hints, offset, size, INT64_MAX)
    window = FileWindow(file, start.position, size, WALK_BYTES)
    for section in scan(
        window, end_position=size, first_offset=start.offset, end_offset=offset + 1
    ):
        if isinstance(section, SoundBatches):
            row = int(np.searchsorted(section.table["last_offset"], offset))
            if row == len(section.table):
                continue
            batch = section.table[row]
            first_offset = int(batch["base_offset"])
            is_right = first_offset <= offset and batch["max_timestamp"] == timestamp
            position = section.position + int(batch["position"])
            return Boundary(position, first_offset) if is_right else begin
        if isinstance(section, LegacyEntries):
            return begin  # few are left: they are looked through
    return begin
