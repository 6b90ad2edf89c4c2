"""Walking all of a segment: with every CRC for recovery (R23), by headers for its indexes.

Bounds come from the format and the file, never from settings: a `max_message_bytes` lowered since
must not make good data look bad. Read in windows; a batch that does not fit into one is
checked piece by piece, so that a damaged length cannot ask for much memory.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Final, NamedTuple, TypeAlias

from broker.storage.damage import Damage
from broker.storage.entry_walk import LEGACY_V0, LEGACY_V1, EntryHeader, LegacyHeader
from broker.storage.file_records import FileRecords
from broker.storage.index_builder import IndexBuilder
from broker.storage.offset_metadata import OffsetPosition
from protocol.checksum import crc32, crc32c
from protocol.errors import BatchCorruptError, BatchTruncatedError, CorruptMessageError
from protocol.identifiers import NO_TIMESTAMP
from protocol.legacy_message_set import ENTRY_BYTES_MIN, parse_entry
from protocol.limits import INT32_MAX, INT64_MAX, RECORDS_PER_BATCH_MAX
from protocol.record_batch_header import (
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    LENGTH_MIN,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    RECORD_BYTES_MIN,
    BatchHeader,
    parse_header,
)

WINDOW_BYTES: Final = 1024 * 1024
MAGIC_POSITION: Final = 16
LEGACY_CRC_START: Final = 16
BATCH_CRC_START: Final = 21

unpack_header = HEADER.unpack_from
new_tuple = tuple.__new__

Visitor: TypeAlias = Callable[[int, EntryHeader], None]
"""Is called with position and header of each batch or legacy entry, after its CRC was checked."""

Judge: TypeAlias = Callable[[Damage, OffsetPosition | None], bool]
"""Is asked at each stretch of bad bytes whether it is damage, which stays and is gone on behind;
False: a torn tail, the segment ends before it. Also given the next sound batch of the file, if any.
"""


class SegmentRecovery(NamedTuple):
    """What a segment holds (R23). The caller judges what is bad, and cuts."""

    valid_bytes: int
    """Where the segment ends: below are sound batches, and what was judged to be damage."""
    next_offset: int
    """The offset after the last sound batch; the segment's base offset if there is none."""
    largest_timestamp: int
    """Of the sound batches; -1 if there is none."""
    bad_bytes: int
    """What follows `valid_bytes`; 0 for a segment without a torn tail."""
    fault: str
    """What is wrong at `valid_bytes`; "" for a segment without a torn tail."""
    later: OffsetPosition | None
    """The first sound batch behind those bad bytes."""
    wounds: tuple[Damage, ...] = ()
    """What was judged to be damage. Of one at the file's end, `next_offset` is not known."""


