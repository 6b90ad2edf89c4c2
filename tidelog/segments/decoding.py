"""Decoding: sections of a log as record batches of Arrow, and what becomes of wounds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.identifiers import Buffer
from protocol.limits import INT64_MAX
from protocol.record_batch_header import CONTROL_FLAG
from tidelog.segments import kernel
from tidelog.segments.batch_table import NO_TIMESTAMP_FLAG, BatchTable
from tidelog.segments.columns import HEADERS, to_record_batch
from tidelog.segments.file_window import MemoryWindow
from tidelog.segments.inflate import InflateRoom, inflate
from tidelog.segments.legacy_batches import legacy_batches
from tidelog.segments.log_scan import LegacyEntries, Section, SoundBatches, Wound, scan
from tidelog.segments.read_options import CORRUPT, ReadOptions, schema
from tidelog.segments.record_spans import RecordSpans, SpanRoom

__all__ = ["AbortedMask", "Aim", "decode_batches", "decode_sections"]


AbortedMask = Callable[[BatchTable], NDArray[Any]]

_log = logging.getLogger(__name__)


class Aim(NamedTuple):
    """What is decoded, and how."""

    topic: str
    partition: int
    where: str
    """The file, for errors."""
    options: ReadOptions
    start_offset: int = 0
    end_offset: int = INT64_MAX
    is_aborted: AbortedMask | None = None
    """Tells which batches of a table are of aborted transactions; None: none is left out."""


class Rooms(NamedTuple):
    """Memory of one read, for the batches that it decodes one after another."""

    spans: SpanRoom
    inflated: InflateRoom


def decode_batches(
    data: Buffer,
    *,
    topic: str,
    partition: int,
    options: ReadOptions,
    start_offset: int = 0,
    end_offset: int = INT64_MAX,
    is_aborted: AbortedMask | None = None,
    where: str,
) -> tuple[pa.RecordBatch | None, int]:
    """Decode whole batches as they are stored, such as a broker answers to a fetch.

    Which transactions were aborted is not in them, so that `options.isolation` is not looked at.

    Args:
        start_offset, end_offset: Records below the one, at or above the other are left out.
        is_aborted: Tells which batches are left out, such as `AbortedBatches`; None: none.
        where: They are from; for errors.

    Returns:
        The records, None if there are none, and the offset to go on with.

    Raises:
        DamagedError: with `on_corrupt="fail"`: bytes that are no batch; a cut last one, too.
    """
    next_offset = start_offset
    # The batch that has the offset asked for may begin before it; else there is a gap before it.
    first_offset = min(start_offset, int.from_bytes(memoryview(data)[:8], "big"))

    def watched() -> Iterator[Section]:
        nonlocal next_offset
        window = MemoryWindow(data)
        for section in scan(
            window, end_position=len(window.data), first_offset=first_offset, end_offset=end_offset,
            check_crc=options.check_crc,
        ):  # fmt: skip
            yield section
            next_offset = max(next_offset, _next_offset(section))

    aim = Aim(topic, partition, where, options, start_offset, end_offset, is_aborted)
    batches = list(decode_sections(watched(), aim))
    if not batches:
        return None, next_offset
    if len(batches) > 1:
        table = pa.Table.from_batches(batches).combine_chunks()
        batches = table.to_batches()
        assert len(batches) == 1, "more than 2 GiB came with one fetch"
    return batches[0], next_offset


def _next_offset(section: Section) -> int:
    if isinstance(section, SoundBatches):
        return int(section.table["last_offset"][-1]) + 1
    if isinstance(section, LegacyEntries):
        return section.entries[-1].offset + 1
    return section.first_offset if section.end_offset is None else section.end_offset


def decode_sections(sections: Iterable[Section], aim: Aim) -> Iterator[pa.RecordBatch]:
    """Yield the records of sections that the aim asks for, and rows of wounds where it tags them.

    Raises:
        DamagedError: at a wound within the offsets asked for, with `on_corrupt="fail"`.
    """
    rooms = Rooms(SpanRoom(), InflateRoom())
    for section in sections:
        for found in _decoded(section, aim, rooms):
            if not isinstance(found, Wound):
                yield found
                continue
            row = _at_wound(found, aim)
            if row is not None:
                yield row


def _decoded(section: Section, aim: Aim, rooms: Rooms) -> Iterator[pa.RecordBatch | Wound]:
    if isinstance(section, SoundBatches):
        yield from _records(section, aim, rooms)
    elif isinstance(section, LegacyEntries):
        yield from _legacy_records(section, aim, rooms)
    else:
        yield section


# --- record batches ---------------------------------------------------------------------------


def _records(section: SoundBatches, aim: Aim, rooms: Rooms) -> Iterator[pa.RecordBatch | Wound]:
    data, table = section.data, section.table[_wanted(section.table, aim)]
    while len(table):
        inflated = inflate(data, table, buffer_bytes=aim.options.chunk_bytes, room=rooms.inflated)
        count, fault = len(inflated.starts), inflated.fault
        spans, bad = kernel.decode(inflated, table[:count], rooms.spans)
        if bad is not None:
            count, fault = bad, "its records cannot be decoded"
        headers = None
        if HEADERS in aim.options.columns and count:
            headers, bad_record = kernel.decode_headers(inflated, spans)
            if bad_record is not None:
                count, fault = int(spans.batch[bad_record]), "its headers cannot be decoded"
                spans = _kept(spans, spans.batch < count)
                headers, _ = kernel.decode_headers(inflated, spans)
        keep = _within(spans, aim)
        if keep is not None:
            spans = _kept(spans, keep)
            if headers is not None:
                headers, _ = kernel.decode_headers(inflated, spans)
        if len(spans.offset):
            rows = to_record_batch(
                spans, table, inflated.buffer, headers,
                topic=aim.topic, partition=aim.partition, columns=aim.options.columns,
            )  # fmt: skip
            yield _tagged(rows) if aim.options.on_corrupt == "tag" else rows
        if fault is not None:
            yield _wound_of(table[count], section.position, fault)
            count += 1
        table = table[count:]


def _wanted(table: BatchTable, aim: Aim) -> NDArray[Any]:
    """Return which batches can hold what is asked for, by their headers."""
    options = aim.options
    wanted: NDArray[Any] = (table["last_offset"] >= aim.start_offset) & (
        table["base_offset"] < aim.end_offset
    )
    wanted &= table["record_count"] > 0
    if not options.include_control:
        wanted &= (table["attributes"] & CONTROL_FLAG) == 0
    if options.start_timestamp_ms is not None:
        wanted &= table["max_timestamp"] >= options.start_timestamp_ms
    if aim.is_aborted is not None:
        wanted &= ~aim.is_aborted(table)
    return wanted


def _within(spans: RecordSpans, aim: Aim) -> NDArray[Any] | None:
    """Return which records are asked for; None if all are."""
    offset, options = spans.offset, aim.options
    if not len(offset):
        return None
    keep = np.ones(len(offset), dtype=bool)
    if offset[0] < aim.start_offset or offset[-1] >= aim.end_offset:
        keep &= (offset >= aim.start_offset) & (offset < aim.end_offset)
    if options.start_timestamp_ms is not None:
        keep &= spans.timestamp >= options.start_timestamp_ms
    if options.end_timestamp_ms is not None:
        keep &= spans.timestamp < options.end_timestamp_ms
    return None if keep.all() else keep


def _kept(spans: RecordSpans, keep: NDArray[Any]) -> RecordSpans:
    return RecordSpans(*(column[keep] for column in spans))


# --- old formats ------------------------------------------------------------------------------


def _legacy_records(
    section: LegacyEntries, aim: Aim, rooms: Rooms
) -> Iterator[pa.RecordBatch | Wound]:
    """Yield the records of old entries, which are made record batches first."""
    for found in legacy_batches(section):
        if isinstance(found, Wound):
            yield found
            continue
        if section.entries[0].magic == 0:
            found.table["attributes"] |= NO_TIMESTAMP_FLAG
        yield from _records(SoundBatches(found.data, section.position, found.table), aim, rooms)


# --- wounds -----------------------------------------------------------------------------------


def _wound_of(row: Any, position: int, reason: str) -> Wound:
    begin = position + int(row["position"])
    return Wound(
        begin, begin + int(row["size_bytes"]), int(row["base_offset"]),
        int(row["last_offset"]) + 1, reason,
    )  # fmt: skip


def _at_wound(wound: Wound, aim: Aim) -> pa.RecordBatch | None:
    """Return the row of a wound, if there is to be one."""
    first_offset = max(wound.first_offset, aim.start_offset)
    is_before = wound.end_offset is not None and wound.end_offset <= aim.start_offset
    if is_before or first_offset >= aim.end_offset:
        return None
    error = wound.error(aim.where)
    if aim.options.on_corrupt == "fail":
        raise error
    if aim.options.on_corrupt == "skip":
        _log.warning("left out: %s", error)
        return None
    known: dict[str, object] = {
        "topic": aim.topic, "partition": aim.partition, "offset": first_offset,
        HEADERS: [], CORRUPT: str(error),
    }  # fmt: skip
    row_schema = schema(aim.options)
    return pa.RecordBatch.from_arrays(
        [pa.array([known.get(field.name)], type=field.type) for field in row_schema],
        schema=row_schema,
    )


def _tagged(rows: pa.RecordBatch) -> pa.RecordBatch:
    field = pa.field(CORRUPT, pa.string())
    return pa.RecordBatch.from_arrays(
        [*rows.columns, pa.nulls(rows.num_rows, pa.string())], schema=rows.schema.append(field)
    )
