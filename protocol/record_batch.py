"""RecordBatch: message format v2, the stored form: check, stamp, and read what is inside.

The layout is drawn in record_batch_header.py and record.py. A batch is read where it lies, in
any buffer: `position` is always that of its first byte. The functions on the way of a produce
request (check_produced_batch, stamp_offset, stamp_log_append_time) look at the header alone and
copy nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from protocol import limits
from protocol.checksum import crc32c
from protocol.compression import Codec, decompress
from protocol.errors import (
    BatchCorruptError,
    BatchTruncatedError,
    CorruptMessageError,
    InvalidRecordError,
    UnsupportedCompressionError,
    UnsupportedForMessageFormatError,
)
from protocol.identifiers import NO_PRODUCER_ID, NO_TIMESTAMP, UNKNOWN_OFFSET, Buffer
from protocol.record import Headers, Record, decode_records, new_tuple, scan_records
from protocol.record_batch_header import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_FLAG,
    CRC,
    CRC_POSITION,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_BYTES,
    LEADER_EPOCH_POSITION,
    LENGTH_MIN,
    LENGTH_POSITION,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    RECORD_BYTES_MIN,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    TimestampType,
    parse_header,
)
from protocol.value_cursor import ValueCursor

__all__ = [
    "HEADER",
    "HEADER_BYTES",
    "LOG_OVERHEAD_BYTES",
    "MAGIC",
    "BatchHeader",
    "Headers",
    "Record",
    "TimestampType",
    "check_batch",
    "check_produced_batch",
    "iterate_batches",
    "iterate_records",
    "iterate_timestamps",
    "max_timestamp_and_offset",
    "open_values",
    "parse_header",
    "stamp_log_append_time",
    "stamp_offset",
]

OFFSET: Final = struct.Struct(">q")
EPOCH: Final = struct.Struct(">i")
ATTRIBUTES: Final = struct.Struct(">h")

CODEC_MAX: Final = int(max(Codec))
NOT_FOR_PRODUCERS: Final = LOG_APPEND_TIME_FLAG | CONTROL_FLAG | DELETE_HORIZON_FLAG

unpack_header: Final = HEADER.unpack_from
pack_offset: Final = OFFSET.pack_into
pack_epoch: Final = EPOCH.pack_into


def check_batch(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Check a batch as it may be stored, a cleaned one too: presence, header, CRC.

    Raises:
        BatchTruncatedError: the buffer ends inside the batch.
        BatchCorruptError: impossible header, or the CRC does not match.
    """
    header = parse_header(buffer, position)
    _check_body(buffer, position, header)
    return header


