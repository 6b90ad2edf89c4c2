"""RecordBatchBuilder: batches of format v2 from records.

Three ways in: `build_batch` for any records with their offsets (compaction, conversion, markers),
`RecordBatchBuilder` for clients that fill a batch up to a size, and `build_value_batch` for the
broker, which stores the values of the simple formats. The layout is drawn in
record_batch_header.py and record.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final, TypedDict, Unpack

from protocol.checksum import crc32c
from protocol.compression import Codec, compress
from protocol.errors import MessageTooLargeError
from protocol.identifiers import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Buffer,
)
from protocol.limits import BATCH_BYTES_MAX, RECORDS_PER_BATCH_MAX
from protocol.record import Headers, Record
from protocol.record_batch_header import (
    ATTRIBUTES_POSITION,
    CONTROL_FLAG,
    CRC,
    CRC_POSITION,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    TimestampType,
)
from protocol.varint import encode_varint, encode_varlong, size_of_varint

__all__ = ["BatchOptions", "RecordBatchBuilder", "build_batch", "build_value_batch"]

SMALL: Final = 2048
"""Numbers below this are encoded by table; above, the bytes cost more than the call."""
TINY: Final = 64
"""Numbers below this take one byte, the other small ones two."""
VARINTS: Final = tuple(map(encode_varint, range(SMALL)))
RECORD_LENGTHS: Final = (*VARINTS, *map(encode_varint, range(SMALL, SMALL + 16)))
"""Of value records: a few bytes above the value's size."""
NULL: Final = encode_varint(-1)
NO_HEADERS: Final = VARINTS[0]
NO_ATTRIBUTES: Final = b"\0"
HEADER_PLACE: Final = bytes(HEADER_BYTES)

HEAD_END: Final = NO_ATTRIBUTES + VARINTS[0]
FIXED_BYTES: Final = len(HEAD_END) + len(NULL) + len(NO_HEADERS)
"""Of a value record, beside its offset delta, the value and the value's length."""

pack_header: Final = HEADER.pack_into
pack_crc: Final = CRC.pack_into

DELTA_RANGES: Final = (
    (1, 0, 2**6),
    (2, 2**6, 2**13),
    (3, 2**13, 2**20),
    (4, 2**20, 2**27),
)
"""How many bytes an offset delta takes, zig-zag: from, and up to but without."""
assert DELTA_RANGES[-1][2] > RECORDS_PER_BATCH_MAX, "every offset delta has its number of bytes"


class BatchOptions(TypedDict, total=False):
    """The fields of a header that do not follow from the records; each has a default."""

    base_offset: int
    """0: producers' batches have that, and the broker stamps the offset."""
    codec: Codec
    timestamp_type: TimestampType
    """With LogAppendTime readers see `max_timestamp` as the timestamp of every record."""
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool
    last_offset_delta: int | None
    """None: the last record's. Cleaned batches keep the one they had."""
    max_timestamp: int | None
    """None: the records' largest, -1 if there are none."""
    delete_horizon_ms: int | None
    """When a cleaned batch's tombstones or markers may go; stored as its base timestamp."""


class RecordBatchBuilder:
    """Collects records for one batch; offsets are 0, 1, 2, ..., as producers send them."""

    __slots__ = ("_base_timestamp", "_max_timestamp", "_parts", "count", "size_bytes")

    def __init__(self) -> None:
        self.count = 0
        self.size_bytes = HEADER_BYTES
        """Of the batch as it is now, uncompressed."""
        self._parts: list[bytes] = []
        self._base_timestamp = self._max_timestamp = int(NO_TIMESTAMP)

    def append(
        self, timestamp: int, key: Buffer | None, value: Buffer | None, headers: Headers = ()
    ) -> int:
        """Add a record; return `size_bytes` with it. ValueError if a number does not fit."""
        if self.count == 0:
            self._base_timestamp = self._max_timestamp = timestamp
        elif timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        record = _encode_record(self.count, timestamp - self._base_timestamp, key, value, headers)
        self._parts.append(record)
        self.count += 1
        self.size_bytes += len(record)
        return self.size_bytes

    def build(self, **options: Unpack[BatchOptions]) -> bytes:
        """Return the batch of all records so far; the builder stays as it is.

        Raises:
            ValueError: there are no records.
            MessageTooLargeError: the batch would be over 2 GiB.
        """
        if not self.count:
            raise ValueError("a batch without records")
        times = self._base_timestamp, self._max_timestamp
        return _assemble(self._parts, self.count - 1, *times, options)