class SegmentWalk:
    """Sees a segment's file through one window that moves forward."""

    __slots__ = (
        "_buffer", "_end", "_records", "_start", "base_offset", "limit_offset", "promised_offset",
        "size_bytes", "sound_offset", "sound_position",
    )  # fmt: skip

    def __init__(
        self,
        records: FileRecords,
        base_offset: int,
        *,
        limit_offset: int | None = None,
        promised_offset: int = 0,
        window_bytes: int | None = None,
    ) -> None:
        """Args:
        limit_offset: No batch of this segment reaches it: the base offset of the next one.
        promised_offset: Offsets below it are known to have been stored, no gap of the cleaner's
            is at it: no batch may begin behind it where the one before ends below.
        window_bytes: How much to read at once, where less will be looked at.
        """
        self._records = records
        self.base_offset = base_offset
        reach = base_offset + INT32_MAX + 1
        self.limit_offset = reach if limit_offset is None else min(limit_offset, reach)
        self.promised_offset = promised_offset
        self.size_bytes = records.size_bytes
        wanted_bytes = WINDOW_BYTES if window_bytes is None else min(window_bytes, WINDOW_BYTES)
        self._buffer = memoryview(bytearray(min(wanted_bytes, max(self.size_bytes, 1))))
        self._start = self._end = 0  # which bytes of the file the window holds
        self.sound_position, self.sound_offset = 0, base_offset
        """Where a walk that is over, or has failed, found the sound batches to end."""

    def checked_batches(
        self, position: int = 0, expected_offset: int | None = None, end: int | None = None
    ) -> Iterator[tuple[int, EntryHeader]]:
        """Yield position and header of every batch, each of them sound, to the end of the file.

        Args:
            expected_offset: The one after the batch before; the base offset without it.
            end: No batch that begins there or behind is looked at.

        Raises:
            BatchCorruptError, BatchTruncatedError: with the position of the first that is not.
        """
        if expected_offset is None:
            expected_offset = self.base_offset
        size_bytes = self.size_bytes if end is None else min(end, self.size_bytes)
        self.sound_position, self.sound_offset = position, expected_offset
        while position < size_bytes:
            position, expected_offset = yield from self._run_in_window(
                position, expected_offset, size_bytes
            )
            self.sound_position, self.sound_offset = position, expected_offset
            if position >= size_bytes:
                return
            header = self.check(position)
            if header.base_offset < expected_offset:
                raise BatchCorruptError(
                    position, f"offset {header.base_offset} where {expected_offset} is next"
                )
            next_position = position + header.size_bytes
            if header.base_offset > expected_offset:
                if expected_offset < self.promised_offset <= header.base_offset:
                    raise BatchCorruptError(
                        position, f"offset {header.base_offset} where {expected_offset} must be"
                    )
                self._check_gap(position, header, expected_offset, next_position)
            expected_offset = header.next_offset
            if expected_offset > self.limit_offset:
                raise BatchCorruptError(position, f"offset {expected_offset - 1} is out of reach")
            yield position, header
            position = next_position
            self.sound_position, self.sound_offset = position, expected_offset

    def _run_in_window(
        self, position: int, expected_offset: int, size_bytes: int
    ) -> Generator[tuple[int, EntryHeader], None, tuple[int, int]]:
        """Do what `check` does, in one loop, for the sound record batches in the window that follow
        each other: nearly all are. Return where it met something else, and the offset due there.
        Between two of them the walk must not be used for anything else."""
        if not self._start <= position <= self._end - HEADER_BYTES:
            self._move_to(position)
        buffer, start, limit = self._buffer, self._start, self._end - self._start
        index = position - start
        index_max = min(limit - HEADER_BYTES, size_bytes - 1 - start)
        limit_offset = min(self.limit_offset, INT64_MAX)
        while index <= index_max:
            fields = unpack_header(buffer, index)
            offset, length, _, magic, crc, attributes, delta, _, _, _, _, _, count = fields
            end = index + LOG_OVERHEAD_BYTES + length
            body_bytes = length - LENGTH_MIN
            if (
                magic != MAGIC
                or offset != expected_offset
                or body_bytes < 0
                or end > limit
                or crc != crc32c(buffer[index + BATCH_CRC_START : end])
                or not 0 <= count <= delta + 1
                or delta < 0
                or count > RECORDS_PER_BATCH_MAX
                or (not attributes & CODEC_MASK and count * RECORD_BYTES_MIN > body_bytes)
            ):
                break
            next_offset = offset + delta + 1
            if next_offset > limit_offset:
                break
            yield start + index, new_tuple(BatchHeader, fields)
            expected_offset, index = next_offset, end
        return start + index, expected_offset

    def _check_gap(
        self, position: int, header: EntryHeader, expected_offset: int, next_position: int
    ) -> None:
        """Tell a gap that the cleaner left from an offset that is wrong: no CRC covers it."""
        try:
            follower = self.header(next_position)
        except CorruptMessageError:
            return
        if expected_offset <= follower.base_offset < header.next_offset:
            raise BatchCorruptError(
                position,
                f"offset {header.base_offset} before {follower.base_offset}, "
                f"where {expected_offset} is next",
            )

    def header(self, position: int) -> EntryHeader:
        """Return the header at `position`; nothing behind it is looked at.

        Raises:
            BatchTruncatedError: the file ends inside the header.
            BatchCorruptError: no batch has such a header.
        """
        if position + HEADER_BYTES > self._end or position < self._start:
            self._move_to(position)
        window = self._buffer[: self._end - self._start]
        index = position - self._start
        if len(window) - index <= MAGIC_POSITION:
            raise BatchTruncatedError(position, "header")
        try:
            magic = window[index + MAGIC_POSITION]
            if magic >= MAGIC:
                return parse_header(window, index)
            parse_entry(window, index)
            return _legacy_header(window, index)
        except BatchTruncatedError as error:
            raise BatchTruncatedError(position, error.reason) from None
        except BatchCorruptError as error:
            raise BatchCorruptError(position, error.reason) from None

    def check(self, position: int) -> EntryHeader:
        """Return the header of the batch at `position`, which is all there and has its CRC.

        Raises:
            BatchTruncatedError: the file ends inside it.
            BatchCorruptError: it is no batch, or its CRC is wrong.
        """
        header = self.header(position)
        end = position + header.size_bytes
        if end > self.size_bytes:
            raise BatchTruncatedError(position, f"{end - self.size_bytes} bytes are missing")
        if header.magic == MAGIC:
            crc = self._crc(position + BATCH_CRC_START, end, crc32c)
        else:
            crc = self._crc(position + LEGACY_CRC_START, end, crc32)
        if crc != header.crc & 0xFFFFFFFF:
            raise BatchCorruptError(position, "the crc does not match")
        return header

    def _crc(self, position: int, end: int, function: Callable[[memoryview, int], int]) -> int:
        if end > self._end and end - position < len(self._buffer) // 2:
            self._move_to(position)
        crc = 0
        while position < end:
            if not self._start <= position < self._end:
                self._move_to(position)
            start = self._start
            crc = function(self._buffer[position - start : min(end, self._end) - start], crc)
            position = min(end, self._end)
        return crc

    def _move_to(self, position: int) -> None:
        """Let the window begin at `position`."""
        count = self._records.read_into(self._buffer, position)
        self._start, self._end = position, position + count
        if not count:
            raise BatchTruncatedError(position, "the file ends here")

    def find_later(self, bad_position: int, next_offset: int) -> OffsetPosition | None:
        """Return the first sound batch behind a bad one, or None.

        First where the bad one ends, if its size is right; then at any byte, record batches only.
        """
        try:
            position = bad_position + self.header(bad_position).size_bytes
            found = self._sound(position, next_offset)
        except CorruptMessageError:
            found = None
        return found if found is not None else self._search(bad_position + 1, next_offset)

    def _sound(self, position: int, next_offset: int) -> OffsetPosition | None:
        if position >= self.size_bytes:
            return None
        try:
            header = self.check(position)
            if not next_offset <= header.base_offset <= header.last_offset < self.limit_offset:
                return None
            self._check_gap(position, header, next_offset, position + header.size_bytes)
        except CorruptMessageError:
            return None
        return OffsetPosition(header.base_offset, position, header.size_bytes)

    def _search(self, position: int, next_offset: int) -> OffsetPosition | None:
        """Look for the magic, then at the first bytes of the offset, then at the whole batch."""
        first, last = next_offset, self.limit_offset - 1
        prefixes = {offset.to_bytes(8, "big")[:4] for offset in (first, last)}
        while position + HEADER_BYTES <= self.size_bytes:
            window = self._records.read_bytes(position, WINDOW_BYTES)
            index = window.find(MAGIC, MAGIC_POSITION)
            while index >= 0:
                start = index - MAGIC_POSITION
                if window[start : start + 4] in prefixes:
                    found = self._sound(position + start, next_offset)
                    if found is not None:
                        return found
                index = window.find(MAGIC, index + 1)
            position += max(len(window) - MAGIC_POSITION, 1)
        return None


