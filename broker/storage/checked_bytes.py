"""CheckedBytes: which bytes of a loaded segment this process has checked.

What a process wrote, or recovered, it knows. What it found on a disk after a clean stop is checked
when it is first read: no CRC covers a batch's offset, and a bit may have flipped meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

STRETCHES_MAX: Final = 64
"""Readers go forward, so there are few; beyond this the first is forgotten, and checked again."""


class Stretch(NamedTuple):
    """Whole batches that were checked, one after the other."""

    start: int
    end: int
    next_offset: int
    """The one after the last batch: what the batch at `end` is to begin with, or to be above."""


class CheckedBytes:
    """Stretches of a file, in order, that do not touch."""

    __slots__ = ("_stretches", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        """Of what was found on the disk; what was appended since needs no check."""
        self._stretches: list[Stretch] = []

    def known_from(self, position: int) -> Stretch | None:
        """Return the stretch that holds `position`, or ends there; None if there is none."""
        number = bisect_right(self._stretches, position, key=lambda each: each.start) - 1
        if number < 0 or self._stretches[number].end < position:
            return None
        return self._stretches[number]

    def end_at(self, offset: int) -> int | None:
        """Return where a stretch ends behind which `offset` is next; None if none does.

        There a reader goes on: it needs no index.
        """
        number = bisect_left(self._stretches, offset, key=lambda each: each.next_offset)
        if number == len(self._stretches) or self._stretches[number].next_offset != offset:
            return None
        return self._stretches[number].end

    def add(self, start: int, end: int, next_offset: int) -> None:
        """Take note that the batches from `start` to `end` are sound."""
        kept: list[Stretch] = []
        for each in self._stretches:
            if each.end < start or each.start > end:
                kept.append(each)
                continue
            start = min(start, each.start)
            if each.end > end:
                end, next_offset = each.end, each.next_offset
        added = Stretch(start, end, next_offset)
        kept.append(added)
        kept.sort()
        if len(kept) > STRETCHES_MAX:  # whoever has just checked something is about to read it
            del kept[1 if kept[0] is added else 0]
        self._stretches = kept

    @property
    def is_complete(self) -> bool:
        """Whether all of it was checked."""
        first = self._stretches[0] if self._stretches else None
        return not self.size_bytes or (
            first is not None and not first.start and first.end >= self.size_bytes
        )
