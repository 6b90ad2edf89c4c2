"""BatchRows: one row a batch, without a look at its records: what an audit and statistics need.

Times are null where a batch has none. An entry of an old format is a row, too; what is not known of
it, such as a count of records that are compressed, is null. A damaged stretch is one row, whose
`error` says what is wrong; what it holds is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.compression import Codec
from protocol.legacy_message_set import LegacyEntry
from protocol.limits import INT64_MAX
from protocol.record_batch_header import (
    CODEC_MASK,
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    TRANSACTIONAL_FLAG,
)
from tidelog.segments.batch_table import BatchTable
from tidelog.segments.file_window import FileWindow
from tidelog.segments.location import Location, opened
from tidelog.segments.log_scan import BAD_CRC, LegacyEntries, Section, SoundBatches, Wound, scan
from tidelog.segments.plan import Split, confirmed

__all__ = ["BATCH_ROWS", "batch_rows"]

CHUNK_BYTES: Final = 16 << 20
"""More than a reader of records takes at once: nothing is made of them that would need memory."""
ROWS_MIN: Final = 4_096
"""So many batches make a record batch of Arrow, if there are: each of its columns costs a bit."""
MICROSECONDS: Final = 1_000
TIME_MAX_MS: Final = INT64_MAX // MICROSECONDS
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

BATCH_ROWS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("file", pa.string()),
        ("position", pa.int64()),
        ("sizeBytes", pa.int64()),
        ("baseOffset", pa.int64()),
        ("lastOffset", pa.int64()),
        ("recordCount", pa.int32()),
        ("magic", pa.int32()),
        ("codec", pa.string()),
        ("timestampType", pa.int32()),
        ("baseTimestamp", TIMESTAMP),
        ("maxTimestamp", TIMESTAMP),
        ("leaderEpoch", pa.int32()),
        ("producerId", pa.int64()),
        ("producerEpoch", pa.int32()),
        ("baseSequence", pa.int32()),
        ("isTransactional", pa.bool_()),
        ("isControl", pa.bool_()),
        ("crcOk", pa.bool_()),
        ("error", pa.string()),
    ]
)
CODEC_NAMES: Final = pa.array([codec.name.lower() for codec in Codec])


def batch_rows(
    location: Location, split: Split, *, check_crc: bool = True, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[pa.RecordBatch]:
    """Yield a row, as in `BATCH_ROWS`, for each batch that a split holds offsets of.

    Args:
        check_crc: Else `crcOk` is null, and damage is seen in headers only.

    Raises:
        DataLossError: the file is gone.
    """
    with opened(location, split.path, split.start_offset, split.end_offset) as file:
        split = confirmed(file, split)
        window = FileWindow(file, split.start_position, split.end_position, chunk_bytes)
        sections = scan(
            window, end_position=split.end_position, first_offset=split.first_offset,
            end_offset=split.end_offset, limit_offset=split.limit_offset, check_crc=check_crc,
        )  # fmt: skip
        for part in _gathered(sections):
            if isinstance(part, Wound):
                if part.end_offset is None or part.end_offset > split.start_offset:
                    crc_ok = False if part.reason == BAD_CRC else None
                    yield _rows(split, 1, _of_wound(part), crc_ok)
            elif isinstance(part, LegacyEntries):
                entries = [each for each in part.entries if _is_within(split, each)]
                yield _rows(split, len(entries), _of_entries(entries, part.position), True)
            else:
                table = part[part["last_offset"] >= split.start_offset]
                yield _rows(split, len(table), _of_batches(table), check_crc or None)


def _is_within(split: Split, entry: LegacyEntry) -> bool:
    begins_before_end = bool(entry.codec_bits) or entry.offset < split.end_offset
    return entry.offset >= split.start_offset and begins_before_end


def _gathered(sections: Iterable[Section]) -> Iterator[BatchTable | LegacyEntries | Wound]:
    """Yield the batches of sections with their positions in the file, many at once."""
    tables: list[BatchTable] = []
    for section in sections:
        if isinstance(section, SoundBatches):
            section.table["position"] += section.position
            tables.append(section.table)
            if sum(map(len, tables)) < ROWS_MIN:
                continue
        if tables:
            yield np.concatenate(tables)
            tables.clear()
        if not isinstance(section, SoundBatches):
            yield section
    if tables:
        yield np.concatenate(tables)


def _rows(split: Split, count: int, columns: dict[str, Any], crc_ok: bool | None) -> pa.RecordBatch:
    known = {
        "topic": pa.array([split.topic] * count, pa.string()),
        "partition": np.full(count, split.partition, dtype=np.int32),
        "file": pa.array([split.path] * count, pa.string()),
        "crcOk": pa.array([crc_ok] * count, pa.bool_()),
        **columns,
    }
    return pa.RecordBatch.from_arrays(
        [
            pa.array(known[name], type=kind) if name in known else pa.nulls(count, kind)
            for name, kind in zip(BATCH_ROWS.names, BATCH_ROWS.types, strict=True)
        ],
        schema=BATCH_ROWS,
    )


def _of_batches(table: BatchTable) -> dict[str, Any]:
    attributes = table["attributes"]
    return {
        "position": table["position"].copy(),
        "sizeBytes": table["size_bytes"].astype(np.int64),
        "baseOffset": table["base_offset"].copy(),
        "lastOffset": table["last_offset"].copy(),
        "recordCount": table["record_count"].copy(),
        "magic": np.full(len(table), MAGIC, dtype=np.int32),
        "codec": CODEC_NAMES.take(pa.array((attributes & CODEC_MASK).astype(np.int32))),
        "timestampType": (attributes & LOG_APPEND_TIME_FLAG != 0).astype(np.int32),
        "baseTimestamp": _times(table["base_timestamp"]),
        "maxTimestamp": _times(table["max_timestamp"]),
        "leaderEpoch": table["leader_epoch"].copy(),
        "producerId": table["producer_id"].copy(),
        "producerEpoch": table["producer_epoch"].astype(np.int32),
        "baseSequence": table["base_sequence"].copy(),
        "isTransactional": attributes & TRANSACTIONAL_FLAG != 0,
        "isControl": attributes & CONTROL_FLAG != 0,
    }


def _of_entries(entries: list[LegacyEntry], position: int) -> dict[str, Any]:
    plain = [not entry.codec_bits for entry in entries]
    timestamps = np.array([entry.timestamp for entry in entries], dtype=np.int64)
    return {
        "position": [entry.position + position for entry in entries],
        "sizeBytes": [entry.size_bytes for entry in entries],
        "baseOffset": [
            entry.offset if is_plain else None
            for entry, is_plain in zip(entries, plain, strict=True)
        ],
        "lastOffset": [entry.offset for entry in entries],
        "recordCount": [1 if is_plain else None for is_plain in plain],
        "magic": [entry.magic for entry in entries],
        "codec": [_codec_name(entry.codec_bits) for entry in entries],
        "timestampType": [int(entry.timestamp_type) for entry in entries],
        "maxTimestamp": _times(timestamps),
        "isTransactional": [False] * len(entries),
        "isControl": [False] * len(entries),
    }


def _codec_name(bits: int) -> str | None:
    return CODEC_NAMES[bits].as_py() if bits < len(CODEC_NAMES) else None


def _of_wound(wound: Wound) -> dict[str, Any]:
    return {
        "position": [wound.position],
        "sizeBytes": [wound.end_position - wound.position],
        "baseOffset": [wound.first_offset],
        "lastOffset": [None if wound.end_offset is None else wound.end_offset - 1],
        "error": [wound.reason],
    }


def _times(milliseconds: NDArray[Any]) -> pa.Array:
    """Return times; null for none, and for what no calendar of microseconds reaches."""
    is_none = (milliseconds < 0) | (milliseconds > TIME_MAX_MS)
    values = np.where(is_none, 0, milliseconds) * MICROSECONDS
    return pa.array(values, mask=is_none).cast(TIMESTAMP)
