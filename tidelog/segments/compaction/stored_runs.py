"""StoredRuns: all batches of a partition, and their records as spans, for what writes them anew.

Unlike the reader's record batches these keep what a log has beside its records: headers of batches,
control batches, empty ones. Entries of old formats come as the batches they are converted to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.identifiers import Buffer
from tidelog.segments import kernel
from tidelog.segments.batch_table import BatchTable
from tidelog.segments.errors import DamagedError
from tidelog.segments.file_window import FileWindow
from tidelog.segments.inflate import inflate
from tidelog.segments.legacy_batches import legacy_batches
from tidelog.segments.location import Location, opened
from tidelog.segments.log_files import PartitionFiles
from tidelog.segments.log_scan import LegacyEntries, Section, SoundBatches, Wound, scan
from tidelog.segments.record_spans import RecordSpans

__all__ = ["DecodedRun", "StoredRun", "decoded_runs", "stored_runs"]

CHUNK_BYTES: Final = 4 << 20
BUFFER_BYTES: Final = 32 << 20


class StoredRun(NamedTuple):
    """Batches that follow each other in a file. Holds until the next one is asked for."""

    path: str
    position: int
    """Of `data` in the file; of what it was made from, if that was of an old format."""
    data: Buffer
    table: BatchTable
    """Its positions are those in `data`."""


class DecodedRun(NamedTuple):
    """Some batches of a run, and their records."""

    data: Buffer
    table: BatchTable
    buffer: NDArray[Any]
    """uint8, what the spans are of."""
    record_start: NDArray[Any]
    spans: RecordSpans
    first_ordinal: int
    """How many records the partition has before these."""


def stored_runs(
    location: Location, files: PartitionFiles, end_offset: int, *, check_crc: bool = True
) -> Iterator[StoredRun]:
    """Yield all batches below an offset.

    Raises:
        DamagedError: there are bytes that are no batch.
        DataLossError: a segment is gone.
    """
    segments = files.segments
    for number, segment in enumerate(segments):
        limit = segments[number + 1].base_offset if number + 1 < len(segments) else None
        with opened(location, segment.path, segment.base_offset, limit) as file:
            size = file.size()  # of the newest more than was listed, if a broker writes
            sections = scan(
                FileWindow(file, 0, size, CHUNK_BYTES), end_position=size,
                first_offset=segment.base_offset, end_offset=end_offset, limit_offset=limit,
                check_crc=check_crc,
            )  # fmt: skip
            for section in sections:
                yield from _runs(segment.path, section)


def _runs(path: str, section: Section) -> Iterator[StoredRun]:
    """Yield what is in a section, entries of old formats converted. DamagedError for a wound."""
    if isinstance(section, SoundBatches):
        yield StoredRun(path, section.position, section.data, section.table)
        return
    for found in legacy_batches(section) if isinstance(section, LegacyEntries) else (section,):
        if isinstance(found, Wound):
            raise found.error(path)
        yield StoredRun(path, section.position, *found)


def decoded_runs(
    location: Location, files: PartitionFiles, end_offset: int
) -> Iterator[DecodedRun]:
    """Yield all batches below an offset with their records; their CRCs are not checked.

    Raises:
        DamagedError: records cannot be decoded, or there are bytes that are no batch.
        DataLossError: a segment is gone.
    """
    ordinal = 0
    for run in stored_runs(location, files, end_offset, check_crc=False):
        table = run.table
        while len(table):
            inflated = inflate(run.data, table, buffer_bytes=BUFFER_BYTES)
            count = len(inflated.starts)
            spans, bad = kernel.decode(inflated, table[:count])
            if bad is not None or not count:
                row = table[bad or 0]
                raise DamagedError(
                    run.path, run.position + int(row["position"]), int(row["base_offset"]),
                    int(row["last_offset"]) + 1, inflated.fault or "its records are not sound",
                )  # fmt: skip
            start = _record_starts(spans, inflated.starts)
            yield DecodedRun(run.data, table[:count], inflated.buffer, start, spans, ordinal)
            ordinal += len(spans.offset)
            table = table[count:]


def _record_starts(spans: RecordSpans, batch_starts: NDArray[Any]) -> NDArray[Any]:
    """Return where each record begins: behind the one before, or where its batch does."""
    starts = np.empty_like(spans.end)
    starts[1:] = spans.end[:-1]
    is_first = np.ones(len(starts), dtype=bool)
    is_first[1:] = spans.batch[1:] != spans.batch[:-1]
    starts[is_first] = batch_starts[spans.batch[is_first]]
    return starts
