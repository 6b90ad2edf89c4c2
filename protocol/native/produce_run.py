"""ProduceRun: PRODUCE requests, one behind the other, that differ in their sets alone.

A pipelining client sends many small sets to one partition, and a read brings dozens of them. All
but the set is decoded once for the run, so that the broker can append it with one write.

    size:i32  type:i16 topic:str16 partition:i32 acks:i16 timeout_ms:i32 format:i8  set_size:i32 set
              `------------- the same bytes in every frame of a run -------------'
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from protocol.errors import FrameError

RUN_BYTES_MAX: Final = 16 * 1024
"""A run ends behind the frame that passes this: what is appended at once gets one index entry."""

_TOPIC_SIZE: Final = struct.Struct(">2xh")
_FIELDS: Final = struct.Struct(">ihib")  # partition acks timeout_ms format
_FIXED_BYTES: Final = _TOPIC_SIZE.size + _FIELDS.size


@lru_cache(maxsize=64)
def _frame_head(common_bytes: int) -> struct.Struct:
    """Return the layout of a frame's size, common bytes and set size."""
    return struct.Struct(f">i{common_bytes}si")


class ProduceRun:
    """A run, as its first frame announces it."""

    __slots__ = (
        "_common", "_end", "_frame_end", "_frames", "_start", "acks", "message_format", "overhead",
        "partition", "timeout_ms", "topic",
    )  # fmt: skip

    def __init__(self, frames: memoryview, start: int, frame_end: int, end: int) -> None:
        """Decode what the frames have in common.

        Args:
            frames: Holds the first frame, without its size, from `start` to `frame_end`; behind it,
                up to `end`, there may be more, each with its size, the last one cut.

        Raises:
            FrameError: the first frame ends inside its fields.
        """
        try:
            (topic_bytes,) = _TOPIC_SIZE.unpack_from(frames, start)
            topic_start = start + _TOPIC_SIZE.size
            topic_end = topic_start + topic_bytes
            if topic_bytes < 0 or topic_end + _FIELDS.size + 4 > frame_end:
                raise FrameError("PRODUCE: the topic does not fit in")
            fields = _FIELDS.unpack_from(frames, topic_end)
        except struct.error as error:
            raise FrameError("PRODUCE ends inside its fields") from error
        self.partition, self.acks, self.timeout_ms, self.message_format = fields
        self.topic = bytes(frames[topic_start:topic_end])
        self.overhead = 4 + _FIXED_BYTES + topic_bytes + 4
        """Bytes of a frame, its size included, that are not the set."""
        self._frames, self._start, self._frame_end, self._end = frames, start, frame_end, end

    def sets(self, frame_bytes_max: int = RUN_BYTES_MAX) -> Iterator[memoryview]:
        """Yield the sets, slices of the frames, until a frame is cut, wrong or of another kind.

        Args:
            frame_bytes_max: Of the frames behind the first.
        """
        frames, end, overhead = self._frames, self._end, self.overhead
        head = _frame_head(overhead - 8)
        unpack = head.unpack_from
        set_start, frame_end = self._start + overhead - 4, self._frame_end
        common = bytes(frames[self._start : set_start - 4])
        size = frame_end - self._start
        (set_bytes,) = struct.unpack_from(">i", frames, set_start - 4)
        last_start = min(end - overhead, self._start + RUN_BYTES_MAX)
        while set_bytes == frame_end - set_start:
            yield frames[set_start:frame_end]
            if frame_end > last_start:
                return
            size, other, set_bytes = unpack(frames, frame_end)
            if other != common or set_bytes < 0 or size > frame_bytes_max:
                return
            set_start, frame_end = frame_end + overhead, frame_end + 4 + size
            if frame_end > end:
                return
