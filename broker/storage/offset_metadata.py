"""LogOffsetMetadata: an offset together with where it lies; what a read and a look-up answer.

The three nouns of Kafka's storage that pass between segment, log and request handler:
LogOffsetMetadata, OffsetPosition (its LogOffsetPosition) and FetchData (its FetchDataInfo).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.identifiers import UNKNOWN_OFFSET, UNKNOWN_POSITION
from protocol.record_batch_header import LENGTH_POSITION, LOG_OVERHEAD_BYTES

if TYPE_CHECKING:
    from broker.storage.file_records import FileSlice


class OffsetPosition(NamedTuple):
    """Where one batch or legacy entry lies in a segment file."""

    offset: int
    """Its base offset; of a legacy entry, the entry's offset."""
    position: int
    size_bytes: int
    """Whole, with its 12 bytes of offset and length."""


class LogOffsetMetadata:
    """An offset, the base offset of the segment that holds it, and its position there (R34).

    Segment and position may be unknown (both or neither): then only offsets can be compared.
    Ordered by offset alone; equal only if all three are.
    """

    __slots__ = ("message_offset", "position", "segment_base_offset")

    def __init__(
        self,
        message_offset: int,
        segment_base_offset: int = UNKNOWN_OFFSET,
        position: int = UNKNOWN_POSITION,
    ) -> None:
        self.message_offset = message_offset
        self.segment_base_offset = segment_base_offset
        self.position = position

    def message_offset_only(self) -> bool:
        """Whether segment and position are unknown."""
        return self.segment_base_offset == UNKNOWN_OFFSET and self.position == UNKNOWN_POSITION

    def precedes(self, other: LogOffsetMetadata) -> bool:
        """Whether this offset is below the other."""
        return self.message_offset < other.message_offset

    def offset_diff(self, other: LogOffsetMetadata) -> int:
        """Return how many offsets this is above the other (negative: below)."""
        return self.message_offset - other.message_offset

    def on_older_segment(self, other: LogOffsetMetadata) -> bool:
        """Whether this offset lies in a segment before the other's.

        Raises:
            ValueError: either side has only its offset.
        """
        self._check_segments_known(other)
        return self.segment_base_offset < other.segment_base_offset

    def on_same_segment(self, other: LogOffsetMetadata) -> bool:
        """Whether both lie in one segment.

        Raises:
            ValueError: either side has only its offset.
        """
        self._check_segments_known(other)
        return self.segment_base_offset == other.segment_base_offset

    def position_diff(self, other: LogOffsetMetadata) -> int:
        """Return how many bytes of the segment lie between the other and this.

        Raises:
            ValueError: either side has only its offset, or they lie in different segments.
        """
        if not self.on_same_segment(other):
            raise ValueError(f"{self!r} and {other!r} lie in different segments")
        return self.position - other.position

    def _check_segments_known(self, other: LogOffsetMetadata) -> None:
        if self.message_offset_only() or other.message_offset_only():
            raise ValueError(f"cannot compare {self!r} with {other!r}: only an offset is known")

    def __lt__(self, other: LogOffsetMetadata) -> bool:
        return self.message_offset < other.message_offset

    def __le__(self, other: LogOffsetMetadata) -> bool:
        return self.message_offset <= other.message_offset

    def __gt__(self, other: LogOffsetMetadata) -> bool:
        return self.message_offset > other.message_offset

    def __ge__(self, other: LogOffsetMetadata) -> bool:
        return self.message_offset >= other.message_offset

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LogOffsetMetadata):
            return NotImplemented
        return (self.message_offset, self.segment_base_offset, self.position) == (
            other.message_offset,
            other.segment_base_offset,
            other.position,
        )

    def __hash__(self) -> int:
        return hash((self.message_offset, self.segment_base_offset, self.position))

    def __repr__(self) -> str:
        return (
            f"LogOffsetMetadata(message_offset={self.message_offset}, "
            f"segment_base_offset={self.segment_base_offset}, position={self.position})"
        )


UNKNOWN_OFFSET_METADATA: Final = LogOffsetMetadata(UNKNOWN_OFFSET)
"""No offset at all."""


class FetchData(NamedTuple):
    """What a read answers: slices of segment files, never copied bytes (Kafka's FetchDataInfo)."""

    offset_metadata: LogOffsetMetadata
    """The offset that was asked for, and where the answer starts."""
    slices: tuple[FileSlice, ...]
    """In log order, one for each segment that was read; empty: no records."""
    size_bytes: int
    """Of all slices together. The first batch may begin below the asked offset."""

    def has_whole_batch(self) -> bool:
        """Whether the first batch, or legacy entry, is there to its end.

        Raises:
            StorageError: the file cannot be read.
        """
        if not self.slices:
            return False
        first = self.slices[0]
        length = first.records.read_bytes(first.position + LENGTH_POSITION, 4)
        return first.size_bytes >= LOG_OVERHEAD_BYTES + int.from_bytes(length, "big", signed=True)
