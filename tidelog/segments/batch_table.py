"""BatchTable: the headers of many record batches as the columns of one NumPy array.

The layout of a header is drawn in `protocol.record_batch_header`; here it is a packed dtype, laid
over all headers at once, so that a thousand batches cost what one costs in Python.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.checksum import crc32c
from protocol.compression import Codec
from protocol.identifiers import Buffer
from protocol.limits import (
    DECOMPRESSED_BYTES_MAX,
    INT32_MAX,
    INT64_MAX,
    RECORDS_PER_BATCH_MAX,
)
from protocol.record_batch_header import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_MIN,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    RECORD_BYTES_MIN,
)
from tidelog.segments.kernel_choice import chosen_kernel
from tidelog.segments.kernel_numpy import find_batches

__all__ = [
    "BATCH_BYTES_MAX", "BATCH_DTYPE", "NO_TIMESTAMP_FLAG", "BatchTable", "WalkedBatches", "walk",
    "wrong_crcs",
]  # fmt: skip

BatchTable = NDArray[Any]
"""Rows of `BATCH_DTYPE`, in the order of the file."""

_STORED: Final = np.dtype(
    [
        ("base_offset", ">i8"), ("batch_length", ">i4"), ("leader_epoch", ">i4"), ("magic", "i1"),
        ("crc", ">u4"), ("attributes", ">i2"), ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"), ("max_timestamp", ">i8"), ("producer_id", ">i8"),
        ("producer_epoch", ">i2"), ("base_sequence", ">i4"), ("record_count", ">i4"),
    ]
)  # fmt: skip
assert _STORED.itemsize == HEADER_BYTES, "the dtype and the header disagree"

BATCH_DTYPE: Final = np.dtype(
    [
        ("position", "i8"), ("size_bytes", "i4"), ("base_offset", "i8"), ("last_offset", "i8"),
        ("record_count", "i4"), ("leader_epoch", "i4"), ("attributes", "i2"), ("crc", "u4"),
        ("base_timestamp", "i8"), ("max_timestamp", "i8"), ("producer_id", "i8"),
        ("producer_epoch", "i2"), ("base_sequence", "i4"),
    ]
)  # fmt: skip
"""Times are milliseconds; `position` is where the batch begins in what was walked."""

BATCH_BYTES_MAX: Final = DECOMPRESSED_BYTES_MAX
"""No larger batch is read: none could be decoded, and a damaged length shall not have a gigabyte
read."""

NO_TIMESTAMP_FLAG: Final = 1 << 14
"""Not stored: an attribute of batches that were made of messages without timestamps."""
CODEC_MAX: Final = max(Codec)

COMPILED_BYTES_MIN: Final = 2 << 20
"""In less the batches are found in plain Python: the compiled kernel takes a moment to load."""

_length_and_magic = struct.Struct(">8xi4xb").unpack_from


class WalkedBatches(NamedTuple):
    """The whole batches at the beginning of some bytes."""

    table: BatchTable
    end_position: int
    """Behind the last of them."""
    fault: str | None
    """Why it ends there, if what follows is no batch; None if it is cut, or there is nothing."""


def walk(data: Buffer, position: int = 0) -> WalkedBatches:
    """Find the whole record batches from a position on.

    Checks what a header can be held against without the body: its size, its magic, that offsets go
    up and that there is room for its records. Message formats 0 and 1 end it with a fault.
    """
    raw = np.frombuffer(data, dtype=np.uint8)
    positions = np.empty((len(raw) - position) // HEADER_BYTES + 1, dtype=np.int64)
    is_large = len(raw) - position >= COMPILED_BYTES_MIN
    find = chosen_kernel().find_batches if is_large else find_batches
    count, position = find(raw, position, positions)
    fault = _fault_at(data, position) if len(raw) - position >= HEADER_BYTES else None
    table = _table(raw, positions[:count])
    unsound = _first_unsound(table)
    if unsound is None:
        return WalkedBatches(table, position, fault)
    row = table[unsound]
    return WalkedBatches(table[:unsound], int(row["position"]), "its header cannot be")


def _fault_at(data: Buffer, position: int) -> str | None:
    """Return why what is behind the last whole batch is none; None if it is only cut."""
    length, magic = _length_and_magic(data, position)
    if magic != MAGIC:
        return f"magic {magic & 0xFF} is not that of a record batch"
    return f"a batch length of {length}" if length < LENGTH_MIN else None


def _table(raw: NDArray[Any], at: NDArray[Any]) -> BatchTable:
    if len(at):
        every_place: NDArray[Any] = np.ndarray(
            (len(raw) - HEADER_BYTES + 1,), dtype=_STORED, buffer=raw, strides=(1,)
        )
        stored = every_place[at]
    else:
        stored = np.empty(0, dtype=_STORED)
    table = np.empty(len(at), dtype=BATCH_DTYPE)
    table["position"] = at
    table["size_bytes"] = stored["batch_length"].astype(np.int64) + LOG_OVERHEAD_BYTES
    table["last_offset"] = stored["base_offset"].astype(np.int64) + stored["last_offset_delta"]
    for name in BATCH_DTYPE.names or ():
        if name not in ("position", "size_bytes", "last_offset"):
            table[name] = stored[name]
    return table


def _first_unsound(table: BatchTable) -> int | None:
    """Return the first row whose numbers cannot be, as `protocol` would refuse them one by one."""
    room = (table["size_bytes"] - HEADER_BYTES) // RECORD_BYTES_MIN
    is_open = (table["attributes"] & CODEC_MASK) == 0  # compressed ones say nothing of their room
    deltas = table["last_offset"] - table["base_offset"]
    unsound = (
        (table["record_count"] < 0)
        | (table["record_count"] > RECORDS_PER_BATCH_MAX)
        | (is_open & (table["record_count"] > room))
        | (table["base_offset"] < 0)
        | (table["last_offset"] < table["base_offset"])  # or beyond int64
        | (table["last_offset"] == INT64_MAX)
        | (deltas > INT32_MAX)
        | (deltas + 1 < table["record_count"])
        | ((table["attributes"] & CODEC_MASK) > CODEC_MAX)
    )
    unsound[1:] |= table["base_offset"][1:] <= table["last_offset"][:-1]
    found = np.flatnonzero(unsound)
    return int(found[0]) if len(found) else None


def wrong_crcs(data: memoryview, table: BatchTable) -> NDArray[Any]:
    """Return the rows whose CRC is wrong: an array of their numbers, as a rule empty."""
    starts = table["position"]
    begins = (starts + ATTRIBUTES_POSITION).tolist()
    ends = (starts + table["size_bytes"]).tolist()
    spans = map(slice, begins, ends)  # all in C: a microsecond of Python a batch is a fifth of all
    found = np.fromiter(
        map(crc32c, map(data.__getitem__, spans)), dtype=np.uint32, count=len(begins)
    )
    return np.flatnonzero(found != table["crc"])
