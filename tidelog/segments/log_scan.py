"""LogScan: a segment file as sections: sound batches, entries of old formats, and wounds.

A wound is a stretch of bytes that are no sound batch; the scan goes on behind it, at the next batch
whose header, CRC and offsets are right. What is made of wounds is for the caller to say.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from protocol.errors import BatchCorruptError, BatchTruncatedError, TidelogError
from protocol.legacy_message_set import LegacyEntry, check_entry
from protocol.limits import INT64_MAX
from protocol.record_batch_header import (
    HEADER_BYTES,
    LENGTH_POSITION,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
)
from tidelog.segments.batch_table import (
    BATCH_BYTES_MAX,
    BatchTable,
    WalkedBatches,
    walk,
    wrong_crcs,
)
from tidelog.segments.errors import DamagedError
from tidelog.segments.file_window import Window
from tidelog.segments.resync import next_sound, offsets_inside

__all__ = ["BAD_CRC", "CUT", "LegacyEntries", "Section", "SoundBatches", "Wound", "scan"]

BAD_CRC: Final = "its CRC does not match"
CUT: Final = "it is cut: the file ends in it"


class SoundBatches(NamedTuple):
    """Record batches that follow each other. Hold until the scan goes on."""

    data: memoryview
    position: int
    """Of the data in the file."""
    table: BatchTable
    """Its positions are those in `data`."""


class LegacyEntries(NamedTuple):
    """Entries of one of the formats 0 and 1 that follow each other. Hold until the scan goes on."""

    data: memoryview
    position: int
    entries: list[LegacyEntry]
    """Their positions are those in `data`."""
    first_offset: int
    """Nothing in them has a smaller one."""


class Wound(NamedTuple):
    """A stretch that cannot be read."""

    position: int
    end_position: int
    first_offset: int
    """The first offset that may be missing."""
    end_offset: int | None
    """The one after the last; None if nobody knows."""
    reason: str

    def error(self, path: str) -> DamagedError:
        """Return the error that tells of it."""
        return DamagedError(path, self.position, self.first_offset, self.end_offset, self.reason)


Section: TypeAlias = SoundBatches | LegacyEntries | Wound


def scan(
    window: Window,
    *,
    end_position: int,
    first_offset: int,
    end_offset: int = INT64_MAX,
    limit_offset: int | None = None,
    check_crc: bool = True,
) -> Iterator[Section]:
    """Yield what is in a file from the window's position on.

    A batch is wrong if its CRC is, or if its offsets do not fit those before and behind it: offsets
    are outside of the CRC.

    Args:
        end_position: What begins at or behind it is left out.
        first_offset: Nothing has a smaller one.
        end_offset: Stop at the first batch at or above it.
        limit_offset: No offset can reach it: that of the next segment or split. None: unknown.
    """
    return _LogScan(window, end_position, first_offset, end_offset, limit_offset, check_crc).run()


class _LogScan:
    def __init__(
        self, window: Window, end_position: int, first_offset: int, end_offset: int,
        limit_offset: int | None, check_crc: bool,
    ) -> None:  # fmt: skip
        self.window, self.end_position = window, end_position
        self.expected = first_offset
        """Nothing that follows has a smaller offset."""
        self.end_offset, self.known_limit = end_offset, limit_offset
        self.limit = INT64_MAX if limit_offset is None else limit_offset
        self.check_crc = check_crc

    def run(self) -> Iterator[Section]:
        window = self.window
        while (len(window.data) or window.fill()) and window.position < self.end_position:
            if self.expected >= self.end_offset:
                return
            if self._is_legacy():
                yield from self._legacy()
                continue
            walked = self._walked()
            if len(walked.table):
                table = walked.table[walked.table["base_offset"] < self.end_offset]
                if len(table):
                    yield SoundBatches(window.data, window.position, table)
                if len(table) < len(walked.table):
                    return
                self.expected = int(table["last_offset"][-1]) + 1
                window.advance(walked.end_position)
            elif walked.fault is not None:
                yield from self._wound(walked.fault)
            elif not self._read_on(0):
                yield from self._wound(self._why_cut())

    # --- record batches -----------------------------------------------------------------------

    def _walked(self) -> WalkedBatches:
        """Return the sound batches at the window's beginning, and what is wrong behind them."""
        walked = walk(self.window.data)
        while (
            len(walked.table) == 1
            and walked.fault is None
            and self._is_in_doubt(walked)
            and self._read_on(walked.end_position)
        ):
            walked = walk(self.window.data)
        walked = self._blamed(walked)
        table = walked.table
        if not len(table):
            return walked
        misplaced = (table["base_offset"] < self.expected) | (table["last_offset"] >= self.limit)
        if misplaced.any():
            row = int(np.argmax(misplaced))
            first, last = int(table["base_offset"][row]), int(table["last_offset"][row])
            reason = f"offsets {first} to {last} do not belong here"
            walked = _cut(walked, row, reason)
        wrong = self._first_wrong_crc(walked.table)
        return walked if wrong is None else _cut(walked, wrong, BAD_CRC)

    def _is_in_doubt(self, walked: WalkedBatches) -> bool:
        """Whether the last batch stands behind a gap, and only what follows can say if that may be.

        Its offset is outside of its CRC.
        """
        table = walked.table
        if not len(table) or int(table["base_offset"][-1]) <= self._before_last(table):
            return False
        return self.window.position + walked.end_position < self.end_position

    def _before_last(self, table: BatchTable) -> int:
        """Return the offset that the last batch begins with, if there is no gap before it."""
        return self.expected if len(table) == 1 else int(table["last_offset"][-2]) + 1

    def _blamed(self, walked: WalkedBatches) -> WalkedBatches:
        """Take back the last batch if it is in doubt.

        Its offset may be too large: then what follows it seems to go back, and is right.
        """
        table = walked.table
        if not self._is_in_doubt(walked):
            return walked
        last = table[-1]
        if walked.fault is None:
            is_more = len(table) > 1
            return WalkedBatches(table[:-1], int(last["position"]), None) if is_more else walked
        following = walk(self.window.data, walked.end_position).table
        before = self._before_last(table)
        if len(following) and before <= following["base_offset"][0] <= last["last_offset"]:
            return _cut(walked, len(table) - 1, f"offset {last['base_offset']} does not fit here")
        return walked

    def _first_wrong_crc(self, table: BatchTable) -> int | None:
        """Return the first row with a wrong CRC. Unless all are to be checked, look only at one
        that reaches behind the end: it may be its length that is wrong."""
        ends = table["position"] + table["size_bytes"]
        first = 0
        if not self.check_crc:
            if not len(table) or self.window.position + int(ends[-1]) <= self.end_position:
                return None
            first = len(table) - 1
        wrong = wrong_crcs(self.window.data, table[first:])
        return first + int(wrong[0]) if len(wrong) else None

    def _read_on(self, position: int) -> bool:
        """Have more of the batch at a place of the window, all of it if it is there; return
        whether there was any more. Of one that says it is too large there is none."""
        size = self._size_at(position)
        return size <= BATCH_BYTES_MAX and self.window.fill(position + size)

    def _size_at(self, position: int) -> int:
        """Return what a batch, or an entry of an old format, takes, as far as that is known."""
        header = self.window.data[position : position + HEADER_BYTES]
        if len(header) < HEADER_BYTES:
            return HEADER_BYTES
        length = header[LENGTH_POSITION:LOG_OVERHEAD_BYTES]
        return LOG_OVERHEAD_BYTES + int.from_bytes(length, "big")

    def _why_cut(self) -> str:
        size = self._size_at(0)
        return CUT if size <= BATCH_BYTES_MAX else f"a batch length of {size - LOG_OVERHEAD_BYTES}"

    # --- old formats --------------------------------------------------------------------------

    def _is_legacy(self) -> bool:
        data = self.window.data
        return len(data) > MAGIC_POSITION and data[MAGIC_POSITION] < MAGIC

    def _legacy(self) -> Iterator[Section]:
        """Yield the entries at the window's beginning; or a wound, if the first one is none."""
        window, entries = self.window, list[LegacyEntry]()
        position, fault, begin, is_cut = 0, CUT, self.expected, True
        before = begin
        while len(window.data) - position > MAGIC_POSITION:
            magic = window.data[position + MAGIC_POSITION]
            is_end = window.position + position >= self.end_position
            if is_end or magic >= MAGIC or (entries and magic != entries[0].magic):
                is_cut = False
                break
            try:
                entry = check_entry(window.data, position)
            except BatchTruncatedError:
                break
            except BatchCorruptError as error:
                fault, is_cut = error.reason, False
                break
            if not self.expected <= entry.offset < self.limit:
                fault, is_cut = f"offset {entry.offset} does not belong here", False
                is_to_blame = entries and self._is_entry_in_doubt(entries[-1], before)
                if is_to_blame and before <= self._inside(entry)[0]:
                    fault = f"offset {entries.pop().offset} does not fit here"
                    self.expected = before
                break
            entries.append(entry)
            before, self.expected, position = self.expected, entry.offset + 1, entry.end_position
        is_doubtful = is_cut and entries and self._is_entry_in_doubt(entries[-1], before)
        if is_doubtful and (len(entries) > 1 or self._read_on(position)):
            entries.pop()  # look at it again with what follows, as in `_is_in_doubt`
            self.expected = before
            if not entries:
                return
        if entries:
            wanted = bisect_left(entries, self.end_offset - 1, key=attrgetter("offset")) + 1
            yield LegacyEntries(window.data, window.position, entries[:wanted], begin)
            window.advance(entries[-1].end_position)
        elif fault != CUT:
            yield from self._wound(fault)
        elif not self._read_on(0):
            yield from self._wound(self._why_cut())

    def _is_entry_in_doubt(self, entry: LegacyEntry, expected: int) -> bool:
        """Whether an entry stands behind a gap, or what is inside says that its offset is wrong."""
        first, last = self._inside(entry)
        return first > expected or last != entry.offset

    def _inside(self, entry: LegacyEntry) -> tuple[int, int]:
        """Return the offsets an entry begins and ends with; -1 if it cannot be decoded."""
        try:
            return offsets_inside(self.window.data, entry)
        except TidelogError:
            return -1, -1

    # --- damage -------------------------------------------------------------------------------

    def _wound(self, reason: str) -> Iterator[Section]:
        """Yield the wound at the window's beginning; leave the window behind it."""
        position, first_offset = self.window.position, self.expected
        found = next_sound(self.window, self.end_position, self.expected, self.limit)
        if found is None:
            end_position, end_offset = self.window.position, self.known_limit
            self.expected = max(self.expected, self.known_limit or 0)
        else:
            end_position, end_offset = self.window.position, found
            self.expected = found
        yield Wound(position, end_position, first_offset, end_offset, reason)


def _cut(walked: WalkedBatches, row: int, reason: str) -> WalkedBatches:
    return WalkedBatches(walked.table[:row], int(walked.table["position"][row]), reason)
