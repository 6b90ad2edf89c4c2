"""WarmSlices: which file slices were in memory a moment ago, so that nobody has to ask again.

Asking the kernel (mincore) costs as much as everything else about a fetch of a megabyte but the
sending. Readers that follow a topic together fetch the same slices within moments; what one of them
was just sent is not evicted before the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.storage.file_slice import FileSlice

WARM_S: Final = 2.0
SLICES_MAX: Final = 4_096
JUST_WRITTEN_BYTES: Final = 1024 * 1024
"""At the end of the active segment; the page cache does not let go of them first."""


class WarmSlices:
    """Says whether a slice has to be read ahead before it is sent. A hint: if wrong, it stalls."""

    __slots__ = ("_monotonic", "_seen")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seen: dict[tuple[int, int], tuple[int, float]] = {}  # by file and start: size, until

    def is_cold(self, piece: FileSlice) -> bool:
        """Whether some of the slice would have to come from the device.

        Raises:
            StorageError: the file cannot be opened.
        """
        records, position, size_bytes = piece.records, piece.position, piece.size_bytes
        if not records.is_sealed and records.size_bytes - position <= JUST_WRITTEN_BYTES:
            return False  # what was just written is asked for most
        key = (id(records), position)  # another file in its place later: wrong for two seconds
        seen_bytes, warm_until_s = self._seen.get(key, (0, 0.0))
        now_s = self._monotonic()
        if size_bytes <= seen_bytes and now_s < warm_until_s:
            return False
        if piece.is_cold():
            return True
        if len(self._seen) >= SLICES_MAX:
            self._seen.clear()
        self._seen[key] = (size_bytes, now_s + WARM_S)
        return False
