"""What tasks of the archive do: write Parquet, and tell the driver which files they are.

Records stay in the Python process of the task; what goes through Spark is a `Written` of each.
"""

from __future__ import annotations

import msgspec

from tidelog.lake.compaction import Merge, merge
from tidelog.lake.entry import DataFile, Gap
from tidelog.lake.parquet_files import LAKE_COLUMNS, ParquetOptions, write_range
from tidelog.lake.store import locate_lake, open_store
from tidelog.segments.errors import DataLossError
from tidelog.segments.read_options import OnCorrupt, ReadOptions
from tidelog.spark.jobs.archive_source import ArchiveSource, Piece

__all__ = ["Written", "archive_piece", "merge_files"]


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one task."""

    topic: str
    files: tuple[DataFile, ...] = ()
    gaps: tuple[Gap, ...] = ()
    lost: str | None = None
    """Why the records could not be read: they went away while the task was on its way."""


def archive_piece(
    piece: Piece,
    source: ArchiveSource,
    lake: str,
    writer: str,
    on_corrupt: OnCorrupt,
    options: ParquetOptions,
) -> Written:
    """Write a piece to the lake's topic, staged."""
    topic, partition = piece.partition
    read_options = ReadOptions(columns=LAKE_COLUMNS, on_corrupt=on_corrupt)
    try:
        made = list(
            write_range(
                open_store(locate_lake(lake).child(topic)),
                writer,
                source.batches(piece, read_options),
                partition=partition,
                start_offset=piece.start,
                end_offset=piece.end,
                options=options,
            )
        )
    except DataLossError as error:
        return Written(topic=topic, lost=str(error))
    return Written(
        topic=topic,
        files=tuple(each for each in made if isinstance(each, DataFile)),
        gaps=tuple(each for each in made if isinstance(each, Gap)),
    )


def merge_files(item: tuple[str, Merge], lake: str, writer: str) -> Written:
    """Write the one file of a merge to the lake's topic, staged."""
    topic, files = item
    store = open_store(locate_lake(lake).child(topic))
    try:
        return Written(topic=topic, files=(merge(store, writer, files),))
    except FileNotFoundError as error:  # another compaction was faster
        return Written(topic=topic, lost=str(error))
