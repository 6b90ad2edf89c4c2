"""Records of a batch as slices of its bytes: what compaction looks at, and what it writes again.

The layout is drawn in record.py. Nothing is decoded but the numbers in front of the value: a record
that stays is copied as it is, for its deltas still hold in a batch with the same base offset and
base timestamp. Where the base timestamp becomes a delete horizon, the timestamp deltas are written
anew (`moved_record`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from protocol.identifiers import NO_TIMESTAMP
from protocol.record import NULL, T_MAX, T_MIN, record_error, refuse_length
from protocol.record_batch_header import BatchHeader
from protocol.varint import encode_varint, encode_varlong, raw_varint, raw_varlong

__all__ = ["RecordSlice", "moved_record", "slice_records"]

RecordSlice: TypeAlias = tuple[int, int, int, int, bytes | None, bool]
"""start, end, timestamp (of its own, whatever the batch's type), offset delta, key, has a value."""


def slice_records(
    data: bytes, position: int, end: int, header: BatchHeader, batch_position: int
) -> Iterator[RecordSlice]:
    """Yield the records in `data[position:end]`, which is all of a batch's, decompressed.

    Raises:
        BatchCorruptError: while iterating; not as many sound records, in order, as the header says.
    """
    base_timestamp, last, previous = header[7], header[6], -1
    try:
        for _ in range(header[12]):
            start = position
            if (raw := data[position]) > 0x7F:
                if (more := data[position + 1]) > 0x7F:
                    raw, position = raw_varint(data, position)
                else:
                    raw, position = raw + (more << 7) - 0x80, position + 1
            record_end = position + 1 + (raw >> 1)
            if raw & 1 or record_end > end:
                raise ValueError("its length is not inside the batch")
            if (raw := data[position := position + 2]) > 0x7F:  # 2: over the attributes
                raw, position = raw_varlong(data, position)
            timestamp = base_timestamp + (raw >> 1 ^ -(raw & 1))
            if (raw := data[position := position + 1]) > 0x7F:
                if (more := data[position + 1]) > 0x7F:
                    raw, position = raw_varint(data, position)
                else:
                    raw, position = raw + (more << 7) - 0x80, position + 1
            delta = raw >> 1
            if raw & 1 or not previous < delta <= last or not T_MIN <= timestamp <= T_MAX:
                raise ValueError("its offset or timestamp is out of order or range")
            if (raw := data[position := position + 1]) > 0x7F:
                raw, position = raw_varint(data, position)
            key: bytes | None = data[position + 1 : (position := position + 1 + (raw >> 1))]
            if raw & 1:
                key = None if raw == NULL else refuse_length(raw)
            has_value = data[position] != NULL
            if position >= record_end:
                raise ValueError("its fields do not add up to its length")
            yield start, record_end, timestamp, delta, key, has_value
            position, previous = record_end, delta
        if position != end:
            raise ValueError("bytes follow it, the last one of the batch")
    except (IndexError, ValueError) as error:
        raise record_error(error, batch_position, header[0] + previous) from None


def moved_record(data: bytes, start: int, end: int, timestamp_delta: int) -> bytes:
    """Return the record in `data[start:end]`, which is sound, with another timestamp delta.

    Raises:
        ValueError: the delta is no int64.
    """
    _, position = raw_varint(data, start)
    attributes = position + 1
    _, position = raw_varlong(data, attributes + 1)
    delta = encode_varlong(timestamp_delta)
    rest = data[position + 1 : end]
    length = encode_varint(1 + len(delta) + len(rest))
    return b"".join((length, data[attributes : attributes + 1], delta, rest))


def largest_timestamp(records: list[RecordSlice]) -> int:
    """Return the largest timestamp; -1 if there are no records."""
    return max((record[2] for record in records), default=int(NO_TIMESTAMP))
