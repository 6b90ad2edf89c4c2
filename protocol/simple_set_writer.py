"""SimpleSetWriter: record batches to entries of format 0 or 1, run by run; what a fetch answers.

Most records of such topics were made of such entries, or by a producer without keys:

    length:varint(2)  attributes  timestamp_delta(1)  offset_delta:varint(1 or 2)  null
    value_length:varint(2)  value  no headers

They are known by one unpacking of their head, at half the cost of reading field by field. All
others, and whatever is wrong, are left to `ValueCursor`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from protocol.checksum import crc32
from protocol.identifiers import Buffer
from protocol.simple_message_set import layout_of
from protocol.value_cursor import ValueCursor

__all__ = ["SimpleSetWriter"]

BLOCK: Final = 64
"""Offset deltas whose varints differ in their low byte alone, by 2 from one to the next."""
BLOCKS: Final = tuple(range(high << 8 | 0x80, (high + 1) << 8, 2) for high in range(128))
"""Of two bytes, the lower one first; the first block's deltas take one. Beyond them it is three."""
OTHERS_MAX: Final = 64
"""So many records are read field by field at most before the usual shape is tried again."""


class Head(NamedTuple):
    """A usual record up to its value: its words, as they stand in the bytes, lowest byte first."""

    unpack: Callable[..., tuple[Any, ...]]  # length, timestamp, offset delta, key, value's length
    size_bytes: int
    value_sizes: dict[int, int]
    """By the two length words, record's and value's; some thousand at most can be right."""


NARROW: Final = Head(struct.Struct("<HxBBBH").unpack_from, 8, {})
WIDE: Final = Head(struct.Struct("<HxBHBH").unpack_from, 9, {})
LENGTH_BYTES: Final = 2
HEADER_COUNT_BYTES: Final = 1


class SimpleSetWriter:
    """Gathers encoded messages up to a number of bytes.

    Attributes:
        parts: Entries one after another, in pieces.
        bytes_left: Room for more messages.
        is_full: The next message does not fit; the cursor stands before it.
    """

    __slots__ = (
        "_layout",
        "_min_one",
        "bytes_left",
        "is_full",
        "message_count",
        "parts",
        "size_bytes",
    )

    def __init__(self, message_format: int, bytes_max: int, *, min_one: bool) -> None:
        """Begin with nothing.

        Args:
            min_one: The first message is taken even if it alone is larger than `bytes_max`.

        Raises:
            UnsupportedForMessageFormatError: not format 0 or 1.
        """
        self._layout = layout_of(message_format)
        self.bytes_left, self._min_one = bytes_max, min_one
        self.parts: list[Buffer] = []
        self.size_bytes = self.message_count = 0
        self.is_full = False

    def add(self, cursor: ValueCursor, records_max: int, span_bytes: int) -> None:
        """Encode a run: so many records at most, of those that begin within so many bytes.

        A null value becomes an empty one.

        Raises:
            BatchCorruptError: the next record is unsound; those of the run before it were added.
        """
        run: list[Buffer] = []
        stop, left_at_end = cursor.position + span_bytes, cursor.records_left - records_max
        others = 1
        try:
            while not self.is_full and cursor.position < stop:
                if (count := min(cursor.records_left, cursor.records_left - left_at_end)) <= 0:
                    break
                if self._add_plain(cursor, run, count, stop):
                    others = 1
                else:
                    self._add_others(cursor, run, min(others, count), stop)
                    others = min(2 * others, OTHERS_MAX)
            if not cursor.records_left:
                cursor.check_end()
        finally:
            if run:
                self.parts.append(data := b"".join(run))
                self.size_bytes += len(data)
                self.message_count += len(run) // 2

    def _add_plain(
        self, cursor: ValueCursor, run: list[Buffer], records_max: int, stop: int
    ) -> int:
        """Add records of the usual shape; return how many.

        Ends before any other one, and before one of a size that it has not seen so far.
        """
        delta = cursor.last_delta + 1
        unpack, head_bytes, value_sizes = NARROW if delta < BLOCK else WIDE
        header, _, entry_bytes, tag, size_bytes_min = self._layout
        pack, checksum, add = header.pack, crc32, run.append
        data, position, room = cursor.data, cursor.position, self.bytes_left
        first_offset = offset = cursor.next_offset
        stop = min(stop, len(data) - head_bytes)
        length = value_length = 0
        try:
            for word in islice(_delta_words(delta), min(records_max, cursor.plain_records_max)):
                if position >= stop:
                    break
                length, timestamp_delta, delta_word, key, value_length = unpack(data, position)
                size = value_sizes[length << 16 | value_length]
                start = position + head_bytes
                end = start + size
                left = room - entry_bytes - size
                if delta_word != word or key != 1 or timestamp_delta > 127 or data[end] or left < 0:
                    break
                value = data[start:end]
                add(pack(offset, size_bytes_min + size, tag, checksum(value)))
                add(value)
                room = left
                offset += 1
                position = end + 1
        except KeyError:
            _learn(value_sizes, length, value_length, head_bytes)
        except IndexError:
            pass  # it runs past the batch, as `ValueCursor` will say
        self.bytes_left = room
        cursor.advance(position, offset - first_offset)
        return offset - first_offset

    def _add_others(
        self, cursor: ValueCursor, run: list[Buffer], records_max: int, stop: int
    ) -> None:
        """Add records of any shape; sets `is_full` at the first one that does not fit."""
        header, _, entry_bytes, tag, size_bytes_min = self._layout
        for _ in range(records_max):
            if cursor.position >= stop:
                break
            place = cursor.place
            value = cursor.take() or b""
            room = self.bytes_left - entry_bytes - len(value)
            if room < 0 and (run or self.parts or not self._min_one):
                cursor.place = place
                self.is_full = True
                break
            self.bytes_left = room
            offset = cursor.next_offset - 1
            run.append(header.pack(offset, size_bytes_min + len(value), tag, crc32(value)))
            run.append(value)


def _delta_words(delta: int) -> Iterable[int]:
    """Return the offset deltas from one on as their varints lie in the bytes, of one size."""
    block, index = divmod(delta, BLOCK)
    if not block:
        return range(2 * index, 2 * BLOCK, 2)
    return chain(BLOCKS[block][index:], chain.from_iterable(BLOCKS[block + 1 :]))


def _learn(value_sizes: dict[int, int], length: int, value_length: int, head_bytes: int) -> None:
    """Take note of the size of a value by the lengths of record and value, if it is a usual one."""
    if not length & value_length & 0x80 or (length | value_length) & 0x8000:
        return  # not two bytes each
    raw = (value_length & 0x7F00) >> 1 | value_length & 0x7F
    record_raw = (length & 0x7F00) >> 1 | length & 0x7F
    is_usual = record_raw - raw == 2 * (head_bytes - LENGTH_BYTES + HEADER_COUNT_BYTES)
    if is_usual and not raw & 1:  # else it is null, or something is with it
        value_sizes[length << 16 | value_length] = raw >> 1
