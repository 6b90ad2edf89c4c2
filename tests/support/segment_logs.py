"""Segments on disk, with the indexes that a broker would have beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from protocol.checksum import crc32c
from protocol.record_batch import parse_header
from protocol.record_batch_header import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CRC,
    CRC_POSITION,
    HEADER,
    LENGTH_MIN,
)
from protocol.stored.file_names import (
    log_file_name,
    offset_index_file_name,
    time_index_file_name,
)
from protocol.stored.index_entries import (
    OffsetIndexEntry,
    TimeIndexEntry,
    encode_offset_index,
    encode_time_index,
)


def write_partition(
    directory: Path, segments: Sequence[Sequence[bytes]], *, batches_per_entry: int = 2
) -> Path:
    """Write segments of whole batches and their indexes; return the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for batches in segments:
        write_segment(directory, batches, batches_per_entry=batches_per_entry)
    return directory


def write_segment(directory: Path, batches: Sequence[bytes], *, batches_per_entry: int) -> Path:
    """Write one segment; its name is the first batch's offset."""
    base = parse_header(batches[0]).base_offset
    offsets: list[OffsetIndexEntry] = []
    times: list[TimeIndexEntry] = []
    position, largest = 0, TimeIndexEntry(-1, base)
    for number, batch in enumerate(batches):
        header = parse_header(batch)
        if header.max_timestamp > largest.timestamp:
            largest = TimeIndexEntry(header.max_timestamp, header.last_offset)
        if number and number % batches_per_entry == 0:
            offsets.append(OffsetIndexEntry(header.last_offset, position))
            if not times or largest.timestamp > times[-1].timestamp:
                times.append(largest)
        position += len(batch)
    if largest.timestamp >= 0 and (not times or largest.timestamp > times[-1].timestamp):
        times.append(largest)
    path = directory / log_file_name(base)
    path.write_bytes(b"".join(batches))
    (directory / offset_index_file_name(base)).write_bytes(encode_offset_index(offsets, base))
    (directory / time_index_file_name(base)).write_bytes(encode_time_index(times, base))
    return path


def emptied(batch: bytes) -> bytes:
    """Return a batch as a cleaner leaves it that keeps none of its records."""
    header = parse_header(batch)
    bare = HEADER.pack(
        *header._replace(
            batch_length=LENGTH_MIN, record_count=0, attributes=header.attributes & ~CODEC_MASK
        )
    )
    sealed = bytearray(bare)
    CRC.pack_into(sealed, CRC_POSITION, crc32c(memoryview(sealed)[ATTRIBUTES_POSITION:]))
    return bytes(sealed)