def check_produced_batch(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Check a batch as a producer may send it; its base offset is ignored, records not decoded.

    On top of `check_batch`: at least one record, as many as it takes up offsets, a known codec,
    CreateTime, no control batch, no delete horizon; a producer id comes with epoch and sequence.
    Transactional batches pass: whether they are allowed is not the format's business.

    Raises:
        BatchTruncatedError: the buffer ends inside the batch.
        BatchCorruptError: impossible length or magic, or the CRC does not match.
        UnsupportedForMessageFormatError: it is a message of format v0 or v1.
        UnsupportedCompressionError: the codec's number is not defined.
        InvalidRecordError: a sound batch that no producer may send.
    """
    # One expression for what nearly all batches have in common: this runs for each that comes in.
    # What it does not let through is looked at in detail below.
    try:
        fields: Any = unpack_header(buffer, position)
    except struct.error:
        _refuse_short(buffer, position)
    _, length, _, magic, crc, attributes, last_delta, _, _, producer, epoch, sequence, count = (
        fields
    )
    end = position + LOG_OVERHEAD_BYTES + length
    if (
        magic != MAGIC
        or count < 1
        or last_delta != count - 1
        or count * RECORD_BYTES_MIN > length - LENGTH_MIN
        or not 0 <= attributes <= CODEC_MAX
        or (producer != NO_PRODUCER_ID and (producer < 0 or epoch < 0 or sequence < 0))
        or end > len(buffer)
    ):
        header: BatchHeader = new_tuple(BatchHeader, fields)
        _check_unusual(buffer, position, header)
        return header
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    if crc32c(view[position + ATTRIBUTES_POSITION : end]) != crc:
        raise BatchCorruptError(position, f"crc {crc:#010x} does not match")
    return new_tuple(BatchHeader, fields)


def _check_unusual(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Check a produced batch rule by rule: damage first, then what producers may not do."""
    if header.magic != MAGIC:
        _refuse_magic(header.magic, position)
    if header.batch_length < LENGTH_MIN:
        raise BatchCorruptError(position, f"batch_length {header.batch_length}")
    _check_body(buffer, position, header)
    attributes, count, producer_id = header.attributes, header.record_count, header.producer_id
    if attributes & CODEC_MASK > Codec.ZSTD:
        raise UnsupportedCompressionError(f"codec {attributes & CODEC_MASK} is not defined")
    if not 0 < count <= limits.RECORDS_PER_BATCH_MAX:
        raise InvalidRecordError(f"a batch of {count} records")
    if header.last_offset_delta != count - 1:
        text = f"{count} records, but last_offset_delta {header.last_offset_delta}"
        raise InvalidRecordError(text)
    if attributes & CODEC_MASK == 0 and count * RECORD_BYTES_MIN > header.batch_length - LENGTH_MIN:
        raise InvalidRecordError(f"{count} records do not fit {header.batch_length} bytes")
    if attributes & NOT_FOR_PRODUCERS:
        raise InvalidRecordError(
            f"attributes {attributes:#06x}: control, LogAppendTime and the delete horizon are set"
            " by the broker only"
        )
    if producer_id == NO_PRODUCER_ID:
        if attributes & TRANSACTIONAL_FLAG:
            raise InvalidRecordError("a transactional batch without a producer id")
    elif producer_id < 0 or header.producer_epoch < 0 or header.base_sequence < 0:
        raise InvalidRecordError(
            f"producer id {producer_id} with epoch {header.producer_epoch}"
            f" and base sequence {header.base_sequence}"
        )


def _refuse_short(buffer: Buffer, position: int) -> NoReturn:
    """Tell a cut header from a message of an older format, which may be shorter than one."""
    if len(buffer) > position + MAGIC_POSITION and buffer[position + MAGIC_POSITION] < MAGIC:
        _refuse_magic(buffer[position + MAGIC_POSITION], position)
    raise BatchTruncatedError(position, "header")


def _refuse_magic(magic: int, position: int) -> NoReturn:
    if 0 <= magic < MAGIC:
        raise UnsupportedForMessageFormatError(f"a message of format v{magic} at byte {position}")
    raise BatchCorruptError(position, f"magic is {magic}, not {MAGIC}")


def _check_body(buffer: Buffer, position: int, header: BatchHeader) -> None:
    end = position + LOG_OVERHEAD_BYTES + header.batch_length
    if end > len(buffer):
        raise BatchTruncatedError(position, "body")
    crc = crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : end])
    if crc != header.crc:
        raise BatchCorruptError(position, f"crc {header.crc:#010x} does not match {crc:#010x}")


