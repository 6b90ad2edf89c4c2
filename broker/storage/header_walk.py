"""HeaderWalk: the headers of a segment's batches, from an offset on, whatever lies between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.storage.entry_walk import EntryHeader
from broker.storage.segment_recovery import SegmentWalk
from protocol.errors import CorruptMessageError

if TYPE_CHECKING:
    from broker.storage.segment import LogSegment


def headers_from(segment: LogSegment, offset: int) -> Iterator[tuple[int, EntryHeader]]:
    """Yield position and header of each batch from the one that holds `offset`, past damage."""
    records, base_offset = segment.records, segment.base_offset
    position = 0
    if offset > base_offset:
        try:
            found = segment.translate_offset(offset)
        except CorruptMessageError:
            found = None
        else:
            if found is None:
                return
        position = 0 if found is None else found.position
    next_offset = base_offset
    while position < records.size_bytes:
        last: tuple[int, EntryHeader] | None = None
        try:
            for last in records.batches(position):
                if offset > base_offset:  # perhaps before it still
                    if last[1].last_offset < offset:
                        continue
                    offset = base_offset
                yield last
        except CorruptMessageError:
            pass  # looked at below, like a walk that ends before the file does
        if last is not None:
            position, next_offset = last[0] + last[1].size_bytes, last[1].last_offset + 1
        if position < records.size_bytes:
            later = SegmentWalk(records, base_offset).find_later(position, next_offset)
            if later is None:
                return
            position = later.position
