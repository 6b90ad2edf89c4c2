"""`durable-offsets`: how far each partition's log has been fsynced; ours, not Kafka's.

A header of 32 bytes, then slots of 32 bytes, slot n at byte 32 + 32n. Big-endian.

    0           8             12                                   28            32
    +-----------+-------------+------------------------------------+-------------+
    | "TIDEDURO"| version i32 |        16 zero bytes               | crc32c u32  |   header
    +-----------+-------------+------------------------------------+-------------+
    0                         16               20                  28            32
    +-------------------------+----------------+-------------------+-------------+
    |       topic_id 16       | partition i32  | durable_offset i64| crc32c u32  |   slot
    +-------------------------+----------------+-------------------+-------------+

Both checksums are CRC-32C of the 28 bytes before them. A slot of 32 zero bytes is free. A slot is
written in place and never crosses a 512-byte sector, so a crash leaves its old or its new content;
one that is bad all the same is ignored: it is a hint lost, never an error. The topic id rather than
its name: a topic made anew under the same name must not inherit an offset.

A slot of partition -1 - p holds the *log start offset* of partition p, where that lies inside a
segment: a second copy, for the checkpoint of log starts has no checksum.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple
from uuid import UUID

from protocol.checksum import crc32c
from protocol.errors import StoredFormatError
from protocol.identifiers import Buffer

MAGIC: Final = b"TIDEDURO"
VERSION: Final = 1

HEADER: Final = struct.Struct(">8si16sI")
HEADER_BYTES: Final = 32
assert HEADER.size == HEADER_BYTES, "the picture above and the struct disagree"

SLOT: Final = struct.Struct(">16siqI")
SLOT_BYTES: Final = 32
assert SLOT.size == SLOT_BYTES, "the picture above and the struct disagree"

FREE_SLOT: Final = bytes(SLOT_BYTES)

_CHECKED_BYTES: Final = 28
_SLOT_BODY: Final = struct.Struct(">16siq")
_CHECKSUM: Final = struct.Struct(">I")
assert _SLOT_BODY.size == _CHECKED_BYTES, "the picture above and the struct disagree"


class DurableSlot(NamedTuple):
    """A slot in use: everything of the partition below `durable_offset` has been fsynced.

    Or, if `partition` is negative, everything of partition -1 - `partition` below it was deleted.
    """

    slot: int
    topic_id: UUID
    partition: int
    durable_offset: int


def encode_header() -> bytes:
    """Return the first 32 bytes of the file."""
    body = HEADER.pack(MAGIC, VERSION, bytes(16), 0)[:_CHECKED_BYTES]
    return body + _CHECKSUM.pack(crc32c(body))


def encode_slot(topic_id: bytes, partition: int, durable_offset: int) -> bytes:
    """Return the 32 bytes of a slot; `topic_id` is the UUID's 16 bytes (big-endian)."""
    body = _SLOT_BODY.pack(topic_id, partition, durable_offset)
    return body + _CHECKSUM.pack(crc32c(body))


def slot_position(slot: int) -> int:
    """Return the byte at which slot `slot` (from 0) starts."""
    return HEADER_BYTES + SLOT_BYTES * slot


def decode(data: Buffer) -> list[DurableSlot]:
    """Return the slots in use, in the file's order; an empty file has none.

    Free slots, bad ones and a cut one at the end are left out. If a partition has two slots, both
    are returned.

    Raises:
        StoredFormatError: the header is damaged or of another version; no hint can be had then.
    """
    view = memoryview(data)
    if not view:
        return []
    if len(view) < HEADER_BYTES:
        raise StoredFormatError(f"durable-offsets: {len(view)} bytes are no header")
    magic, version, _, crc = HEADER.unpack_from(view)
    if magic != MAGIC or crc != crc32c(view[:_CHECKED_BYTES]):
        raise StoredFormatError("durable-offsets: the header is damaged")
    if version != VERSION:
        raise StoredFormatError(f"durable-offsets: version {version} is not known, only {VERSION}")
    slots: list[DurableSlot] = []
    slot_count = (len(view) - HEADER_BYTES) // SLOT_BYTES
    for slot in range(slot_count):
        position = HEADER_BYTES + SLOT_BYTES * slot
        topic_id, partition, durable_offset, crc = SLOT.unpack_from(view, position)
        if crc != crc32c(view[position : position + _CHECKED_BYTES]):
            continue  # free, or a hint lost
        if durable_offset >= 0:
            slots.append(DurableSlot(slot, UUID(bytes=topic_id), partition, durable_offset))
    return slots
