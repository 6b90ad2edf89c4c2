"""SegmentCheck: looks at a segment's bytes before they are answered with, if nobody has yet.

What a process wrote or recovered it knows to be sound. What it found on a disk after a clean stop,
or below the recovery point, is checked once, when it is first read: CRCs, and that offsets grow,
stay inside the segment and leave no gap that the next batch contradicts, for no CRC covers them.
"""

from __future__ import annotations

from typing import Final, NoReturn

from broker.storage.checked_bytes import CheckedBytes
from broker.storage.damage import DamageFoundError
from broker.storage.offset_metadata import OffsetPosition
from broker.storage.segment_lookup import SegmentLookup
from broker.storage.segment_recovery import wound_between
from protocol.errors import CorruptMessageError

CHECK_BYTES_MAX: Final = 1024 * 1024
"""How much is checked for one answer: half a millisecond, with batches of 16 KB."""
CHECK_BATCHES_MAX: Final = 500
"""How many: small ones cost more than their bytes do."""
WINDOW_BYTES_MIN: Final = 64 * 1024


class SegmentCheck:
    """Of one segment."""

    __slots__ = ("_lookup", "is_end_checked", "unchecked")

    def __init__(self, lookup: SegmentLookup) -> None:
        self._lookup = lookup
        size_bytes = lookup.records.size_bytes
        self.unchecked: CheckedBytes | None = CheckedBytes(size_bytes) if size_bytes else None
        """What of the segment was checked by this process; None: all of it."""
        self.is_end_checked = False
        """Whether it is known that the segment ends where the next one begins, or may not."""

    def raise_damage(self, error: CorruptMessageError) -> NoReturn:
        """Find out what is wrong at the place of an error, and raise it.

        Raises:
            DamageFoundError: it is known now which bytes are bad.
            CorruptMessageError: `error` itself, where a second look finds nothing bad.
        """
        if not isinstance(error, DamageFoundError):
            start, expected_offset = self._lookup.anchor(error.position)
            self._walk(start, expected_offset, error.position + 1)
        raise error

    def _walk(
        self, start: int, expected_offset: int, end: int, *, position: int = 0
    ) -> tuple[int, int]:
        """Check the batches that begin from `start` up to `end` (R23), stepping over known wounds.

        Args:
            position: CHECK_BATCHES_MAX from there on will do.

        Returns:
            Where it has ended, and the offset that is expected there.

        Raises:
            DamageFoundError: one is bad.
        """
        walk = self._lookup.walk(max(end - start, WINDOW_BYTES_MIN))
        wounds = self._lookup.wounds
        while start < end:
            wound = next((each for each in wounds if each.end_position > start), None)
            stop = end if wound is None else min(end, wound.position)
            count = 0
            try:
                for at, header in walk.checked_batches(start, expected_offset, stop):
                    if at >= position:
                        count += 1
                        if count == CHECK_BATCHES_MAX:
                            return at + header.size_bytes, header.next_offset
            except CorruptMessageError as error:
                start, expected_offset = walk.sound_position, walk.sound_offset
                later = walk.find_later(start, expected_offset)
                damage = wound_between(walk, start, expected_offset, later, error.reason)
                raise DamageFoundError(damage) from None
            start, expected_offset = walk.sound_position, walk.sound_offset
            if wound is None or start < wound.position:
                break
            start, expected_offset = wound.end_position, wound.next_offset
        return start, expected_offset

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
            checked_end = self.check_span(position, found.position + size, found.position)
            if checked_end < unchecked.size_bytes:
                size = min(size, checked_end - found.position)
        return size

    def check_span(self, position: int, end: int, enough_from: int | None = None) -> int:
        """Check the batches that begin from `position` up to `end`, as far as they need it.

        Args:
            enough_from: CHECK_BATCHES_MAX from this position on will do.

        Returns:
            Up to where they are checked.

        Raises:
            DamageFoundError: one is bad.
        """
        unchecked = self.unchecked
        if unchecked is None:
            return end
        known = unchecked.known_from(position)
        if known is None:
            start, expected_offset = self._lookup.anchor(position)
            first = start
        else:
            first, start, expected_offset = known
        start, expected_offset = self._walk(
            start,
            expected_offset,
            min(end, unchecked.size_bytes),
            position=end if enough_from is None else max(enough_from, start),
        )
        unchecked.add(first, start, expected_offset)
        if unchecked.is_complete:
            self.unchecked = None
        return start

    def cut(self, size_bytes: int) -> None:
        """The segment was cut: what is left has to be checked again, and nothing else."""
        if self.unchecked is not None:
            self.unchecked = CheckedBytes(min(size_bytes, self.unchecked.size_bytes))
