"""LegacyBatches: entries of old formats as the record batches that they are converted to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from protocol.errors import CorruptMessageError, TidelogError
from protocol.legacy_conversion import to_v2
from protocol.legacy_message_set import LegacyEntry
from tidelog.segments.batch_table import BatchTable, walk
from tidelog.segments.log_scan import LegacyEntries, Wound

__all__ = ["LegacyBatches", "legacy_batches"]


class LegacyBatches(NamedTuple):
    """Record batches that were made of entries."""

    data: memoryview
    table: BatchTable
    """Its positions are those in `data`."""


def legacy_batches(section: LegacyEntries) -> Iterator[LegacyBatches | Wound]:
    """Yield entries as record batches: all at once, or one by one where one of them is bad.

    That is one that cannot be decoded, or a wrapper that begins below what was before it: its
    offset, which no CRC covers, says where all that is inside belongs.
    """
    first, last = section.entries[0], section.entries[-1]
    try:
        data = memoryview(to_v2(section.data, first.position, last.end_position))
    except TidelogError:
        yield from _one_by_one(section)
        return
    walked = walk(data)
    if walked.end_position < len(data) or walked.table["base_offset"][0] < section.first_offset:
        yield from _one_by_one(section)
    else:
        yield LegacyBatches(data, walked.table)


def _one_by_one(section: LegacyEntries) -> Iterator[LegacyBatches | Wound]:
    expected, wound = section.first_offset, None
    for entry in section.entries:
        found, reason = _converted(section.data, entry)
        base_offset = expected if found is None else int(found.table["base_offset"][0])
        if wound is not None:  # it ends where the next one begins
            yield wound._replace(end_offset=max(base_offset, wound.first_offset))
            wound = None
        begin = section.position + entry.position
        if base_offset < expected:
            text = f"offsets {base_offset} to {entry.offset} do not belong here"
            wound = Wound(begin, begin + entry.size_bytes, expected, None, text)
        elif found is None:
            wound = Wound(begin, begin + entry.size_bytes, expected, entry.offset + 1, reason)
        else:
            yield found
        expected = entry.offset + 1
    if wound is not None:
        yield wound


def _converted(data: memoryview, entry: LegacyEntry) -> tuple[LegacyBatches | None, str]:
    """Return the batches of an entry; or why there are none."""
    try:
        batches = memoryview(to_v2(data, entry.position, entry.end_position))
    except CorruptMessageError as error:
        return None, error.reason
    except TidelogError as error:
        return None, str(error)
    return LegacyBatches(batches, walk(batches).table), ""
