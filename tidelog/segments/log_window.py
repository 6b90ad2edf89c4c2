"""LogWindow: the bytes of a log file, read forward into one buffer that is used again and again."""

from __future__ import annotations

from types import TracebackType
from typing import Final

from tidelog.segments.location import Location

__all__ = ["LogWindow"]

WINDOW_BYTES: Final = 4 * 1024 * 1024
"""Large enough that what a window costs in Python is little beside its CRCs: with 1 MB the walk
takes a quarter longer."""


class LogWindow:
    """A file of which a stretch is in memory."""

    def __init__(
        self, location: Location, size_bytes: int, *, window_bytes: int = WINDOW_BYTES
    ) -> None:
        """Open the file.

        Args:
            size_bytes: Up to where it is looked at; a live log grows meanwhile.

        Raises:
            OSError: it is not there, or cannot be read.
        """
        self._file = location.filesystem.open_input_file(location.path)
        self.size_bytes, self.window_bytes = size_bytes, window_bytes
        self._buffer = bytearray(min(window_bytes, max(size_bytes, 1)))
        self._position = self._length = 0

    def __enter__(self) -> LogWindow:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def view(self, position: int, size_bytes_min: int) -> memoryview:
        """Return the bytes from a position on: as many as asked for, or more; fewer at the end.

        They are valid until the next call.
        """
        wanted = min(size_bytes_min, self.size_bytes - position)
        begin = position - self._position
        if begin < 0 or begin + wanted > self._length:
            self._fill(position, wanted)
            begin = 0
        return memoryview(self._buffer)[begin : self._length].toreadonly()

    def at_least(self, position: int, size_bytes: int) -> bytes:
        """Return a copy of so many bytes from a position on; fewer at the end only."""
        return bytes(self.view(position, size_bytes)[:size_bytes])

    def _fill(self, position: int, wanted: int) -> None:
        if wanted > len(self._buffer):
            self._buffer = bytearray(wanted)
        room = memoryview(self._buffer)[: self.size_bytes - position]
        self._file.seek(position)
        self._position, self._length = position, 0
        while self._length < len(room):
            got = self._file.readinto(room[self._length :])
            if not got:  # it was cut meanwhile
                self.size_bytes = position + self._length
                return
            self._length += got
