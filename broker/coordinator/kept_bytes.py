"""KeptBytes: how much memory clients have the coordinator keep, by group and in all.

Beside what clients have sent, each thing costs what Python makes of it. The numbers here are above
what was measured (1,040 bytes for an empty group, 550 for an id, 1,300 for a member), for a bound
on memory has to hold there.
"""

from __future__ import annotations

import sys
from typing import Final

__all__ = [
    "GROUP_BYTES",
    "MEMBER_BYTES",
    "OFFSET_BYTES",
    "PENDING_BYTES",
    "KeptBytes",
    "text_bytes",
]

GROUP_BYTES: Final = 3_000
MEMBER_BYTES: Final = 2_000
PENDING_BYTES: Final = 1_000
"""Of a member id that was given out."""
OFFSET_BYTES: Final = 400
"""340 were measured, with metadata of a few characters, and 670 in topics with one partition."""

text_bytes = sys.getsizeof
"""Of a text as it is kept: up to four bytes a character, and fifty for itself."""


class KeptBytes:
    """A sum that may be part of a larger one.

    Args:
        maximum: What clients may let it grow to; what is kept already is taken in beyond that.
    """

    __slots__ = ("_whole", "bytes", "maximum")

    def __init__(self, maximum: float = float("inf")) -> None:
        self.bytes, self.maximum = 0, maximum
        self._whole: KeptBytes | None = None

    def add(self, size: int) -> None:
        """Take note of something that is kept from now on; negative: not any more."""
        self.bytes += size
        if self._whole is not None:
            self._whole.bytes += size

    def has_room(self, size: int) -> bool:
        """Whether clients may have so much more kept, here and in the whole."""
        whole = self._whole
        fits = self.bytes + size <= self.maximum
        return size <= 0 or (fits and (whole is None or whole.has_room(size)))

    def join(self, whole: KeptBytes | None) -> None:
        """Be part of a sum from now on, and of none other."""
        if self._whole is not None:
            self._whole.bytes -= self.bytes
        self._whole = whole
        if whole is not None:
            whole.bytes += self.bytes
