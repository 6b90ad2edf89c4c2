"""Message set file iterator: walks entries and batches of all formats in a file (R4).

Legacy entries (magic 0 and 1) and record batches (magic 2) begin alike, `offset:i64 size:i32` with
the magic byte at 16, so one walk serves files of an upgraded log that hold all three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from protocol import limits
from protocol.errors import BatchCorruptError, CorruptMessageError
from protocol.legacy_message_set import (
    ENTRY_BYTES_MIN,
    MAGIC_POSITION,
    PREFIX,
    PREFIX_BYTES,
    check_entry,
)
from protocol.record_batch import check_batch
from protocol.record_batch_header import MAGIC

__all__ = ["FileEntry", "iterate_file"]

WINDOW_BYTES: Final = 64 * 1024
"""Read at once, so that small entries do not cost a system call each."""


class FileEntry(NamedTuple):
    """One entry or batch as it stands in the file; nothing in it is checked but its size."""

    offset: int
    """Legacy: of the message, or of the last one in a wrapper. Record batch: its base offset."""
    position: int
    """Where it starts in the file."""
    magic: int
    """0, 1 or 2 if it is sound; which parser may read `data`."""
    data: memoryview
    """All of it, prefix included."""

    @property
    def size_bytes(self) -> int:
        """The whole of it, prefix included."""
        return len(self.data)

    def check(self) -> None:
        """Check CRC and structure, by its magic.

        Raises:
            BatchCorruptError: it is damaged, naming the position in the file.
        """
        try:
            if self.magic == MAGIC:
                check_batch(self.data)
            else:
                check_entry(self.data)
        except CorruptMessageError as error:
            raise BatchCorruptError(self.position, error.reason) from error


def iterate_file(
    read: Callable[[int, int], bytes],
    start: int,
    end: int,
    *,
    size_bytes_max: int = limits.INT32_MAX,
    window_bytes: int = WINDOW_BYTES,
) -> Iterator[FileEntry]:
    """Yield the entries from byte `start` on, up to `end`, which the file need not reach.

    Ends without an error (R4) where (1) no room is left for another 12-byte prefix before the
    end; (2) the file ends inside the prefix; (3) the size is under the minimum, or the entry
    would pass the end; (4) the file ends inside the entry.

    Args:
        read: `read(size, position)` gives that many bytes, fewer only at the file's end.
        size_bytes_max: For an entry's size field, that is without its prefix.

    Raises:
        BatchCorruptError: a size over `size_bytes_max`.
    """
    position = window_start = start
    window = memoryview(b"")
    while end - position >= PREFIX_BYTES:  # (1)
        begin = position - window_start
        if len(window) - begin < PREFIX_BYTES:
            window = memoryview(
                read(min(max(window_bytes, PREFIX_BYTES), end - position), position)
            )
            window_start, begin = position, 0
            if len(window) < PREFIX_BYTES:  # (2)
                return
        offset, size = PREFIX.unpack_from(window, begin)
        entry_bytes = PREFIX_BYTES + size
        if entry_bytes < ENTRY_BYTES_MIN[0] or entry_bytes > end - position:  # (3)
            return
        if size > size_bytes_max:
            raise BatchCorruptError(position, f"size {size} is over {size_bytes_max}")
        if len(window) - begin < entry_bytes:
            window = memoryview(read(min(max(window_bytes, entry_bytes), end - position), position))
            window_start, begin = position, 0
            if len(window) < entry_bytes:  # (4)
                return
        data = window[begin : begin + entry_bytes]
        yield FileEntry(offset, position, data[MAGIC_POSITION], data)
        position += entry_bytes
