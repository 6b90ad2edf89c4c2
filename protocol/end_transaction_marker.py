"""EndTransactionMarker: the record of a control batch that ends a transaction.

A control batch holds one record (KIP-98), numbers big-endian:

    key     version i16 (0)   type i16: 0 abort, 1 commit; others are not about transactions
    value   version i16 (0)   coordinator epoch i32

Later versions may append fields: what is known stands first.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from protocol.errors import BatchCorruptError
from protocol.identifiers import Buffer
from protocol.record_batch import iterate_records
from protocol.record_batch_builder import build_batch

ABORT: Final = 0
COMMIT: Final = 1

KEY: Final = struct.Struct(">hh")
VALUE: Final = struct.Struct(">hi")
assert (KEY.size, VALUE.size) == (4, 6), "the picture above and the structs disagree"

CONTROL_BATCH_BYTES_MAX: Final = 64 * 1024
"""Markers take 78 bytes; a control batch beyond this is none."""


class EndTransactionMarker(NamedTuple):
    """How a transaction ended."""

    is_commit: bool
    coordinator_epoch: int
    timestamp: int = -1
    """Milliseconds, the coordinator's clock."""


def decode_marker(buffer: Buffer, position: int = 0) -> EndTransactionMarker | None:
    """Return the marker in the control batch at `position`; its CRC is not checked.

    None if it holds none: a control batch of another kind, or one that the cleaner has emptied.

    Raises:
        BatchTruncatedError, BatchCorruptError: the record cannot be decoded, or is no control
            record.
    """
    for record in iterate_records(buffer, position, size_bytes_max=CONTROL_BATCH_BYTES_MAX):
        key, value = record.key, record.value
        if key is None or len(key) < KEY.size:
            raise BatchCorruptError(position, "a control record without version and type")
        _, kind = KEY.unpack_from(key)
        if kind not in (ABORT, COMMIT):
            return None
        if value is None or len(value) < VALUE.size:
            raise BatchCorruptError(position, "a transaction marker without coordinator epoch")
        _, coordinator_epoch = VALUE.unpack_from(value)
        return EndTransactionMarker(kind == COMMIT, coordinator_epoch, record.timestamp)
    return None


def build_marker_batch(
    marker: EndTransactionMarker, *, producer_id: int, producer_epoch: int, base_offset: int = 0
) -> bytes:
    """Return the control batch that ends the producer's transaction."""
    key = KEY.pack(0, COMMIT if marker.is_commit else ABORT)
    value = VALUE.pack(0, marker.coordinator_epoch)
    return build_batch(
        [(base_offset, marker.timestamp, key, value)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
