"""ParquetFiles: writes a range of a partition's records as staged Parquet files.

A file's range is what it was asked to cover, not what records happened to be there: files of a
topic with holes, such as a compacted one, follow one another all the same.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.lake.entry import STAGED, DataFile, Gap
from tidelog.lake.store import Store
from tidelog.segments.columns import COLUMNS, HEADERS, arrow_schema

__all__ = ["LAKE_COLUMNS", "SCHEMA", "ParquetOptions", "write_range"]

LAKE_COLUMNS: Final = (*COLUMNS, HEADERS)
SCHEMA: Final = arrow_schema(LAKE_COLUMNS)
ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
"""Of Arrow; a writer holds one of them in memory."""
DICTIONARY: Final = ["topic", "partition", "timestampType", "key", "headers.list.element.key"]
"""Columns whose values repeat; those of messages hardly do, and trying takes time."""
DELTA: Final = {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}


class ParquetOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the files are written."""

    file_bytes: int = 128 * 1024 * 1024
    """A file that is as large is closed, and the next one begun; it may pass that by a row group's
    worth."""
    compression_level: int = 1
    """Of zstd."""


class _HashingSink:
    """What Parquet is written to: passes on, counts, and hashes."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.size_bytes = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._file.write(view)
        self.sha256.update(view)
        self.size_bytes += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self.size_bytes

    def flush(self) -> None:
        """Nothing: the file becomes durable at once, when it is closed."""

    def close(self) -> None:
        self.closed = True

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


def write_range(
    store: Store,
    writer: str,
    batches: Iterable[pa.RecordBatch],
    *,
    partition: int,
    start_offset: int,
    end_offset: int,
    options: ParquetOptions,
) -> Iterator[DataFile | Gap]:
    """Write the records of a range; yield the files, which are durable, or the gap that it is.

    Where one file ends and the next begins follows from the records and the options alone.

    Args:
        writer: Name of the directory under `_staged`; each file in it has a name of its own, so
            that a task that runs twice does not write to the other's file.
        batches: Of `SCHEMA`, by offset, none of them outside of the range.
    """
    groups = _row_groups(batches, min(ROW_GROUP_BYTES, options.file_bytes))
    group = next(groups, None)
    if group is None:
        yield Gap(
            partition=partition, start_offset=start_offset, end_offset=end_offset, reason="empty"
        )
        return
    while group is not None:
        staged = f"{STAGED}/{writer}/{partition}-{start_offset}-{uuid.uuid4().hex}.parquet"
        with store.create(staged) as file:
            sink = _HashingSink(file)
            rows = 0
            times: list[int] = []
            with _parquet_writer(sink, options) as parquet:
                while group is not None and (not rows or sink.size_bytes < options.file_bytes):
                    parquet.write_table(group, row_group_size=group.num_rows)
                    rows += group.num_rows
                    times += _time_bounds(group)
                    file_end = group["offset"][-1].as_py() + 1
                    group = next(groups, None)
        if group is None:
            file_end = end_offset
        yield DataFile(
            partition=partition, start_offset=start_offset, end_offset=file_end, rows=rows,
            size_bytes=sink.size_bytes, sha256=sink.sha256.hexdigest(),
            min_timestamp=min(times), max_timestamp=max(times), staged=staged,
        )  # fmt: skip
        start_offset = file_end


def _parquet_writer(sink: _HashingSink, options: ParquetOptions) -> Any:
    return pq.ParquetWriter(
        sink,
        SCHEMA,
        compression="zstd",
        compression_level=options.compression_level,
        use_dictionary=DICTIONARY,
        column_encoding=DELTA,
    )


def _row_groups(batches: Iterable[pa.RecordBatch], size_bytes: int) -> Iterator[pa.Table]:
    """Put batches together until they are large enough for a row group."""
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        waiting_bytes += batch.nbytes
        if waiting_bytes >= size_bytes:
            yield pa.Table.from_batches(waiting, SCHEMA)
            waiting, waiting_bytes = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting, SCHEMA)


def _time_bounds(table: pa.Table) -> tuple[int, int]:
    bounds = pc.min_max(table["timestamp"].cast(pa.int64()))
    return bounds["min"].as_py(), bounds["max"].as_py()