def _legacy_header(window: memoryview, index: int) -> LegacyHeader:
    timestamp: int = NO_TIMESTAMP
    if window[index + MAGIC_POSITION]:
        offset, size, crc, magic, attributes, timestamp = LEGACY_V1.unpack_from(window, index)
    else:
        offset, size, crc, magic, attributes = LEGACY_V0.unpack_from(window, index)
    size_bytes = LOG_OVERHEAD_BYTES + size
    assert size_bytes >= ENTRY_BYTES_MIN[magic], "parse_entry has checked it"
    return LegacyHeader(offset, size_bytes, magic, crc, attributes, timestamp)


def recover(
    walk: SegmentWalk, builder: IndexBuilder, visitor: Visitor | None, judge: Judge | None
) -> tuple[SegmentRecovery, int]:
    """Walk the segment, building its indexes; return what was found, and the bytes unindexed.

    Args:
        judge: Without one the first bad byte ends the segment.
    """
    base_offset, size_bytes = walk.base_offset, walk.size_bytes
    position, next_offset, forced = 0, base_offset, False
    wounds: list[Damage] = []
    while True:
        fault, later = "", None
        try:
            for at, header in walk.checked_batches(position, next_offset):
                if (
                    forced
                    or at > builder.due_position
                    or (header.max_timestamp > builder.largest_timestamp)
                ):
                    builder.add(at, header.last_offset, header.max_timestamp, forced=forced)
                    forced = False
                if visitor is not None:
                    visitor(at, header)
            position, next_offset = walk.sound_position, walk.sound_offset
            break
        except CorruptMessageError as error:
            fault = error.reason
        position, next_offset = walk.sound_position, walk.sound_offset
        later = walk.find_later(position, next_offset)
        wound = wound_between(walk, position, next_offset, later, fault)
        if judge is None or not judge(wound, later):
            break
        wounds.append(wound)
        if later is None:
            position, fault = size_bytes, ""
            break
        position, next_offset, forced = later.position, later.offset, True
    unindexed_bytes = builder.finish(position)
    bad_bytes = size_bytes - position
    found = SegmentRecovery(
        position, next_offset, builder.largest_timestamp, bad_bytes, fault, later, tuple(wounds)
    )
    return found, unindexed_bytes


