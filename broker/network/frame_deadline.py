"""FrameDeadline: by when a frame that has begun must be whole."""

from __future__ import annotations

from typing import Final

FRAME_RATE_MIN: Final = 32 * 1024
"""Bytes a second below which a frame counts as withheld."""


class FrameDeadline:
    """Of one connection; times are seconds of the loop's clock."""

    __slots__ = ("_at_s", "_size_s", "_timeout_s")

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s, self._at_s, self._size_s = timeout_s, 0.0, 0.0

    @property
    def is_set(self) -> bool:
        """Whether a frame has begun."""
        return self._at_s != 0.0

    def begin(self, now_s: float, size_bytes: int) -> None:
        """Take note of the start of a frame; a large one has as long as its size takes."""
        self._size_s = size_bytes / FRAME_RATE_MIN
        self._at_s = now_s + self._timeout_s + self._size_s

    def clear(self) -> None:
        """Forget it: no frame is under way, or it is not the client who holds it up."""
        self._at_s = 0.0

    def is_over(self, now_s: float, *, is_size_allowed_for: bool = True) -> bool:
        """Whether the time is up; without the allowance for its size, if so wished."""
        return now_s > self._at_s - (0.0 if is_size_allowed_for else self._size_s)
