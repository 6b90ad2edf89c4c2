"""ValueCursor: the values of one batch, record by record, from where the last reader stopped.

The layout of a record is drawn in record.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from protocol.errors import BatchCorruptError
from protocol.record import NULL, decode_headers, record_error, refuse_length
from protocol.record_batch_header import BatchHeader
from protocol.varint import raw_varint, raw_varlong

__all__ = ["ValueCursor"]


class ValueCursor:
    """A place among the records of a batch; iterating yields (offset, value) and moves it.

    Attributes:
        data: All records of the batch, decompressed.
        position: Of the next record in `data`.
        records_left: How many the header says are to come.
        last_delta: Offset delta of the record before, -1 at the start.
    """

    __slots__ = (
        "_batch_position",
        "_delta_max",
        "base_offset",
        "data",
        "last_delta",
        "position",
        "records_left",
    )

    def __init__(self, data: bytes, header: BatchHeader, batch_position: int = 0) -> None:
        self.data, self.position = data, 0
        self.base_offset, self.records_left = header.base_offset, header.record_count
        self._delta_max, self._batch_position = header.last_offset_delta, batch_position
        self.last_delta = -1

    @property
    def is_done(self) -> bool:
        """Whether the batch was read to its end, all of it sound."""
        return not self.records_left and self.position == len(self.data)

    @property
    def next_offset(self) -> int:
        """The smallest offset that the next record may have."""
        return self.base_offset + self.last_delta + 1

    @property
    def plain_records_max(self) -> int:
        """How many records there can be at most if none is left out between their offsets."""
        return min(self.records_left, self._delta_max - self.last_delta)

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands, to come back to."""
        return self.position, self.last_delta, self.records_left

    @place.setter
    def place(self, place: tuple[int, int, int]) -> None:
        self.position, self.last_delta, self.records_left = place

    def __iter__(self) -> Iterator[tuple[int, bytes | None]]:
        while self.records_left:
            value = self.take()
            yield self.next_offset - 1, value
        self.check_end()

    def skip_to(self, offset: int, records_max: int) -> int:
        """Pass over records below an offset, so many at most; return how many."""
        passed = 0
        while passed < records_max and self.next_offset < offset and self.records_left:
            place = self.place
            self.take()
            if self.next_offset > offset:
                self.place = place
                break  # those between were compacted away
            passed += 1
        return passed

    def advance(self, position: int, records: int) -> None:
        """Go on to behind so many records with offsets in a row, which the caller has read."""
        self.position = position
        self.last_delta += records
        self.records_left -= records

    def check_end(self) -> None:
        """Raise BatchCorruptError unless the batch ends where its last record does."""
        if self.position != len(self.data):
            raise self._error(ValueError("bytes follow it, the last one of the batch"))

    def take(self) -> bytes | None:
        """Read one record; its offset is `base_offset + last_delta` then.

        Raises:
            BatchCorruptError: the record is unsound; the place stays.
        """
        try:
            delta, value, end = self._decode()
        except (IndexError, ValueError) as error:
            raise self._error(error) from None
        self.last_delta, self.position = delta, end
        self.records_left -= 1
        return value

    def _error(self, error: Exception) -> BatchCorruptError:
        return record_error(error, self._batch_position, self.next_offset - 1)

    def _decode(self) -> tuple[int, bytes | None, int]:
        """Return offset delta, value and end of the record at the place."""
        data, position = self.data, self.position
        raw, position = raw_varint(data, position)
        end = position + 1 + (raw >> 1)
        if raw & 1 or end > len(data):
            raise ValueError("its length is not inside the batch")
        if data[position := position + 2] > 0x7F:  # 2: over the attributes
            _, position = raw_varlong(data, position)
        if (raw := data[position := position + 1]) > 0x7F:
            raw, position = raw_varint(data, position)
        delta = raw >> 1
        if raw & 1 or not self.last_delta < delta <= self._delta_max:
            raise ValueError("its offset is out of order or range")
        if (raw := data[position := position + 1]) > 0x7F:
            raw, position = raw_varint(data, position)
        if raw & 1 and raw != NULL:
            refuse_length(raw)
        if (raw := data[position := position + 1 + (raw >> 1)]) > 0x7F:
            raw, position = raw_varint(data, position)
        value: bytes | None = data[position + 1 : (position := position + 1 + (raw >> 1))]
        if raw & 1:
            value = None if raw == NULL else refuse_length(raw)
        if position + 1 != end or data[position]:
            decode_headers(data, position, end)
        return delta, value, end
