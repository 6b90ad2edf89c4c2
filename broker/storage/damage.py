"""Damage: a stretch of a log whose acknowledged bytes are wrong; left as it is, and said aloud."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from protocol.errors import CorruptMessageError


class Damage(NamedTuple):
    """One wound: bad bytes below the durable offset, or promised offsets that are not there.

    Never cut: an operator decides about it. Plain values, so that it can come from another process.
    """

    segment_base_offset: int
    position: int
    """Of the first bad byte in the segment's log file; its size where offsets are missing."""
    end_position: int
    """Where the next sound batch begins; the file's end if there is none in it."""
    first_offset: int
    """The first offset that cannot be read."""
    next_offset: int
    """The first offset after it that can; `first_offset` where no offset is missing."""
    fault: str
    """What is wrong there."""

    @property
    def size_bytes(self) -> int:
        """How many bytes are bad; 0 where they are gone."""
        return self.end_position - self.position

    def holds(self, offset: int) -> bool:
        """Whether the offset is one of those that cannot be read."""
        return self.first_offset <= offset < self.next_offset

    def touches(self, other: Damage) -> bool:
        """Whether two wounds of one segment are, in part, the same."""
        if self.segment_base_offset != other.segment_base_offset:
            return False
        if (self.position, self.end_position) == (other.position, other.end_position):
            return True
        return self.position < other.end_position and other.position < self.end_position

    def joined(self, other: Damage) -> Damage:
        """Return one wound that covers two which touch."""
        return self._replace(
            position=min(self.position, other.position),
            end_position=max(self.end_position, other.end_position),
            first_offset=min(self.first_offset, other.first_offset),
            next_offset=max(self.next_offset, other.next_offset),
        )

    def __str__(self) -> str:
        if self.first_offset == self.next_offset:
            return (
                f"{self.size_bytes} bytes before offset {self.next_offset} are no part of the log "
                f"({self.fault})"
            )
        last = self.next_offset - 1
        what = (
            f"offset {last} is"
            if self.first_offset == last
            else (f"offsets {self.first_offset} to {last} are")
        )
        return f"{what} damaged ({self.fault}); the next good offset is {self.next_offset}"


class DamageFoundError(CorruptMessageError):
    """A look-up has met bad bytes that nobody knew of. Not for clients: the log takes note of it
    (`PartitionLog.add_damage`) and reads again."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(damage.position, str(damage))
        self.damage = damage

    def __reduce__(self) -> tuple[type[DamageFoundError], tuple[Damage]]:
        return type(self), (self.damage,)


class LogDamage:
    """All wounds of one log that are known, in the order of offsets."""

    __slots__ = ("_by_segment", "_kept")

    def __init__(self, wounds: Iterable[Damage] = (), kept_segments: Iterable[int] = ()) -> None:
        """Args:
        kept_segments: Base offsets of those whose wounds are all in durable reports.
        """
        self._by_segment: dict[int, tuple[Damage, ...]] = {}
        self._kept: set[int] = set()
        for each in wounds:
            self.add(each)
        self._kept.update(kept_segments)

    def add(self, damage: Damage) -> bool:
        """Take note of a wound; return whether it says anything new.

        One that touches others becomes one with them.
        """
        base_offset = damage.segment_base_offset
        known = self._by_segment.get(base_offset, ())
        touching = [each for each in known if each.touches(damage)]
        for each in touching:
            damage = each.joined(damage)
        if damage in touching:
            return False
        others = [each for each in known if each not in touching]
        ordered = sorted([*others, damage], key=lambda each: (each.position, each.first_offset))
        self._by_segment[base_offset] = tuple(ordered)
        self._kept.discard(base_offset)
        return True

    def of_segment(self, base_offset: int) -> tuple[Damage, ...]:
        """Return the wounds of one segment, in the order of the file."""
        return self._by_segment.get(base_offset, ())

    def forget(self, base_offset: int) -> None:
        """The segment was deleted, its wounds with it."""
        self._by_segment.pop(base_offset, None)

    def cut(self, base_offset: int, position: int) -> None:
        """The segment was cut: its wounds from there on went with what was cut."""
        kept = [each for each in self.of_segment(base_offset) if each.position < position]
        self.forget(base_offset)
        if kept:
            self._by_segment[base_offset] = tuple(kept)

    @property
    def first_unkept_segment(self) -> int | None:
        """The base offset of the oldest segment with a wound that the next start has to find by a
        walk; None without any."""
        return min((each for each in self._by_segment if each not in self._kept), default=None)

    @property
    def kept_segments(self) -> tuple[int, ...]:
        """Base offsets of segments whose wounds the next start finds in durable reports."""
        return tuple(sorted(self._kept & self._by_segment.keys()))

    def __iter__(self) -> Iterator[Damage]:
        for base_offset in sorted(self._by_segment):
            yield from self._by_segment[base_offset]

    def __len__(self) -> int:
        return sum(len(wounds) for wounds in self._by_segment.values())

    def __repr__(self) -> str:
        return f"LogDamage({list(self)})"
