"""ResponseQueue: one connection's answers, which leave in the order of its requests."""

from __future__ import annotations

from collections import deque
from typing import Final

from broker.network.answers import Answer, PendingResponse
from protocol.identifiers import Buffer

JOINED_BYTES_MAX: Final = 4 * 1024
"""Answers up to this size are joined for a write: copying them is cheaper than a vector."""


class ResponseQueue:
    """Answers that wait (`waiting`), and parts that the current turn will write (`out`).

    An answer is waiting while it, or one before it, is not complete. The connection's read loop
    appends to `out` directly while nothing waits: that is every ordinary answer.
    """

    __slots__ = ("has_large_parts", "out", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Answer] = deque()
        self.out: list[Buffer] = []
        self.has_large_parts = False

    def put(self, answer: Answer) -> PendingResponse | None:
        """Add the next answer; return it if it is one that is still to be completed."""
        pending = answer if answer.__class__ is PendingResponse else None
        if self.waiting or (pending is not None and not pending.is_complete):
            self.waiting.append(answer)
            return pending
        self._put_out(pending.answer if pending is not None else answer)
        return None

    def release(self) -> None:
        """Move the answers that are ready, up to the first that is not, to `out`."""
        waiting = self.waiting
        while waiting:
            answer = waiting[0]
            if answer.__class__ is PendingResponse:
                pending = answer
                if not pending.is_complete:
                    return
                answer = pending.answer
            waiting.popleft()
            self._put_out(answer)

    def take_out(self) -> list[Buffer]:
        """Return the parts to write now, as few as are cheap, and begin a new turn."""
        out, self.out = self.out, []
        was_large, self.has_large_parts = self.has_large_parts, False
        if len(out) > 1 and (not was_large or sum(map(len, out)) <= JOINED_BYTES_MAX):
            return [b"".join(out)]
        return out

    def abandon(self) -> None:
        """The connection is lost: tell whoever would complete a waiting answer."""
        waiting, self.waiting = self.waiting, deque()
        self.out.clear()
        for answer in waiting:
            if answer.__class__ is PendingResponse:
                answer.abandon()

    @property
    def holds_reading(self) -> bool:
        """True while a request that must not be overtaken is under way."""
        return any(
            answer.__class__ is PendingResponse and answer.pauses_reading and not answer.is_complete
            for answer in self.waiting
        )

    def _put_out(self, answer: Answer) -> None:
        if answer.__class__ is list:
            self.out.extend(answer)
            self.has_large_parts = True
        elif isinstance(answer, bytes):
            self.out.append(answer)
