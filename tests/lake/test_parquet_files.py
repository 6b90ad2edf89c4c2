"""Ranges of records as Parquet files: names that follow from the records, and what is in them."""

from __future__ import annotations

import hashlib
import itertools
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.lakes import batch_of
from tidelog.lake.entry import DataFile, Gap
from tidelog.lake.parquet_files import SCHEMA, ParquetOptions, write_range
from tidelog.lake.store import LocalStore


def written(store: LocalStore, batches: list[pa.RecordBatch], end: int, file_bytes: int):
    return list(
        write_range(
            store, "writer", batches, partition=3, start_offset=0, end_offset=end,
            options=ParquetOptions(file_bytes=file_bytes),
        )
    )  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    step=st.integers(1, 3),
    tail=st.integers(0, 5),
    file_bytes=st.integers(1, 6_000),
)
def test_given_any_records_when_written_then_files_tile_the_range_and_hold_all(
    lengths, step, tail, file_bytes
):
    starts = [0, *itertools.accumulate(lengths)]
    batches = [
        batch_of(3, range(start * step, (start + length) * step, step))
        for start, length in zip(starts, lengths, strict=False)
    ]
    end = max(starts[-1] * step + tail, 1)
    with tempfile.TemporaryDirectory() as directory:
        store = LocalStore(Path(directory))
        pieces = written(store, batches, end, file_bytes)
        again = written(store, batches, end, file_bytes)
        files = [piece for piece in pieces if isinstance(piece, DataFile)]
        tables = [pq.read_table(store.root / file.staged) for file in files]
        hashes = [
            hashlib.sha256((store.root / file.staged).read_bytes()).hexdigest() for file in files
        ]

    cuts = [0, *(piece.end_offset for piece in pieces)]
    assert [piece.start_offset for piece in pieces] == cuts[:-1]
    assert cuts[-1] == end
    assert pa.concat_tables([SCHEMA.empty_table(), *tables]).equals(pa.Table.from_batches(batches))
    assert [file.rows for file in files] == [table.num_rows for table in tables]
    assert [file.sha256 for file in files] == hashes
    for file, table in zip(files, tables, strict=True):
        offsets = table["offset"].to_pylist()
        assert file.start_offset <= offsets[0] <= offsets[-1] < file.end_offset
        assert (file.min_timestamp, file.max_timestamp) == (offsets[0] * 10**6, offsets[-1] * 10**6)
    assert [getattr(piece, "path", None) for piece in again] == [
        getattr(piece, "path", None) for piece in pieces
    ]
    assert not {file.staged for file in files} & {getattr(each, "staged", "") for each in again}


def test_given_a_range_without_records_when_written_then_it_is_a_gap(tmp_path):
    pieces = written(LocalStore(tmp_path), [batch_of(3, [])], 7, 100)

    assert pieces == [Gap(partition=3, start_offset=0, end_offset=7, reason="empty")]
    assert list(tmp_path.iterdir()) == []
