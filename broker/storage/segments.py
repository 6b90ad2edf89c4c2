"""Segments: the immutable list of a log's segments, sorted by base offset.

Replaced whole on every change (copy on write), so that a reader works on the list it started with
while a roll or a deletion goes on (R39).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.storage.segment import LogSegment


class Segments:
    """An immutable sequence of segments with distinct base offsets; look-ups are O(log n)."""

    __slots__ = ("_base_offsets", "_segments", "active")

    def __init__(self, segments: Iterable[LogSegment] = ()) -> None:
        """Take the segments, in any order.

        Raises:
            ValueError: two of them have the same base offset.
        """
        ordered = tuple(sorted(segments, key=lambda segment: segment.base_offset))
        self._segments: tuple[LogSegment, ...] = ordered
        self._base_offsets = tuple(segment.base_offset for segment in ordered)
        if len(set(self._base_offsets)) != len(ordered):
            raise ValueError(f"two segments have the same base offset: {self._base_offsets}")
        self.active: LogSegment | None = ordered[-1] if ordered else None
        """The newest one, the only one that is appended to; None in an empty list."""

    @property
    def first(self) -> LogSegment | None:
        """The oldest one, or None in an empty list."""
        return self._segments[0] if self._segments else None

    @property
    def base_offsets(self) -> tuple[int, ...]:
        """Every base offset, oldest first."""
        return self._base_offsets

    def floor(self, offset: int) -> LogSegment | None:
        """Return the last segment whose base offset is at or below `offset`, or None."""
        index = bisect_right(self._base_offsets, offset)
        return self._segments[index - 1] if index else None

    def lower(self, offset: int) -> LogSegment | None:
        """Return the last segment whose base offset is below `offset`, or None."""
        index = bisect_left(self._base_offsets, offset)
        return self._segments[index - 1] if index else None

    def ceiling(self, offset: int) -> LogSegment | None:
        """Return the first segment whose base offset is at or above `offset`, or None."""
        index = bisect_left(self._base_offsets, offset)
        return self._segments[index] if index < len(self._segments) else None

    def higher(self, offset: int) -> LogSegment | None:
        """Return the first segment whose base offset is above `offset`, or None."""
        index = bisect_right(self._base_offsets, offset)
        return self._segments[index] if index < len(self._segments) else None

    def range(self, from_offset: int, to_offset: int) -> tuple[LogSegment, ...]:
        """Return, oldest first, the segments that may hold offsets in `from_offset`..`to_offset`.

        That is the one at or below `from_offset` (or else the first above it) and all that follow
        with a base offset below `to_offset`.
        """
        if to_offset <= from_offset:
            return ()
        start = max(0, bisect_right(self._base_offsets, from_offset) - 1)
        return self._segments[start : bisect_left(self._base_offsets, to_offset)]

    def with_added(self, segment: LogSegment) -> Segments:
        """Return a list that has `segment` too.

        Raises:
            ValueError: one with its base offset is there already.
        """
        if self._base_offsets and segment.base_offset <= self._base_offsets[-1]:
            return Segments((*self._segments, segment))
        return self._of((*self._segments, segment), (*self._base_offsets, segment.base_offset))

    def without(self, *gone: LogSegment) -> Segments:
        """Return a list that lacks the given segments.

        Raises:
            ValueError: one of them is not in this list.
        """
        for segment in gone:
            if segment not in self:
                raise ValueError(f"segment {segment.base_offset} is not in {self!r}")
        identities = {id(segment) for segment in gone}
        return Segments(each for each in self._segments if id(each) not in identities)

    def without_oldest(self, count: int) -> Segments:
        """Return a list that lacks the `count` oldest segments; cheap, however many there are."""
        return self._of(self._segments[count:], self._base_offsets[count:])

    @staticmethod
    def _of(segments: tuple[LogSegment, ...], base_offsets: tuple[int, ...]) -> Segments:
        """Return a list of segments that are known to be sorted: a roll must not sort thousands."""
        made = Segments()
        made._segments, made._base_offsets = segments, base_offsets
        made.active = segments[-1] if segments else None
        return made

    def replaced(self, old: Iterable[LogSegment], new: Iterable[LogSegment]) -> Segments:
        """Return a list that has `new` in the place of `old` (compaction, R31).

        Raises:
            ValueError: one of `old` is not in this list, or two would have one base offset.
        """
        kept = self.without(*old)
        return Segments((*kept, *new))

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    def __reversed__(self) -> Iterator[LogSegment]:
        return reversed(self._segments)

    def __getitem__(self, index: int) -> LogSegment:
        return self._segments[index]

    def __contains__(self, segment: object) -> bool:
        return any(each is segment for each in self._segments)

    def __repr__(self) -> str:
        return f"Segments({list(self._base_offsets)})"
