"""Data directories for the Spark benchmarks: topics of unique values, as a broker has them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from bench import frames
from protocol.compression import Codec
from tidelog.segments.compaction.segment_output import SegmentOutput
from tidelog.segments.encoding.encode import encode
from tidelog.segments.location import locate

__all__ = ["BATCH_BYTES", "PARTITIONS", "link_copies", "write_topic"]

PARTITIONS: Final = 2
"""One a core."""
SEGMENT_BYTES: Final = 64 * 1024 * 1024
ROWS_PER_CHUNK: Final = 100_000
BATCH_BYTES: Final = 16 * 1024
"""Of records. Java's producer fills a batch of 16 KB, its default, by what it is compressed: with
zstd such lines come to four times as many."""
KEYS: Final = 100_000
SENTENCE: Final = (
    b"sshd[%05d]: Failed password for invalid user %-10s"
    b" from %03d.%03d.%03d.%03d port %05d ssh2 preauth; "
)
SENTENCE_BYTES: Final = len(SENTENCE % (0, b"", 0, 0, 0, 0, 0))
USERS: Final = [b"admin", b"oracle", b"postgres", b"root", b"support", b"test", b"ubuntu", b"www"]


def write_topic(
    data_dir: Path,
    topic: str,
    records: int,
    value_bytes: int,
    codec: Codec = Codec.NONE,
    *,
    batch_bytes: int = BATCH_BYTES,
) -> int:
    """Write a topic of `PARTITIONS`; return the bytes of its segments.

    Values are lines of a log with numbers of their own: no two are equal, and they compress as such
    lines do, to a third.
    """
    return sum(
        _write_partition(
            data_dir / f"{topic}-{number}", records // PARTITIONS, value_bytes, codec, batch_bytes
        )
        for number in range(PARTITIONS)
    )


def _write_partition(
    directory: Path, records: int, value_bytes: int, codec: Codec, batch_bytes: int
) -> int:
    directory.mkdir(parents=True)
    generator = np.random.default_rng(int(directory.name[-1]))
    output = SegmentOutput(locate(directory), 0, segment_bytes=SEGMENT_BYTES)
    for offset in range(0, records, ROWS_PER_CHUNK):
        rows = _rows(generator, offset, min(ROWS_PER_CHUNK, records - offset), value_bytes)
        for batch in encode(rows, codec=codec, batch_bytes=batch_bytes):
            output.append(
                batch.data,
                base_offset=batch.base_offset,
                last_offset=batch.last_offset,
                max_timestamp=batch.max_timestamp,
            )
    output.finish()
    return output.size_bytes


def _rows(
    generator: np.random.Generator, offset: int, count: int, value_bytes: int
) -> pa.RecordBatch:
    keys = [b"key-%08d" % number for number in generator.integers(0, KEYS, count).tolist()]
    offsets = np.arange(offset, offset + count, dtype=np.int64)
    times = pa.array((frames.TIMESTAMP_MS + offsets) * 1000).cast(pa.timestamp("us", tz="UTC"))
    columns = {"key": pa.array(keys), "offset": pa.array(offsets), "timestamp": times}
    values = pa.array(_lines(generator, count, value_bytes), pa.binary())
    return pa.RecordBatch.from_pydict({**columns, "value": values})


def _lines(generator: np.random.Generator, count: int, value_bytes: int) -> list[bytes]:
    """Return lines of so many bytes, of as many sentences as that takes."""
    sentences = [b""] * count
    for _ in range(-(-value_bytes // SENTENCE_BYTES)):
        numbers = generator.integers(0, 2**31, (count, 4)).tolist()
        sentences = [
            sentence
            + SENTENCE % (pid % 32768, USERS[user % len(USERS)], *_address(host), port >> 15)
            for sentence, (pid, user, host, port) in zip(sentences, numbers, strict=True)
        ]
    return [sentence[:value_bytes] for sentence in sentences]


def _address(number: int) -> tuple[int, int, int, int]:
    return number >> 24, number >> 16 & 255, number >> 8 & 255, number & 255


def link_copies(source: Path, target: Path, topic: str, copies: int) -> None:
    """Make a data directory with many partitions of a topic, all of the same few files."""
    for number in range(copies * PARTITIONS):
        directory = target / f"{topic}-{number}"
        directory.mkdir(parents=True)
        for file in (source / f"{topic}-{number % PARTITIONS}").iterdir():
            os.link(file, directory / file.name)