def wound_between(
    walk: SegmentWalk, position: int, next_offset: int, later: OffsetPosition | None, fault: str
) -> Damage:
    """Return the wound from a position up to the next sound batch, or to the file's end."""
    if later is None:
        return Damage(walk.base_offset, position, walk.size_bytes, next_offset, next_offset, fault)
    return Damage(walk.base_offset, position, later.position, next_offset, later.offset, fault)


def rebuild_indexes(
    walk: SegmentWalk, records: FileRecords, builder: IndexBuilder, wounds: tuple[Damage, ...]
) -> int:
    """Build the indexes by headers alone, beyond damage too; return the bytes unindexed.

    Behind damage, known or met, there is an entry for the next sound batch: a look-up for what lies
    behind must not have to cross it.
    """
    position, next_offset, forced = 0, walk.base_offset, False
    while position < records.size_bytes:
        stop = min(
            (each.position for each in wounds if each.position >= position),
            default=records.size_bytes,
        )
        try:
            for at, header in records.batches(position):
                if at >= stop:
                    break
                last_offset = header.last_offset
                builder.add(at, last_offset, header.max_timestamp, forced=forced)
                position, next_offset, forced = at + header.size_bytes, last_offset + 1, False
        except CorruptMessageError:
            pass  # looked at below, like a walk that ends before the file does
        if position < records.size_bytes:
            later = walk.find_later(position, next_offset)
            if later is None:
                break
            position, forced = later.position, True
    return builder.finish(records.size_bytes)
