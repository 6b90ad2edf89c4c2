"""FileWindow: a piece of a file in memory, which goes along it; one buffer for all of the way.

Views of `data` are of that buffer: they hold until the window moves.
"""

from __future__ import annotations

from typing import Any, Protocol

from protocol.identifiers import Buffer

__all__ = ["FileWindow", "MemoryWindow", "Window"]


class Window(Protocol):
    """Bytes from `position` of a file on."""

    position: int
    data: memoryview

    def advance(self, size_bytes: int) -> None:
        """Let go of the first so many bytes."""

    def fill(self, size_bytes_min: int = 0) -> bool:
        """Read more behind the data, so that at least so many are there; return if there are more.

        Without a size not beyond the end that the window was made with; with one also there.
        """


class MemoryWindow:
    """All there is, in memory already."""

    def __init__(self, data: Buffer, position: int = 0) -> None:
        self.data, self.position = memoryview(data).cast("B"), position

    def advance(self, size_bytes: int) -> None:
        self.data = self.data[size_bytes:]
        self.position += size_bytes

    def fill(self, size_bytes_min: int = 0) -> bool:
        return False


class FileWindow:
    """A file, chunk by chunk."""

    def __init__(self, file: Any, position: int, end_position: int, chunk_bytes: int) -> None:
        """Args:
        file: An input file of pyarrow's, which can be sought in.
        end_position: Do not read what is behind it, unless asked for by size.
        """
        self._file, self._end, self._chunk_bytes = file, end_position, chunk_bytes
        self._size_bytes = file.size()
        self._buffer = bytearray()
        self.position = position
        self.data = memoryview(self._buffer)
        file.seek(position)

    def advance(self, size_bytes: int) -> None:
        self.data = self.data[size_bytes:]
        self.position += size_bytes

    def fill(self, size_bytes_min: int = 0) -> bool:
        kept = len(self.data)
        wanted = max(min(kept + self._chunk_bytes, self._end - self.position), size_bytes_min)
        wanted = min(wanted, self._size_bytes - self.position)
        if wanted <= kept:
            return False
        tail = bytes(self.data)
        if len(self._buffer) < wanted:
            self._buffer = bytearray(wanted + wanted // 2)  # seldom: fresh memory is slow
        self._buffer[:kept] = tail
        view = memoryview(self._buffer)
        size = kept
        while size < wanted:
            read = self._file.readinto(view[size:wanted])
            if not read:
                break
            size += read
        self.data = view[:size]
        return size > kept
