"""Segment dump: what one file of a partition holds, entry by entry, damaged ones included.

What is yielded are plain values; how they look is the caller's business.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from broker.stopped.log_scan import LogScan, ScannedEntry
from protocol.compression import Codec
from protocol.errors import StoredFormatError, TidelogError
from protocol.record import Record
from protocol.record_batch_header import BatchHeader
from protocol.stored import file_names, index_entries, producer_snapshot, transaction_index
from protocol.stored.index_entries import OffsetIndexEntry, TimeIndexEntry
from protocol.stored.producer_snapshot import ProducerEntry
from protocol.stored.transaction_index import AbortedTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedBatch:
    """One record batch (magic 2) or legacy entry (0, 1). None: the format does not say."""

    position: int
    size_bytes: int
    magic: int | None
    base_offset: int | None
    """Of a legacy wrapper, the offset of its last message."""
    last_offset: int | None
    record_count: int | None
    codec: str | None
    timestamp_type: str | None
    max_timestamp: int | None
    crc: int | None
    leader_epoch: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    base_sequence: int | None = None
    is_transactional: bool = False
    is_control: bool = False
    problem: str = ""
    """What is wrong with its bytes; empty if nothing is."""


@dataclass(frozen=True, slots=True)
class DumpedRecord:
    """One record, of the batch that was yielded last."""

    record: Record


@dataclass(frozen=True, slots=True)
class DumpedProblem:
    """What keeps the rest of the batch, or of the file, from being shown."""

    text: str


Dumped: TypeAlias = (
    DumpedBatch
    | DumpedRecord
    | DumpedProblem
    | OffsetIndexEntry
    | TimeIndexEntry
    | ProducerEntry
    | AbortedTransaction
)


def dump_segment(
    path: Path, *, records: bool = False, from_offset: int | None = None
) -> Iterator[Dumped]:
    """Yield what a `.log`, `.index`, `.timeindex`, `.snapshot` or `.txnindex` file holds.

    Args:
        records: Of a log, also every record, each after its batch.
        from_offset: Of a log, leave out batches (and records) that end below it.

    Raises:
        StoredFormatError: the name is none of a segment's file.
        OSError: the file cannot be read.
    """
    name = file_names.parse_file_name(path.name)
    if name is None and not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if name is None:
        raise StoredFormatError(
            f"{path.name} is no segment file: a name such as 00000000000000000042.log is expected"
        )
    if name.suffix == file_names.LOG_SUFFIX:
        return _log(path, records=records, from_offset=from_offset or 0)
    return _others(path, name.suffix, name.base_offset)


def _log(path: Path, *, records: bool, from_offset: int) -> Iterator[Dumped]:
    with LogScan(path) as scan:
        for entry in scan.entries():
            if entry.header is not None and entry.last_offset < from_offset:
                continue
            yield _batch(entry)
            if records and entry.data:
                yield from _records(entry, from_offset)


def _records(entry: ScannedEntry, from_offset: int) -> Iterator[Dumped]:
    try:
        for record in entry.records():
            if record.offset >= from_offset:
                yield DumpedRecord(record)
    except TidelogError as error:
        yield DumpedProblem(f"the records do not decode: {error}")


def _others(path: Path, suffix: str, base_offset: int) -> Iterator[Dumped]:
    data = path.read_bytes()
    try:
        if suffix == file_names.OFFSET_INDEX_SUFFIX:
            offsets = index_entries.decode_offset_index(data, base_offset)
            yield from offsets
            yield from _rest(data, len(offsets), index_entries.OFFSET_INDEX_ENTRY_BYTES)
        elif suffix == file_names.TIME_INDEX_SUFFIX:
            times = index_entries.decode_time_index(data, base_offset)
            yield from times
            yield from _rest(data, len(times), index_entries.TIME_INDEX_ENTRY_BYTES)
        elif suffix == file_names.SNAPSHOT_SUFFIX:
            yield from producer_snapshot.decode(data)
        else:
            yield from transaction_index.decode(data)
    except StoredFormatError as error:
        yield DumpedProblem(str(error))


def _rest(data: bytes, count: int, entry_bytes: int) -> Iterator[Dumped]:
    """Yield a problem if anything but zeros follows the entries of an index."""
    if data[count * entry_bytes :].strip(b"\0"):
        yield DumpedProblem(
            f"entry {count}, at byte {count * entry_bytes}, is not above the one before it: "
            "the index ends here"
        )


def _batch(entry: ScannedEntry) -> DumpedBatch:
    header = entry.header
    if header is None:
        return DumpedBatch(
            position=entry.position,
            size_bytes=entry.size_bytes,
            magic=None,
            base_offset=None,
            last_offset=None,
            record_count=None,
            codec=None,
            timestamp_type=None,
            max_timestamp=None,
            crc=None,
            problem=entry.problem,
        )
    extra = {}
    if isinstance(header, BatchHeader):
        names = ("leader_epoch", "producer_id", "producer_epoch", "base_sequence")
        extra = {name: getattr(header, name) for name in (*names, "is_transactional", "is_control")}
    return DumpedBatch(
        position=entry.position,
        size_bytes=entry.size_bytes,
        magic=header.magic,
        base_offset=entry.first_offset,
        last_offset=entry.last_offset,
        record_count=entry.record_count,
        codec=_codec_name(header.codec_bits),
        timestamp_type=header.timestamp_type.name,
        max_timestamp=entry.max_timestamp,
        crc=header.crc,
        problem=entry.problem,
        **extra,
    )


def _codec_name(bits: int) -> str:
    try:
        return Codec(bits).name.lower()
    except ValueError:
        return f"unknown ({bits})"
