"""Compaction of a lake: files that are next to each other, and small, become one.

Records and their order stay. The log goes over from the old files to the new one in one commit;
for who lists the directory the old ones go first, see `tidelog.lake.log`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.lake.entry import DataFile
from tidelog.lake.errors import LakeDamagedError
from tidelog.lake.parquet_files import SCHEMA, ParquetOptions, write_range
from tidelog.lake.state import State
from tidelog.lake.store import Store

__all__ = ["Merge", "merge", "plan_merges"]

WHOLE_FILE: Final = ParquetOptions(file_bytes=2**62)
BATCH_BYTES: Final = 4 << 20
"""Read at once, as stored; decompressed it may well be ten times as much."""


class Merge(NamedTuple):
    """Files that are to become one: each begins where the one before it ends."""

    files: tuple[DataFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def plan_merges(state: State, file_bytes: int, *, files_min: int = 2) -> list[Merge]:
    """Return what is worth merging: runs of small files that together have `file_bytes` at most.

    A file of half that size is large enough, and stays.

    Args:
        files_min: A run of fewer files stays as it is. A topic that is archived in small pieces
            and compacted often rewrites less if this is larger.
    """
    merges: list[Merge] = []
    for partition in sorted(state.ends):
        run = Merge(())
        for piece in (*state.pieces(partition), None):
            if isinstance(piece, DataFile) and piece.size_bytes < file_bytes // 2:
                longer = Merge((*run.files, piece))
                if longer.size_bytes <= file_bytes:
                    run = longer
                    continue
                following = Merge((piece,))
            else:
                following = Merge(())
            if len(run.files) >= max(files_min, 2):
                merges.append(run)
            run = following
    return merges


def merge(store: Store, writer: str, merge: Merge) -> DataFile:
    """Write the one file, staged. LakeDamagedError if the old ones hold not what the log says."""
    first, last = merge.files[0], merge.files[-1]
    written = write_range(
        store,
        writer,
        _records(store, merge),
        partition=first.partition,
        start_offset=first.start_offset,
        end_offset=last.end_offset,
        options=WHOLE_FILE,
    )
    (made,) = (piece for piece in written if isinstance(piece, DataFile))
    return made


def _records(store: Store, merge: Merge) -> Iterator[pa.RecordBatch]:
    for file in merge.files:
        filesystem, path = store.location(file.path)
        rows, batch_rows = 0, max(BATCH_BYTES * file.rows // file.size_bytes, 1)
        with filesystem.open_input_file(path) as source:
            for batch in pq.ParquetFile(source).iter_batches(batch_rows):
                rows += batch.num_rows
                yield pa.RecordBatch.from_arrays(batch.columns, schema=SCHEMA)
        if rows != file.rows:
            raise LakeDamagedError(f"{file.path} has {rows} records; {file.rows} were committed")
