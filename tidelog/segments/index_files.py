"""IndexFiles: what stands beside a segment; hints, which the log itself has to confirm.

The layouts are drawn in `protocol.stored.index_entries`. A file that is missing, cut or garbled
answers nothing, or less.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyarrow.fs import FileType

from protocol.stored.file_names import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from tidelog.segments.location import Location

__all__ = [
    "OFFSET_ENTRY", "TIME_ENTRY", "OffsetHints", "TimeHints", "offset_hints", "read_beside",
    "time_hints",
]  # fmt: skip

INDEX_BYTES_MAX: Final = 1 << 30
OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


class OffsetHints(NamedTuple):
    """Entries (last offset of an append, position of its first batch); both grow."""

    offsets: NDArray[Any]
    """int64, absolute."""
    positions: NDArray[Any]


class TimeHints(NamedTuple):
    """Entries (largest timestamp up to there, offset of the first record that has it)."""

    timestamps: NDArray[Any]
    offsets: NDArray[Any]
    """int64, absolute."""


def read_beside(location: Location, log_path: str, suffix: str) -> bytes | None:
    """Return the file of another suffix beside a segment; None if there is none."""
    path = log_path.removesuffix(LOG_SUFFIX) + suffix
    info = location.filesystem.get_file_info(path)
    if info.type is not FileType.File or info.size > INDEX_BYTES_MAX:
        return None
    try:
        with location.filesystem.open_input_stream(path) as file:
            data: bytes = file.read()
    except FileNotFoundError:
        return None
    return data


def offset_hints(location: Location, log_path: str) -> OffsetHints:
    """Return the entries of a segment's offset index."""
    entries = _entries(read_beside(location, log_path, OFFSET_INDEX_SUFFIX), OFFSET_ENTRY)
    relative = entries["offset"].astype(np.int64)
    positions = entries["position"].astype(np.int64)
    sound = _growing(relative, positions)
    return OffsetHints(base_offset_of(log_path) + relative[:sound], positions[:sound])


def time_hints(location: Location, log_path: str) -> TimeHints:
    """Return the entries of a segment's time index."""
    entries = _entries(read_beside(location, log_path, TIME_INDEX_SUFFIX), TIME_ENTRY)
    timestamps = entries["timestamp"].astype(np.int64)
    relative = entries["offset"].astype(np.int64)
    sound = _growing(timestamps, np.arange(len(timestamps)))
    return TimeHints(timestamps[:sound], base_offset_of(log_path) + relative[:sound])


def base_offset_of(log_path: str) -> int:
    """Return what a segment's name says."""
    return int(PurePosixPath(log_path).stem)


def _entries(data: bytes | None, dtype: np.dtype[Any]) -> NDArray[Any]:
    data = data or b""
    return np.frombuffer(data[: len(data) - len(data) % dtype.itemsize], dtype=dtype)


def _growing(first: NDArray[Any], second: NDArray[Any]) -> int:
    """Return how many entries stand before the first that does not grow: zeros follow them."""
    if not len(first):
        return 0
    bad = (np.diff(first) <= 0) | (np.diff(second) <= 0)
    if first[0] < 0 or second[0] < 0 or not (first[0] or second[0] or len(first) == 1):
        return 0
    return int(np.argmax(bad)) + 1 if bad.any() else len(first)
