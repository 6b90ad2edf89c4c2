"""Data directories for the Spark benchmarks: topics of unique values, as a broker has them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from bench import frames
from protocol.compression import Codec
from protocol.stored.file_names import log_file_name
from tidelog.segments.encoding.encode import encode

__all__ = ["PARTITIONS", "link_copies", "write_topic"]

PARTITIONS: Final = 2
"""One a core."""
SEGMENT_BYTES: Final = 64 * 1024 * 1024
ROWS_PER_CHUNK: Final = 100_000
BATCH_BYTES: Final = 16 * 1024
KEYS: Final = 100_000


def write_topic(
    data_dir: Path, topic: str, records: int, value_bytes: int, codec: Codec = Codec.NONE
) -> int:
    """Write a topic of `PARTITIONS`; return the bytes of its segments.

    Values are half noise, half text that compresses: neither a best nor a worst case.
    """
    return sum(
        _write_partition(data_dir / f"{topic}-{number}", records // PARTITIONS, value_bytes, codec)
        for number in range(PARTITIONS)
    )


def _write_partition(directory: Path, records: int, value_bytes: int, codec: Codec) -> int:
    directory.mkdir(parents=True)
    generator = np.random.default_rng(int(directory.name[-1]))
    file, written, total, offset = None, 0, 0, 0
    while offset < records:
        count = min(ROWS_PER_CHUNK, records - offset)
        rows = _rows(generator, offset, count, value_bytes)
        for batch in encode(rows, codec=codec, batch_bytes=BATCH_BYTES):
            if file is None or written + len(batch.data) > SEGMENT_BYTES:
                if file is not None:
                    file.close()
                file, written = (directory / log_file_name(batch.base_offset)).open("wb"), 0
            written += file.write(batch.data)
            total += len(batch.data)
        offset += count
    if file is not None:
        file.close()
    return total


def _rows(
    generator: np.random.Generator, offset: int, count: int, value_bytes: int
) -> pa.RecordBatch:
    values = generator.integers(0, 256, (count, value_bytes), dtype=np.uint8)
    values[:, : value_bytes // 2] = ord("t")
    ends = np.arange(count + 1, dtype=np.int32) * value_bytes
    value = pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(values.reshape(-1))]
    )
    keys = [b"key-%08d" % number for number in generator.integers(0, KEYS, count).tolist()]
    offsets = np.arange(offset, offset + count, dtype=np.int64)
    times = pa.array((frames.TIMESTAMP_MS + offsets) * 1000).cast(pa.timestamp("us", tz="UTC"))
    columns = {"key": pa.array(keys), "value": value, "offset": pa.array(offsets)}
    return pa.RecordBatch.from_pydict({**columns, "timestamp": times})


def link_copies(source: Path, target: Path, topic: str, copies: int) -> None:
    """Make a data directory with many partitions of a topic, all of the same few files."""
    for number in range(copies * PARTITIONS):
        directory = target / f"{topic}-{number}"
        directory.mkdir(parents=True)
        for file in (source / f"{topic}-{number % PARTITIONS}").iterdir():
            os.link(file, directory / file.name)