def build_batch(
    records: Iterable[Record | tuple[Any, ...]], **options: Unpack[BatchOptions]
) -> bytes:
    """Return a batch of records that have their offsets already.

    Args:
        records: In the order of their offsets, none below `base_offset`; tuples (offset,
            timestamp, key, value[, headers]) will do. May be empty if `last_offset_delta` is
            given, as cleaned batches are.
        options: See `BatchOptions`.

    Raises:
        ValueError: offsets out of order, no offsets at all, or numbers that do not fit.
        MessageTooLargeError: the batch would be over 2 GiB.
    """
    base_offset = options.get("base_offset", 0)
    base_timestamp = options.get("delete_horizon_ms")
    max_timestamp, last_delta = None, -1
    parts: list[bytes] = []
    for record in records:
        offset, timestamp, key, value = record[:4]
        if base_timestamp is None:
            base_timestamp = timestamp
        if max_timestamp is None or timestamp > max_timestamp:
            max_timestamp = timestamp
        delta = offset - base_offset
        if delta <= last_delta:
            raise ValueError(f"offset {offset} is not above {base_offset + last_delta}")
        last_delta = delta
        headers = record[4] if len(record) > 4 else ()
        parts.append(_encode_record(delta, timestamp - base_timestamp, key, value, headers))
    if max_timestamp is None:
        max_timestamp = int(NO_TIMESTAMP)
    if base_timestamp is None:
        base_timestamp = int(NO_TIMESTAMP)
    return _assemble(parts, last_delta, base_timestamp, max_timestamp, options)


def build_value_batch(
    values: Sequence[Buffer], timestamp_ms: int, codec: Codec = Codec.NONE
) -> bytearray:
    """Return a batch of values alone: keys null, no headers, one timestamp, offsets 0, 1, 2, ...

    Raises:
        ValueError: no values, or more than a batch may have.
        MessageTooLargeError: the batch would be over 2 GiB.
    """
    count = len(values)
    if not 0 < count <= RECORDS_PER_BATCH_MAX:
        raise ValueError(f"a batch of {count} values")
    parts: list[Buffer] = [HEADER_PLACE]
    for delta_bytes, start, stop in DELTA_RANGES:
        if start >= count:
            break
        _append_values(parts, values[start:stop], start, delta_bytes)
    parts[1] = parts[1][len(NO_HEADERS) :]  # the first head ends no record
    parts.append(NO_HEADERS)
    if codec != Codec.NONE:
        parts = [HEADER_PLACE, compress(codec, b"".join(parts[1:]))]
    batch = bytearray().join(parts)
    size_bytes = len(batch) - LOG_OVERHEAD_BYTES
    if size_bytes > BATCH_BYTES_MAX:
        raise MessageTooLargeError(size_bytes, BATCH_BYTES_MAX)
    # Written out rather than by way of options: batches of one value are frequent here.
    pack_header(
        batch, 0, 0, size_bytes, -1, MAGIC, 0, codec, count - 1, timestamp_ms, timestamp_ms,
        -1, -1, -1, count,
    )  # fmt: skip
    pack_crc(batch, CRC_POSITION, crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]))
    return batch


def _append_values(
    parts: list[Buffer], values: Sequence[Buffer], first_delta: int, delta_bytes: int
) -> None:
    """Append the parts of value records whose offset deltas take `delta_bytes` each.

    A record is `head delta tail value`. The head begins with the header count of the record
    before and ends with attributes and timestamp delta; the tail is a null key and the value's
    length. Both depend on the value's size alone.
    """
    heads, tails = _value_heads(delta_bytes), _value_tails()
    deltas = _deltas(first_delta, first_delta + len(values))
    for value, delta in zip(values, deltas, strict=True):
        size = len(value)
        if size < SMALL:
            parts += (heads[size], delta, tails[size], value)
        else:
            head = _value_head(delta_bytes, size)
            parts += (head, delta, NULL + encode_varint(size), value)


def _value_head(delta_bytes: int, value_bytes: int) -> bytes:
    length = FIXED_BYTES + delta_bytes + size_of_varint(value_bytes) + value_bytes
    return NO_HEADERS + encode_varint(length) + HEAD_END


