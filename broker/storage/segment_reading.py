"""ReadableSegment: the reading side of a segment (R21, R22, R33), with what is known of wounds."""

from __future__ import annotations

from broker.steps import Steps, run_to_end
from broker.storage.damage import Damage
from broker.storage.file_slice import FileSlice
from broker.storage.index_cache import IndexCache
from broker.storage.offset_metadata import LogOffsetMetadata, OffsetPosition
from broker.storage.segment_check import SegmentCheck
from broker.storage.segment_files import SegmentFiles
from broker.storage.segment_lookup import SegmentLookup, TimestampOffset
from protocol.errors import CorruptMessageError, InvalidRequestError


class ReadableSegment(SegmentFiles):
    """A segment that can be read; `LogSegment` is one that can be changed too."""

    __slots__ = ("_lookup", "base_offset", "check", "size_bytes")

    def __init__(
        self, files: SegmentFiles, index_cache: IndexCache, index_interval_bytes: int
    ) -> None:
        records, indexes = files.records, (files.offset_index, files.time_index)
        super().__init__(files.handles, files.directory, records, *indexes)
        self.base_offset = self.offset_index.base_offset
        self.size_bytes = records.size_bytes
        """Of the `.log`; where the next batch goes."""
        self._lookup = SegmentLookup(records, *indexes, index_cache, index_interval_bytes)
        self.check = SegmentCheck(self._lookup)
        """Of what was found on the disk, before it is answered with."""

    def translate_offset(self, offset: int, from_position: int = 0) -> OffsetPosition | None:
        """Return the first batch whose last offset is at or above `offset`, or None (R21).

        Args:
            from_position: Where a batch starts that is known to be no later than that one.

        Raises:
            BatchCorruptError, BatchTruncatedError: the log is damaged on the way there.
        """
        return self._lookup.translate_offset(offset, from_position)

    def read(
        self,
        offset: int,
        max_bytes: int,
        max_position: int,
        min_one: bool,
        at_once: bool = True,
    ) -> tuple[LogOffsetMetadata, FileSlice | None] | None:
        """Return where to read from `offset` on, and the bytes; None if there is no such offset.

        The slice starts at the batch that holds `offset`, or the first one after a gap (R22).

        Args:
            max_bytes: 0 answers no bytes. The last batch may be cut by it.
            max_position: Bytes from there on do not exist for this reader.
            min_one: The first batch comes whole, however large.
            at_once: What was not checked yet is checked in place.

        Raises:
            BytesUncheckedError: not `at_once`, and something has to be checked.
            InvalidRequestError: `max_bytes` is negative.
            DamageFoundError: the log is damaged on the way to `offset`, and nobody knew of it.
            CorruptMessageError: the same, where a second look finds nothing.
        """
        if max_bytes < 0:
            raise InvalidRequestError(f"max_bytes is {max_bytes}")
        try:
            found = self._find(offset)
        except CorruptMessageError as error:
            self.check.raise_damage(error)
        if found is None:
            return None
        _, position, batch_bytes = found
        metadata = LogOffsetMetadata(offset, self.base_offset, position)
        if not max_bytes:
            return metadata, None
        size = max(max_bytes, batch_bytes) if min_one else max_bytes
        size = min(size, max_position - position, self.size_bytes - position)
        if size <= 0:
            return metadata, None
        if self.check.unchecked is not None:
            size = self.check.check(offset, found, size, at_once=at_once)
        return metadata, FileSlice(self.records, position, size)

    def _find(self, offset: int) -> OffsetPosition | None:
        """Return the first batch that reaches `offset`; errors as `translate_offset`."""
        unchecked = self.check.unchecked
        if unchecked is not None and not self.wounds:
            last_found = self.check.last_found
            if last_found is not None and last_found[0] == offset:
                return last_found[1]
            position = unchecked.end_at(offset)
            if position is not None:
                return self.records.search_for(offset, position)
        return self._lookup.translate_offset(offset, 0)

    def offset_for_timestamp(self, time_ms: int, from_offset: int = 0) -> TimestampOffset | None:
        """Run `timestamp_steps` to its end."""
        return run_to_end(self.timestamp_steps(time_ms, from_offset))

    def timestamp_steps(self, time_ms: int, from_offset: int) -> Steps[TimestampOffset | None]:
        """Return the first record, in log order from `from_offset` on, that is late enough.

        Raises:
            DamageFoundError: the log is damaged on the way there, and nobody knew of it.
            CorruptMessageError: what was looked for may have been in a wound that is known.
        """
        try:
            found = yield from self._lookup.timestamp_steps(time_ms, from_offset)
        except CorruptMessageError as error:
            self.check.raise_damage(error)
        if found is None:
            return None
        if self.check.unchecked is not None:
            yield from self.check.span_steps(found.start_position, found.batch.position + 1)
        for wound in self.wounds:
            if from_offset < wound.next_offset == found.batch.offset > wound.first_offset:
                raise CorruptMessageError(wound.position, str(wound))
        return found.record

    def end_before(self, position: int) -> int:
        """Return the offset after the last batch that begins before `position`.

        Raises:
            CorruptMessageError: the log is damaged there.
        """
        if not position:
            return self.base_offset
        start, end = self._lookup.anchor(position - 1)
        for at, header in self._lookup.headers(start):
            if at >= position:
                break
            end = header.next_offset
        return end

    # --- wounds -------------------------------------------------------------------------------

    @property
    def wounds(self) -> tuple[Damage, ...]:
        """All that are known, in the order of the file."""
        return self._lookup.wounds

    def set_wounds(self, wounds: tuple[Damage, ...], limit_offset: int | None) -> None:
        """Take note of all wounds of this segment, so that look-ups step over them.

        Args:
            limit_offset: The base offset of the next segment, if there is one.
        """
        self._lookup.wounds, self._lookup.limit_offset = wounds, limit_offset
