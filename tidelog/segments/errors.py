"""What can be wrong with segments, and with what is asked of them."""

from __future__ import annotations

__all__ = ["DamagedError", "DataLossError", "OptionError", "SegmentError"]


class SegmentError(Exception):
    """Something that cannot be read, or not as asked."""


class OptionError(SegmentError, ValueError):
    """An option that is not there, or that cannot have this value."""


class DataLossError(SegmentError):
    """Offsets that were asked for are not there any more."""


class DamagedError(SegmentError):
    """Bytes that are no record batch.

    Attributes:
        path: The file.
        position: Where in it the damage begins.
        first_offset: The first offset that cannot be read.
        end_offset: The one after the last; None if it is not known.
    """

    def __init__(
        self, path: str, position: int, first_offset: int, end_offset: int | None, reason: str
    ) -> None:
        self._fields = (path, position, first_offset, end_offset, reason)
        upto = "unknown" if end_offset is None else str(end_offset - 1)
        super().__init__(
            f"{path} is damaged at byte {position} (offsets {first_offset} to {upto}): {reason}"
        )
        self.path, self.position, self.reason = path, position, reason
        self.first_offset, self.end_offset = first_offset, end_offset

    def __reduce__(self) -> tuple[type[DamagedError], tuple[object, ...]]:
        return type(self), self._fields  # so that it pickles
