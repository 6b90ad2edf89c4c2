"""Plan: which bytes of which files hold some offsets of a partition, as splits for tasks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.limits import INT64_MAX
from protocol.record_batch_header import HEADER_BYTES
from tidelog.segments.boundaries import Boundary, boundary_at, boundary_before
from tidelog.segments.errors import OptionError
from tidelog.segments.file_window import FileWindow
from tidelog.segments.index_files import offset_hints
from tidelog.segments.location import Location, opened
from tidelog.segments.log_files import PartitionFiles, SegmentFile
from tidelog.segments.log_scan import LegacyEntries, SoundBatches, Wound, scan
from tidelog.segments.read_options import Isolation
from tidelog.segments.resync import sound_at
from tidelog.segments.time_lookup import offset_for_time
from tidelog.segments.transactions import last_stable_offset

__all__ = ["SPLIT_BYTES", "Split", "bounds", "confirmed", "offset_for_time", "plan"]

SPLIT_BYTES: Final = 64 << 20
WALK_BYTES: Final = 1 << 20


class Split(NamedTuple):
    """A stretch of one file, which one task reads."""

    topic: str
    partition: int
    path: str
    start_position: int
    """Where a batch begins."""
    end_position: int
    """A batch that begins before it is read whole."""
    base_offset: int
    """Of the segment file."""
    first_offset: int
    """Of the batch at the start: none in the split has a smaller one."""
    start_offset: int
    end_offset: int
    """Records below the start, and at or above the end, are left out."""
    limit_offset: int | None = None
    """What the next split or segment begins with; None: nothing is known to come."""
    file_bytes: int = 0
    """Of the file when it was listed: one that has fewer is another."""


def bounds(
    location: Location, files: PartitionFiles, *, isolation: Isolation = "read_uncommitted"
) -> tuple[int, int]:
    """Return the first offset that can be read, and the one after the last.

    The end is that of the last whole batch; or the high watermark, where a broker has written down
    that it is below; for `read_committed` it is where the first undecided transaction begins. Bytes
    at the log's end that are no batch are not counted, unless the high watermark is above them:
    then they were one, which reading tells of.

    Raises:
        DataLossError: the last segment is gone.
    """
    if not files.segments:
        return files.log_start_offset, files.log_start_offset
    start = max(files.log_start_offset, files.segments[0].base_offset)
    end, is_torn = _log_end(location, files.segments[-1])
    if files.high_watermark is not None:
        end = files.high_watermark if is_torn else min(end, files.high_watermark)
    if isolation == "read_committed":
        end = last_stable_offset(location, files, end)
    return start, max(start, end)


def _log_end(location: Location, segment: SegmentFile) -> tuple[int, bool]:
    """Return the offset behind the last whole batch, looked for from the last index entry on; and
    whether bytes that are no batch follow it."""
    end, is_torn = segment.base_offset, False
    with opened(location, segment.path, end, None) as file:
        size = file.size()
        hints = offset_hints(location, segment.path)
        start = boundary_before(file, segment, hints, INT64_MAX, size, INT64_MAX)
        window = FileWindow(file, start.position, size, WALK_BYTES)
        for section in scan(window, end_position=size, first_offset=start.offset, check_crc=False):
            is_torn = isinstance(section, Wound)
            if isinstance(section, SoundBatches):
                end = int(section.table["last_offset"][-1]) + 1
            elif isinstance(section, LegacyEntries):
                end = section.entries[-1].offset + 1
    return end, is_torn


def plan(
    location: Location,
    files: PartitionFiles,
    start_offset: int,
    end_offset: int,
    *,
    split_bytes: int = SPLIT_BYTES,
) -> list[Split]:
    """Return splits that hold the offsets from start to below end, each offset in one of them.

    In the order of offsets. Files are cut where the offset index says that a batch begins, if it
    is right; what is not there is not planned, and no error.

    Raises:
        DataLossError: a segment is gone since the files were listed.
    """
    if split_bytes < 1:
        raise OptionError(f"split_bytes is {split_bytes}; it has to be 1 at least")
    splits: list[Split] = []
    segments = files.segments
    for number, segment in enumerate(segments):
        limit = segments[number + 1].base_offset if number + 1 < len(segments) else None
        upto = end_offset if limit is None else min(end_offset, limit)
        from_ = max(start_offset, segment.base_offset)
        if from_ >= upto:
            continue
        for begin, end in _pieces(location, segment, from_, upto, limit, split_bytes):
            first, last = max(from_, begin.offset), min(upto, end.offset)
            splits.append(
                Split(
                    files.topic, files.partition, segment.path, begin.position, end.position,
                    segment.base_offset, begin.offset, first, last,
                    limit if end.offset == INT64_MAX else end.offset, segment.size_bytes,
                )
            )  # fmt: skip
    return splits


def _pieces(
    location: Location,
    segment: SegmentFile,
    start_offset: int,
    end_offset: int,
    limit: int | None,
    split_bytes: int,
) -> Iterator[tuple[Boundary, Boundary]]:
    """Yield begin and end of the stretches of a segment that hold some offsets."""
    with opened(location, segment.path, start_offset, end_offset) as file:
        size = max(segment.size_bytes, file.size())
        if not size:
            return
        hints = offset_hints(location, segment.path)
        upper = INT64_MAX if limit is None else limit
        behind = int(np.searchsorted(hints.offsets, end_offset)) + 1
        numbers = [behind] if behind < len(hints.offsets) else []
        numbers += _evenly(hints.positions, split_bytes, size)
        found = {boundary_at(file, segment, hints, number, size, upper) for number in set(numbers)}
        found.add(boundary_before(file, segment, hints, start_offset, size, upper))
    begin = Boundary(0, segment.base_offset)
    ordered = sorted(found | {begin, Boundary(size, INT64_MAX)})
    for begin, end in pairwise(ordered):
        if end.offset > start_offset and begin.offset < end_offset:
            yield begin, end


def _evenly(positions: NDArray[Any], step: int, size_bytes: int) -> list[int]:
    """Return the number of the last position at or before each multiple of a step below a size."""
    multiples = np.maximum(-(-positions.astype(np.int64) // step), 1)  # at or above each position
    last_of_each = np.diff(multiples, append=np.iinfo(np.int64).max) != 0
    return np.flatnonzero(last_of_each & (multiples * step < size_bytes)).tolist()


def confirmed(file: Any, split: Split) -> Split:
    """Return a split of a file that is open; of all of it where what the split says does not hold.

    Since it was planned a cleaner may have put another file, with fewer records, in its place.
    Batches may begin where they did and be later ones, so it is their offsets that count.
    """
    size, start, end = file.size(), split.start_position, split.end_position
    limit = split.limit_offset
    if (
        size >= split.file_bytes
        and (not start or _begins(file, start, split.first_offset, split.start_offset))
        and (limit is None or end >= size or _begins(file, end, limit, limit))
    ):
        return split
    return split._replace(
        start_position=0, end_position=size, first_offset=split.base_offset, limit_offset=None
    )


def _begins(file: Any, position: int, offset_min: int, offset_max: int) -> bool:
    """Return whether a sound batch begins there, with an offset between two, both included."""
    window = FileWindow(file, position, position + HEADER_BYTES, HEADER_BYTES)
    window.fill()
    if len(window.data) < HEADER_BYTES:
        return False
    found = sound_at(window, 0, offset_min, INT64_MAX)
    return found is not None and found[0] <= offset_max
