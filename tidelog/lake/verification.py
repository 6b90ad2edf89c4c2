"""Verification of a lake: does the directory hold what the log says, and nothing else?"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.lake.entry import DATA, DataFile
from tidelog.lake.log import TopicLog

__all__ = ["LakeFault", "verify_topic"]

CHUNK_BYTES: Final = 1 << 20


class LakeFault(NamedTuple):
    """Something that is not as the log says."""

    path: str
    """Relative to the topic's directory."""
    text: str


def verify_topic(log: TopicLog, *, is_deep: bool = False) -> Iterator[LakeFault]:
    """Yield the faults of a topic in a lake that nobody is writing to.

    Args:
        is_deep: Read every byte and compare SHA-256; else sizes and footers are looked at.
    """
    log.recover()
    there = {file.path: file.size_bytes for file in log.store.files(DATA)}
    for path in sorted(there.keys() - log.state.files.keys()):
        yield LakeFault(path, "is in no commit: who lists the directory takes it for data")
    for path, file in sorted(log.state.files.items()):
        if path not in there:
            yield LakeFault(path, "is committed, and it is not there")
        elif there[path] != file.size_bytes:
            yield LakeFault(path, f"has {there[path]} bytes; {file.size_bytes} were committed")
        elif (text := _wrong_content(log, file, is_deep)) is not None:
            yield LakeFault(path, text)
    yield from _holes(log)


def _wrong_content(log: TopicLog, file: DataFile, is_deep: bool) -> str | None:
    filesystem, path = log.store.location(file.path)
    with filesystem.open_input_file(path) as source:
        try:
            rows = pq.read_metadata(source).num_rows
        except pa.ArrowException as error:
            return f"is no Parquet file: {error}"
        if rows != file.rows:
            return f"has {rows} records; {file.rows} were committed"
        if not is_deep:
            return None
        source.seek(0)
        digest = hashlib.sha256()
        while data := source.read(CHUNK_BYTES):
            digest.update(data)
    return None if digest.hexdigest() == file.sha256 else "has another SHA-256 than was committed"


def _holes(log: TopicLog) -> Iterator[LakeFault]:
    """Yield where the ranges of a partition do not follow one another."""
    for partition in sorted(log.state.ends):
        for before, piece in itertools.pairwise(log.state.pieces(partition)):
            if piece.start_offset != before.end_offset:
                yield LakeFault(
                    f"{DATA}/partition={partition}",
                    f"a piece ends at offset {before.end_offset}, the next begins at "
                    f"{piece.start_offset}",
                )