@cache
def _value_heads(delta_bytes: int) -> tuple[bytes, ...]:
    """Return `_value_head` of every small size.

    Built at its first use, on an event loop: by slices it takes 0.2 ms, by calls it took 2 to 5.
    """
    tiny = FIXED_BYTES + delta_bytes + 1  # of values whose length takes one byte, the rest two
    other = tiny + 1
    lengths = RECORD_LENGTHS[tiny : tiny + TINY] + RECORD_LENGTHS[other + TINY : other + SMALL]
    return tuple([NO_HEADERS + length + HEAD_END for length in lengths])


@cache
def _value_tails() -> tuple[bytes, ...]:
    return tuple([NULL + varint for varint in VARINTS])


def _deltas(start: int, stop: int) -> Iterable[bytes]:
    """Return the varints of offset deltas, by table as far as it goes."""
    if stop <= SMALL:
        return VARINTS[start:stop]
    return chain(VARINTS[start:], map(encode_varint, range(max(start, SMALL), stop)))


def _encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Headers,
) -> bytes:
    """Return one record, its length in front."""
    body = b"".join(
        (
            NO_ATTRIBUTES,
            VARINTS[timestamp_delta]
            if 0 <= timestamp_delta < SMALL
            else encode_varlong(timestamp_delta),
            VARINTS[offset_delta] if offset_delta < SMALL else encode_varint(offset_delta),
            NULL if key is None else _varint(len(key)),
            key or b"",
            NULL if value is None else _varint(len(value)),
            value or b"",
            _encode_headers(headers) if headers else NO_HEADERS,
        )
    )
    return _varint(len(body)) + body


def _encode_headers(headers: Headers) -> bytes:
    parts: list[Buffer] = [_varint(len(headers))]
    for name, value in headers:
        encoded = name.encode("utf-8", "surrogateescape")
        parts += (_varint(len(encoded)), encoded)
        parts += (NULL, b"") if value is None else (_varint(len(value)), value)
    return b"".join(parts)


def _varint(number: int) -> bytes:
    return VARINTS[number] if number < SMALL else encode_varint(number)


def _assemble(
    records: Sequence[bytes],
    last_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    options: BatchOptions,
) -> bytes:
    """Put the header before the records, compressing them if so wished."""
    codec = options.get("codec", Codec.NONE)
    given_last, given_max = options.get("last_offset_delta"), options.get("max_timestamp")
    if given_last is not None:
        if given_last < last_delta:
            raise ValueError(f"last_offset_delta {given_last}, but a record at {last_delta}")
        last_delta = given_last
    if last_delta < 0:
        raise ValueError("a batch that takes up no offset")
    if codec == Codec.NONE or not records:
        codec = Codec.NONE
        batch = bytearray().join((HEADER_PLACE, *records))
    else:
        batch = bytearray().join((HEADER_PLACE, compress(codec, b"".join(records))))
    size_bytes = len(batch) - LOG_OVERHEAD_BYTES
    if size_bytes > BATCH_BYTES_MAX:
        raise MessageTooLargeError(size_bytes, BATCH_BYTES_MAX)
    header = BatchHeader(
        base_offset=options.get("base_offset", 0),
        batch_length=size_bytes,
        leader_epoch=options.get("leader_epoch", NO_LEADER_EPOCH),
        magic=MAGIC,
        crc=0,
        attributes=int(codec) | _flags(options),
        last_offset_delta=last_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp if given_max is None else given_max,
        producer_id=options.get("producer_id", NO_PRODUCER_ID),
        producer_epoch=options.get("producer_epoch", NO_PRODUCER_EPOCH),
        base_sequence=options.get("base_sequence", NO_SEQUENCE),
        record_count=len(records),
    )
    pack_header(batch, 0, *header)
    pack_crc(batch, CRC_POSITION, crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]))
    return bytes(batch)


def _flags(options: BatchOptions) -> int:
    flags = 0
    if options.get("timestamp_type", TimestampType.CREATE_TIME) == TimestampType.LOG_APPEND_TIME:
        flags |= LOG_APPEND_TIME_FLAG
    if options.get("is_transactional", False):
        flags |= TRANSACTIONAL_FLAG
    if options.get("is_control", False):
        flags |= CONTROL_FLAG
    if options.get("delete_horizon_ms") is not None:
        flags |= DELETE_HORIZON_FLAG
    return flags
