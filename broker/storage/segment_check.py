"""SegmentCheck: looks at a segment's bytes before they are answered with, if nobody has yet.

What a process wrote or recovered it knows to be sound. What it found on a disk after a clean stop,
or below the recovery point, is checked once, when it is first read: CRCs, and that offsets grow,
stay inside the segment and leave no gap that the next batch contradicts, for no CRC covers them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NoReturn

from broker.storage.checked_bytes import CheckedBytes
from broker.storage.damage import DamageFoundError
from broker.storage.entry_walk import EntryHeader
from broker.storage.offset_metadata import OffsetPosition
from broker.storage.segment_lookup import SegmentLookup
from broker.storage.segment_recovery import wound_between
from protocol.errors import CorruptMessageError

CHECK_BYTES_MAX: Final = 256 * 1024
"""How much is checked for one answer: a quarter of a millisecond."""


class SegmentCheck:
    """Of one segment."""

    __slots__ = ("_lookup", "unchecked")

    def __init__(self, lookup: SegmentLookup) -> None:
        self._lookup = lookup
        size_bytes = lookup.records.size_bytes
        self.unchecked: CheckedBytes | None = CheckedBytes(size_bytes) if size_bytes else None
        """What of the segment was checked by this process; None: all of it."""

    def raise_damage(self, error: CorruptMessageError) -> NoReturn:
        """Find out what is wrong at the place of an error, and raise it.

        Raises:
            DamageFoundError: it is known now which bytes are bad.
            CorruptMessageError: `error` itself, where a second look finds nothing bad.
        """
        if not isinstance(error, DamageFoundError):
            start, expected_offset = self._lookup.anchor(error.position)
            for _ in self.checked(start, expected_offset, error.position + 1):
                pass
        raise error

    def checked(
        self, position: int, expected_offset: int, end: int
    ) -> Iterator[tuple[int, EntryHeader]]:
        """Yield the batches that begin from `position` up to `end`, each of them checked (R23).

        Known wounds are stepped over.

        Raises:
            DamageFoundError: one is bad.
        """
        walk = self._lookup.walk()
        while position < end:
            wound = next(
                (each for each in self._lookup.wounds if each.end_position > position), None
            )
            stop = end if wound is None else min(end, wound.position)
            try:
                for at, header in walk.checked_batches(position, expected_offset, stop):
                    yield at, header
                    position, expected_offset = at + header.size_bytes, header.next_offset
            except CorruptMessageError as error:
                later = walk.find_later(position, expected_offset)
                damage = wound_between(walk, position, expected_offset, later, error.reason)
                raise DamageFoundError(damage) from None
            if wound is None or position < wound.position:
                return
            position, expected_offset = wound.end_position, wound.next_offset

    def check(self, offset: int, found: OffsetPosition, size: int) -> int:
        """Check, before they are answered with, the bytes that nobody has looked at yet.

        No CRC covers a batch's offset: it has to fit those before and behind. So this begins at an
        index entry that fits its batch, or where an earlier check has ended.

        Args:
            offset: What was asked for; `found` is the batch that was found for it.
            size: Of the answer, from that batch on.

        Returns:
            How many of the bytes may be answered with, the first batch at least.

        Raises:
            DamageFoundError: there is a wound, before the answer or in it.
        """
        unchecked = self.unchecked
        _, position, batch_bytes = found
        if unchecked is None or position >= unchecked.size_bytes:
            return size
        if found.offset > offset and position:  # was the batch that should hold it passed over?
            position -= 1
        known = unchecked.known_from(position)
        if known is None or known.end < min(found.position + size, unchecked.size_bytes):
            size = min(size, max(batch_bytes, CHECK_BYTES_MAX))
            self.check_span(position, found.position + size)
        return size

    def check_span(self, position: int, end: int) -> None:
        """Check the batches that begin from `position` up to `end`, as far as they need it.

        Raises:
            DamageFoundError: one is bad.
        """
        unchecked = self.unchecked
        if unchecked is None:
            return
        known = unchecked.known_from(position)
        if known is None:
            start, expected_offset = self._lookup.anchor(position)
            first = start
        else:
            first, start, expected_offset = known
        for at, header in self.checked(start, expected_offset, min(end, unchecked.size_bytes)):
            start, expected_offset = at + header.size_bytes, header.next_offset
        unchecked.add(first, start, expected_offset)
        if unchecked.is_complete:
            self.unchecked = None

    def cut(self, size_bytes: int) -> None:
        """The segment was cut: what is left has to be checked again, and nothing else."""
        if self.unchecked is not None:
            self.unchecked = CheckedBytes(min(size_bytes, self.unchecked.size_bytes))
