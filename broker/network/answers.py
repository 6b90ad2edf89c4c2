"""Answers: what a handler gives back for a frame, at once or later.

A connection sends answers in the order of its requests, whatever order they become ready in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from protocol.identifiers import Buffer

if TYPE_CHECKING:
    from broker.network.connection import Connection

Parts: TypeAlias = bytes | list[Buffer]
"""An answer's bytes: small ones joined, large ones as parts for one gathering write."""


class PendingResponse:
    """An answer that is not ready yet; it keeps its place among its connection's answers.

    `pauses_reading`: no further frame of the connection is handled before this is complete, so
    that a request that takes several loop turns (a conversion, a topic being made) cannot be
    overtaken by the next one.
    """

    __slots__ = ("_connection", "_make", "answer", "is_complete", "on_abandoned", "pauses_reading")

    def __init__(
        self,
        on_abandoned: Callable[[], None] | None = None,
        *,
        pauses_reading: bool = False,
    ) -> None:
        self.on_abandoned = on_abandoned
        """Called when the connection is lost first, so that whoever would complete this stops."""
        self.pauses_reading = pauses_reading
        self.answer: Parts | None = None
        self.is_complete = False
        self._connection: Connection | None = None
        self._make: Callable[[], None] | None = None

    def when_first(self, make: Callable[[], None]) -> None:
        """Have `make` called once no other answer is before this one and the client takes answers.

        It completes this, then or later. A thousand polls of a client that does not read cost a
        thousand large answers if each is made when it could be, and one if each is made in turn.
        """
        if self._connection is None:
            make()
            return
        self._make = make
        self._connection.response_completed()

    def resume_reading(self) -> None:
        """What paused the reading is over, and the answer is still to come."""
        self.pauses_reading = False
        if self._connection is not None:
            self._connection.response_completed()

    def take_answer(self) -> Parts | None:
        """Return the answer and forget it, for it may be large; for the connection alone."""
        answer, self.answer = self.answer, None
        return answer

    def make_now(self) -> None:
        """The turn has come; for the connection alone."""
        make, self._make = self._make, None
        if make is not None:
            make()

    def complete(self, answer: Parts | None) -> None:
        """Give the answer, once; None sends nothing. After the connection is lost: no effect."""
        if self.is_complete:
            return
        self.answer, self.is_complete = answer, True
        self.on_abandoned = None  # no cycle with whoever completed this: it may hold megabytes
        if self._connection is not None:
            self._connection.response_completed()

    def attach(self, connection: Connection) -> None:
        """Name the connection to wake; for the connection alone."""
        self._connection = connection

    def abandon(self) -> None:
        """Take note that nobody waits any more; for the connection alone."""
        self._connection = self._make = None
        if not self.is_complete and self.on_abandoned is not None:
            self.on_abandoned()


Answer: TypeAlias = Parts | PendingResponse | None
"""None: the request has no answer."""


HandledFrames: TypeAlias = tuple[Answer, int, int]
"""What came of one frame or several: their answer, how many they are, where the last one ends."""


class FrameHandler(Protocol):
    """One connection's side of a protocol."""

    def handle_frames(
        self, frames: memoryview, start: int, frame_end: int, end: int, connection: Connection
    ) -> HandledFrames:
        """Handle one request, and as many of those behind it as belong together, synchronously.

        Args:
            frames: Writable, and valid during this call only. From `start` to `frame_end` is a
                frame without its length; behind it, up to `end`, there may be more frames with
                theirs, the last one cut, none of them checked.

        Raises:
            FrameError: the frame makes no sense; the connection is closed with the reason logged.
        """
        ...
