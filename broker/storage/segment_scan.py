"""Scanning a sealed segment for the cleaner: every batch whole, checked, in large reads.

What is not as it should be ends the scan with an error: a cleaner that went on would carry damage
into a new file and drop the place where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from broker.storage.disk import DiskFile
from broker.storage.entry_walk import EntryHeader, LegacyHeader
from protocol.checksum import crc32c
from protocol.errors import BatchCorruptError, BatchTruncatedError, CorruptMessageError
from protocol.legacy_message_set import check_entry
from protocol.record_batch_header import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    LENGTH_MIN,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
    RECORD_BYTES_MIN,
    BatchHeader,
    header_fault,
)

READ_BYTES: Final = 1024 * 1024

ScannedBatch: TypeAlias = tuple[bytes, int, EntryHeader, int]
"""Some bytes, where in them the batch starts, its header, its position in the file."""

_unpack_header = HEADER.unpack_from
_new_tuple = tuple.__new__


def scan_segment(
    file: DiskFile,
    size_bytes: int,
    base_offset: int,
    next_base_offset: int,
    note_read: Callable[[int], object],
) -> Iterator[ScannedBatch]:
    """Yield every batch and legacy entry of a segment, each checked; tell `note_read` of reads.

    Raises:
        BatchCorruptError, BatchTruncatedError: while iterating, with the position in the file.
        OSError: while iterating.
    """
    data, start, index = b"", 0, 0  # `data` is what the file holds from `start` on
    view = memoryview(data)
    expected_offset, ready = base_offset, -1  # up to which index a header can be unpacked
    while (position := start + index) < size_bytes:
        if index <= ready:  # in one expression what nearly all batches have in common
            fields = _unpack_header(data, index)
            offset, length, _, magic, crc, attributes, delta, _, _, _, _, _, count = fields
            end = index + LOG_OVERHEAD_BYTES + length
            if (
                magic == MAGIC
                and length >= LENGTH_MIN
                and end <= len(data)
                and expected_offset <= offset <= offset + delta < next_base_offset
                and 0 <= count <= delta + 1
                and (count * RECORD_BYTES_MIN <= length - LENGTH_MIN or attributes & CODEC_MASK)
                and crc32c(view[index + ATTRIBUTES_POSITION : end]) == crc
            ):
                yield data, index, _new_tuple(BatchHeader, fields), position
                expected_offset, index = offset + delta + 1, end
                continue
        size = _size_at(data, index)
        if size > len(data) - index:
            data, start, index = data[index:], position, 0
            wanted = min(max(READ_BYTES, size) - len(data), size_bytes - start - len(data))
            more = file.read(wanted, start + len(data)) if wanted > 0 else b""
            if len(more) < max(wanted, 1):
                raise BatchTruncatedError(position, f"{size} bytes, more than are left")
            note_read(len(more))
            data += more
            view, ready = memoryview(data), len(data) - HEADER_BYTES
            continue
        header = _checked(data, index, position)
        _check_offsets(header, position, expected_offset, next_base_offset)
        yield data, index, header, position
        expected_offset = header.next_offset
        index += size


def _size_at(data: bytes, index: int) -> int:
    """Return the bytes of the batch at `index`, or, if its head is not there, of the head."""
    if len(data) - index <= MAGIC_POSITION:
        return MAGIC_POSITION + 1
    return LOG_OVERHEAD_BYTES + max(0, int.from_bytes(data[index + 8 : index + 12], signed=True))


def _check_offsets(header: EntryHeader, position: int, start: int, end: int) -> None:
    """Refuse what is not in `start` to `end`: no CRC covers an offset."""
    if not start <= header.base_offset < header.next_offset <= end:
        text = f"offsets {header.base_offset} to {header.last_offset}, "
        raise BatchCorruptError(position, f"{text}where {start} to {end - 1} may be")


def _checked(data: bytes, index: int, position: int) -> EntryHeader:
    """Return the header of the batch at `index`, all of whose bytes are there."""
    if data[index + MAGIC_POSITION] < MAGIC:
        return _checked_legacy(data, index, position)
    size = int.from_bytes(data[index + 8 : index + 12], signed=True)
    if size < LENGTH_MIN:
        raise BatchCorruptError(position, f"batch_length {size} is under {LENGTH_MIN}")
    header: BatchHeader = tuple.__new__(BatchHeader, _unpack_header(data, index))
    fault = header_fault(header)
    if fault:
        raise BatchCorruptError(position, fault)
    end = index + LOG_OVERHEAD_BYTES + size
    if crc32c(memoryview(data)[index + ATTRIBUTES_POSITION : end]) != header.crc:
        raise BatchCorruptError(position, "the crc does not match")
    return header


def _checked_legacy(data: bytes, index: int, position: int) -> LegacyHeader:
    try:
        entry = check_entry(data, index)
    except CorruptMessageError as error:
        raise BatchCorruptError(position, error.reason) from None
    return LegacyHeader(
        entry.offset, entry.size_bytes, entry.magic, entry.crc, entry.attributes, entry.timestamp
    )
