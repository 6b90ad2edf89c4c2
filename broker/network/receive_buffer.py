"""SharedReceiveBuffer: the memory that all connections of one loop read into, in turn."""

from __future__ import annotations

from typing import Final

RECEIVE_BYTES: Final = 256 * 1024
"""Some tens of ordinary requests per system call."""
AFTER_LARGE_FRAME_BYTES: Final = 4 * 1024
"""After a large frame another is likely: read little of it here, so that little is copied."""


class SharedReceiveBuffer:
    """One buffer serves all, because a read and the parsing of what it brought are one step.

    A buffer of its own would cost each connection 64 KB that are touched even when it is idle.
    """

    __slots__ = ("after_large", "view")

    def __init__(self) -> None:
        self.view = memoryview(bytearray(RECEIVE_BYTES))
        self.after_large = self.view[:AFTER_LARGE_FRAME_BYTES]
