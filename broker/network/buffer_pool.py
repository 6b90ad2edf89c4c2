"""BufferPool: memory for frames that arrive in pieces, reused and bounded.

A fresh buffer costs the first touch of each of its pages; a reused one costs nothing. So bodies
of large frames are read into buffers of power-of-two size that come back after each frame.

A bytearray is zeroed where it is made, all pages in one turn of the event loop: 0.4 ms for 512 KB,
5 for 8 MB, 40 for 64. Memory of the kernel's own is touched as the frame arrives, read by read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Final, TypeAlias

FrameBuffer: TypeAlias = bytearray | mmap

SMALLEST_BYTES: Final = 32 * 1024
MAPPED_BYTES_MIN: Final = 128 * 1024
"""Below, a bytearray is cheaper than a mapping, and there may be thousands."""
KEPT_BYTES_MAX: Final = 64 * 1024 * 1024


class BufferPool:
    """Hands out buffers up to a bound on the bytes out at one time, over all connections.

    Who does not get one waits (`when_free`) with its connection paused: back-pressure, no loss.
    What connections carry from read to read counts as well; while all is used up (`is_full`), they
    read little at a time, so that thousands that are paused do not hold a full read each.
    """

    def __init__(self, bytes_out_max: int, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_out_max, self._kept_bytes_max = bytes_out_max, kept_bytes_max
        self._free: dict[int, list[FrameBuffer]] = {}
        self._kept_bytes = 0
        self._waiting: deque[Callable[[], None]] = deque()
        self.bytes_out = 0
        self.carried_bytes = 0
        """Read, and not handled yet: cut frames, and what waits for a pause to end."""
        self.is_full = False
        """No memory is left; looked at before each read."""

    def carry(self, size_bytes: int) -> None:
        """Note that a connection keeps so many bytes; below zero: that it keeps them no more.

        Nobody is woken: who waits is one of those, and while anybody does a buffer is out.
        """
        self.carried_bytes += size_bytes
        self._changed()

    @property
    def held_bytes(self) -> int:
        """Of frames on their way, in buffers and carried."""
        return self.bytes_out + self.carried_bytes

    def _changed(self) -> None:
        self.is_full = self.bytes_out + self.carried_bytes >= self._bytes_out_max

    def take(self, size_bytes: int) -> FrameBuffer | None:
        """Return a buffer of at least `size_bytes`, or None when too much is out already.

        One buffer is always granted when none is out, so that the largest frame gets through.
        """
        capacity = max(SMALLEST_BYTES, 1 << (size_bytes - 1).bit_length())
        if self.bytes_out and self.held_bytes + capacity > self._bytes_out_max:
            return None
        free = self._free.get(capacity)
        if free:
            self._kept_bytes -= capacity
            buffer = free.pop()
        else:
            buffer = _fresh(capacity)  # where this fails nothing has been counted yet
        self.bytes_out += capacity
        self._changed()
        return buffer

    def give_back(self, buffer: FrameBuffer) -> None:
        """Take a buffer back; nobody may hold a view of it any more."""
        capacity = len(buffer)
        self.bytes_out -= capacity
        self._changed()
        if self._kept_bytes + capacity <= self._kept_bytes_max:
            self._kept_bytes += capacity
            self._free.setdefault(capacity, []).append(buffer)
        self.wake_next()

    @property
    def is_short(self) -> bool:
        """True while somebody waits for memory."""
        return bool(self._waiting)

    def when_free(self, wake: Callable[[], None]) -> None:
        """Call `wake` once, when a buffer has come back. It tries again, and may wait again.

        Whoever was woken and does not wait again calls `wake_next`: there may be room for more.
        """
        self._waiting.append(wake)

    def wake_next(self) -> None:
        """Wake the one that has waited longest, if any."""
        if self._waiting:
            self._waiting.popleft()()

    def forget(self, wake: Callable[[], None]) -> None:
        """Take back a `when_free`, if it is still waiting."""
        try:
            self._waiting.remove(wake)
        except ValueError:
            pass  # it was called already


def _fresh(capacity: int) -> FrameBuffer:
    if capacity < MAPPED_BYTES_MIN:
        return bytearray(capacity)
    return mmap(-1, capacity, flags=MAP_PRIVATE | MAP_ANONYMOUS)