def iterate_batches(
    buffer: Buffer, position: int = 0, end: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """Walk batches by their headers, from `position` to `end` (the buffer's, unless given).

    Raises:
        BatchTruncatedError: while iterating: the bytes end inside the last batch.
        BatchCorruptError: while iterating: an impossible header. CRCs are not checked.
    """
    if end is None:
        end = len(buffer)
    while position < end:
        if end - position < HEADER_BYTES:
            raise BatchTruncatedError(position, "header")
        header = parse_header(buffer, position)
        next_position = position + LOG_OVERHEAD_BYTES + header.batch_length
        if next_position > end:
            raise BatchTruncatedError(position, "body")
        yield position, header
        position = next_position


def stamp_offset(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Set base offset and leader epoch in place. Both are outside the CRC's range."""
    pack_offset(buffer, position, base_offset)
    pack_epoch(buffer, position + LEADER_EPOCH_POSITION, leader_epoch)


def stamp_log_append_time(buffer: bytearray | memoryview, position: int, timestamp_ms: int) -> None:
    """Make a checked batch one of LogAppendTime, in place: bit 3, max timestamp, and the CRC."""
    (length,) = EPOCH.unpack_from(buffer, position + LENGTH_POSITION)
    attributes_position = position + ATTRIBUTES_POSITION
    (attributes,) = ATTRIBUTES.unpack_from(buffer, attributes_position)
    ATTRIBUTES.pack_into(buffer, attributes_position, attributes | LOG_APPEND_TIME_FLAG)
    pack_offset(buffer, position + MAX_TIMESTAMP_POSITION, timestamp_ms)
    end = position + LOG_OVERHEAD_BYTES + length
    with memoryview(buffer) as view:
        CRC.pack_into(buffer, position + CRC_POSITION, crc32c(view[attributes_position:end]))


def iterate_records(
    buffer: Buffer, position: int = 0, *, size_bytes_max: int = limits.DECOMPRESSED_BYTES_MAX
) -> Iterator[Record]:
    """Decode the batch at `position`, record by record; the CRC is not checked (`check_batch`).

    Control batches are decoded too: their keys are version:i16 type:i16.

    Args:
        size_bytes_max: The most that a compressed batch may decompress to.

    Raises:
        BatchTruncatedError: the buffer ends inside the batch.
        BatchCorruptError: at once or while iterating: header or records are wrong.
        MessageTooLargeError: it decompresses to more than `size_bytes_max`.
        UnsupportedCompressionError: the codec's number is not defined.
    """
    header = parse_header(buffer, position)
    data = _records_data(buffer, position, header, size_bytes_max)
    return decode_records(data, header, position)


def open_values(
    buffer: Buffer, position: int = 0, *, size_bytes_max: int = limits.DECOMPRESSED_BYTES_MAX
) -> ValueCursor:
    """As `iterate_records`, but only (offset, value) of each record."""
    header = parse_header(buffer, position)
    data = _records_data(buffer, position, header, size_bytes_max)
    return ValueCursor(data, header, position)


def iterate_timestamps(
    buffer: Buffer, position: int = 0, *, size_bytes_max: int = limits.DECOMPRESSED_BYTES_MAX
) -> Iterator[tuple[int, int]]:
    """As `iterate_records`, but only (timestamp, offset) of each record: 2 to 3 times as fast."""
    header = parse_header(buffer, position)
    data = _records_data(buffer, position, header, size_bytes_max)
    return scan_records(data, header, position)


def max_timestamp_and_offset(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the largest record timestamp and the first offset that has it, by the records.

    (-1, -1) for a batch without records. Errors as `iterate_records`.
    """
    largest, largest_offset = int(NO_TIMESTAMP), int(UNKNOWN_OFFSET)
    for timestamp, offset in iterate_timestamps(buffer, position):
        if timestamp > largest or largest_offset < 0:
            largest, largest_offset = timestamp, offset
    return largest, largest_offset


def _records_data(buffer: Buffer, position: int, header: BatchHeader, size_bytes_max: int) -> bytes:
    """Return the records of a batch, decompressed: one copy, from which slices are cheap."""
    end = position + LOG_OVERHEAD_BYTES + header.batch_length
    if end > len(buffer):
        raise BatchTruncatedError(position, "body")
    with memoryview(buffer) as view, view[position + HEADER_BYTES : end] as records:
        codec = header.attributes & CODEC_MASK
        if codec == Codec.NONE or (not records and header.record_count == 0):
            return bytes(records)
        try:
            data = decompress(codec, records, size_bytes_max=size_bytes_max)
        except CorruptMessageError as error:
            raise BatchCorruptError(position, f"codec {codec}: {error.reason}") from None
    return data
