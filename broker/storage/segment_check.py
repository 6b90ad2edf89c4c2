"""SegmentCheck: looks at a segment's bytes before they are answered with, if nobody has yet.

What a process wrote or recovered it knows to be sound. What it found on a disk after a clean stop,
or below the recovery point, is checked once, when it is first read: CRCs, and that offsets grow,
stay inside the segment and leave no gap that the next batch contradicts, for no CRC covers them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from broker.steps import Steps, run_to_end
from broker.storage.checked_bytes import CheckedBytes
from broker.storage.damage import DamageFoundError
from broker.storage.file_slice import FileSlice
from broker.storage.offset_metadata import OffsetPosition
from broker.storage.segment_lookup import SegmentLookup
from broker.storage.segment_recovery import wound_between
from broker.storage.sound_run import SoundRun, sound_run
from protocol.errors import CorruptMessageError, TidelogError
from protocol.limits import INT32_MAX

CHECK_BYTES_MAX: Final = 1024 * 1024
"""How much is checked for one answer."""
CHECK_BATCHES_MAX: Final = 500
"""How many: small ones cost more than their bytes do."""
STEP_BYTES: Final = 256 * 1024
"""Checked in one step: a third of a millisecond, with batches of 16 KB."""
STEP_BATCHES: Final = 250
"""Likewise, of small ones."""


class BytesUncheckedError(TidelogError):
    """What a read would answer with was not checked yet, and its caller has something else to do.

    Not for clients: run `steps`, then read again.
    """

    def __init__(self, offset: int, found: OffsetPosition, size_bytes: int) -> None:
        super().__init__(offset, found, size_bytes)
        self.offset, self.found = offset, found
        self.size_bytes = size_bytes
        """About what there will be to read."""
        self.steps: Callable[[], Steps[None]]
        """Check it. Errors as of the read. Set by the log, which has to know of what is found."""


class SegmentCheck:
    """Of one segment."""

    __slots__ = ("_last_end", "_lookup", "is_end_checked", "last_found", "unchecked")

    def __init__(self, lookup: SegmentLookup) -> None:
        self._lookup = lookup
        size_bytes = lookup.records.size_bytes
        self.unchecked: CheckedBytes | None = CheckedBytes(size_bytes) if size_bytes else None
        """What of the segment was checked by this process; None: all of it."""
        self.is_end_checked = False
        """Whether it is known that the segment ends where the next one begins, or may not."""
        self._last_end = (-1, -1)  # of `steps`: for which answer, and up to where
        self.last_found: tuple[int, OffsetPosition] | None = None
        """Of `steps`: what was asked for, and what was found for it; it is asked for again now, and
        from the index's entry there may be thousands of batches to pass over."""

    def raise_damage(self, error: CorruptMessageError) -> NoReturn:
        """Find out what is wrong at the place of an error, and raise it.

        Raises:
            DamageFoundError: it is known now which bytes are bad.
            CorruptMessageError: `error` itself, where a second look finds nothing bad.
        """
        if not isinstance(error, DamageFoundError):
            start, expected_offset = self._lookup.anchor(error.position)
            end, last = error.position + 1, -1
            while last < start < end:
                last = start
                start, expected_offset, _, _ = self._walk(start, expected_offset, end, STEP_BATCHES)
        raise error

    def _walk(self, start: int, expected_offset: int, end: int, count: int) -> SoundRun:
        """Check some of the batches that begin from `start` up to `end` (R23): a step's worth.

        Known wounds are stepped over.

        Args:
            count: No more than so many.

        Raises:
            DamageFoundError: one is bad.
        """
        lookup = self._lookup
        wound = next((each for each in lookup.wounds if each.end_position > start), None)
        if wound is not None and wound.position <= start:
            return SoundRun(wound.end_position, wound.next_offset, 0, True)
        stop = end if wound is None else min(end, wound.position)
        count = min(count, STEP_BATCHES)
        reach = lookup.base_offset + INT32_MAX + 1
        limit_offset = reach if lookup.limit_offset is None else min(lookup.limit_offset, reach)
        window = memoryview(lookup.records.read_bytes(start, STEP_BYTES))
        run = sound_run(window, 0, stop - start, expected_offset, limit_offset, count)
        run = run._replace(position=start + run.position)
        if (run.batches and (run.is_cut or run.batches == count)) or run.position >= stop:
            return run
        return self._walk_slowly(run, stop, count)

    def _walk_slowly(self, run: SoundRun, stop: int, count: int) -> SoundRun:
        """Go on with all that is no plain run: legacy entries, gaps, large batches, damage."""
        position, expected_offset, passed, _ = run
        walk = self._lookup.walk(STEP_BYTES)
        bytes_end = position + STEP_BYTES
        try:
            for at, header in walk.checked_batches(position, expected_offset, stop):
                passed += 1
                if passed >= count or at + header.size_bytes >= bytes_end:
                    return SoundRun(at + header.size_bytes, header.next_offset, passed, True)
        except CorruptMessageError as error:
            position, expected_offset = walk.sound_position, walk.sound_offset
            later = walk.find_later(position, expected_offset)
            damage = wound_between(walk, position, expected_offset, later, error.reason)
            raise DamageFoundError(damage) from None
        return SoundRun(walk.sound_position, walk.sound_offset, passed, True)

    def check(self, offset: int, found: OffsetPosition, size: int, *, at_once: bool = True) -> int:
        """Check, before they are answered with, the bytes that nobody has looked at yet.

        No CRC covers a batch's offset: it has to fit those before and behind. So this begins at an
        index entry that fits its batch, or where an earlier check has ended.

        Args:
            offset: What was asked for; `found` is the batch that was found for it.
            size: Of the answer, from that batch on.
            at_once: Do it in place; else say that it has to be done, in `steps`.

        Returns:
            How many of the bytes may be answered with, the first batch at least.

        Raises:
            DamageFoundError: there is a wound, before the answer or in it.
            BytesUncheckedError: not `at_once`, and `steps` has not just been run for this.
        """
        unchecked = self.unchecked
        _, position, batch_bytes = found
        if unchecked is None or position >= unchecked.size_bytes:
            return size
        known = unchecked.known_from(_first_position(offset, found))
        if known is None or known.end < min(position + size, unchecked.size_bytes):
            size = min(size, max(batch_bytes, CHECK_BYTES_MAX))
            if at_once:
                run_to_end(self.steps(offset, found, size))
                known = unchecked.known_from(_first_position(offset, found))
            elif known is None or self._last_end != (position, known.end):
                raise BytesUncheckedError(offset, found, size)
            assert known is not None, "it was checked just now"
            if known.end < unchecked.size_bytes:
                size = min(size, known.end - position)
        return size

    def steps(self, offset: int, found: OffsetPosition, size: int) -> Steps[None]:
        """Check what `check` was asked for, up to CHECK_BATCHES_MAX batches; errors likewise.

        Bytes that are not in memory are read ahead in a job first. Whatever changes the segment
        between two steps ends them: read again.
        """
        position = found.position
        first, end = _first_position(offset, found), position + size
        piece = FileSlice(self._lookup.records, position, size)
        if piece.is_cold():
            yield piece.read_ahead
        yield from self.span_steps(first, end, position)
        known = None if self.unchecked is None else self.unchecked.known_from(first)
        self._last_end = (-1, -1) if known is None else (position, known.end)
        self.last_found = None if known is None else (offset, found)

    def span_steps(self, position: int, end: int, enough_from: int | None = None) -> Steps[None]:
        """Check the batches that begin from `position` up to `end`, as far as they need it.

        Args:
            enough_from: CHECK_BATCHES_MAX from this position on will do.

        Raises:
            DamageFoundError: one is bad.
            StorageError: the file cannot be read, or is closed by now.
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
        left, end = CHECK_BATCHES_MAX, min(end, unchecked.size_bytes)
        last = -1
        while last < start < end and left > 0:
            last = start
            is_before = enough_from is None or start < enough_from
            stop = min(end, enough_from) if is_before and enough_from is not None else end
            start, expected_offset, count, _ = self._walk(
                start, expected_offset, stop, STEP_BATCHES if is_before else left
            )
            unchecked.add(first, start, expected_offset)
            if not is_before:
                left -= count
            if start < end and left > 0:
                yield None
                if self.unchecked is not unchecked:  # cut, recovered, or all of it was checked
                    return
        if unchecked.is_complete:
            self.unchecked = None

    def cut(self, size_bytes: int) -> None:
        """The segment was cut: what is left has to be checked again, and nothing else."""
        self.last_found = None
        if self.unchecked is not None:
            self.unchecked = CheckedBytes(min(size_bytes, self.unchecked.size_bytes))


def _first_position(offset: int, found: OffsetPosition) -> int:
    """Return from where on a look-up's answer has to be checked.

    Was the batch that should hold the offset passed over? Then the one before tells.
    """
    position = found.position
    return position - 1 if found.offset > offset and position else position
