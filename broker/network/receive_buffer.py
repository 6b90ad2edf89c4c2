"""SharedReceiveBuffer: the memory that all connections of one loop read into, in turn."""

from __future__ import annotations

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Final

RECEIVE_BYTES: Final = 256 * 1024
"""Some tens of ordinary requests per system call."""
WHOLE_FRAME_BYTES_MAX: Final = 2 * 1024 * 1024
"""Frames up to this size are received here whole where one came like that before."""


class SharedReceiveBuffer:
    """One buffer serves all, because a read and the parsing of what it brought are one step.

    A buffer of its own would cost each connection 64 KB that are touched even when it is idle.

    Attributes:
        whole: All of it; beyond `RECEIVE_BYTES` it takes no memory until a large frame comes.
        view: What an ordinary read may fill.
    """

    __slots__ = ("view", "whole")

    def __init__(self) -> None:
        pages = mmap(-1, WHOLE_FRAME_BYTES_MAX, flags=MAP_PRIVATE | MAP_ANONYMOUS)
        self.whole = memoryview(pages)
        self.view = self.whole[:RECEIVE_BYTES]
