"""NextRead: how many bytes a connection's next read should bring."""

from __future__ import annotations

from typing import Final

from broker.network.receive_buffer import WHOLE_FRAME_BYTES_MAX

AFTER_LARGE_FRAME_BYTES: Final = 4 * 1024
"""After a large frame another is likely: read little of it, so that little is copied."""
DOUBTED_FRAMES: Final = 16
"""After one that was expected whole and came cut, which costs a copy of what had come."""


class NextRead:
    """Expects a large frame after a large frame: a whole one if the last came at once.

    Attributes:
        size_bytes: 0 for an ordinary read.
    """

    __slots__ = ("_doubted_frames", "_is_for_a_whole_frame", "size_bytes")

    def __init__(self) -> None:
        self.size_bytes = self._doubted_frames = 0
        self._is_for_a_whole_frame = False

    def after_large_frame(self, size_bytes: int, *, came_at_once: bool) -> None:
        """Take note of a large frame, its length included, received into a buffer of its own."""
        is_doubted = self._doubted_frames > 0
        self._doubted_frames -= is_doubted
        fits = size_bytes <= WHOLE_FRAME_BYTES_MAX
        self._is_for_a_whole_frame = came_at_once and fits and not is_doubted
        self.size_bytes = size_bytes if self._is_for_a_whole_frame else AFTER_LARGE_FRAME_BYTES

    def ended(self, *, brought_one_frame: bool, is_cut: bool) -> bool:
        """Take note of what came; return whether it was the whole frame that was expected."""
        if self._is_for_a_whole_frame:
            if brought_one_frame:
                return True
            if is_cut:
                self._doubted_frames = DOUBTED_FRAMES
        self._is_for_a_whole_frame = False
        self.size_bytes = 0
        return False
