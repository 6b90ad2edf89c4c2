"""ResponseQueue: one connection's answers, which leave in the order of its requests."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from broker.network.answers import Answer, PendingResponse
from broker.network.limits import ConnectionLimits
from protocol.identifiers import Buffer

JOINED_BYTES_MAX: Final = 4 * 1024
"""Answers up to this size are joined for a write: copying them is cheaper than a vector. Larger
ones are written at once: the transport has to say when the client does not read them."""


class ResponseQueue:
    """Answers that wait (`waiting`), and parts that the current turn will write (`out`).

    An answer is waiting while it, or one before it, is not complete. The connection's read loop
    appends to `out` directly while nothing waits: that is every ordinary answer. `ready_bytes` are
    those of answers that were given at once, and wait only because of one before them.
    """

    __slots__ = ("_limits", "has_large_parts", "out", "ready_bytes", "waiting")

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self.waiting: deque[Answer] = deque()
        self.out: list[Buffer] = []
        self.has_large_parts = False
        self.ready_bytes = 0

    def put(self, answer: Answer) -> PendingResponse | None:
        """Add the next answer; return it if it is one that is still to be completed."""
        if answer.__class__ is PendingResponse:
            if not answer.is_complete:
                self.waiting.append(answer)
                return answer
            answer = answer.answer
        if self.waiting:
            self.waiting.append(answer)
            self.ready_bytes += size_of(answer)
        else:
            self._put_out(answer)
        return None

    def release(self) -> bool:
        """Move the answers that are ready to `out`, up to the first that is not, or a large one.

        Returns:
            Whether it stopped at a large one: after that is written, there may be more.
        """
        waiting = self.waiting
        while waiting:
            answer = waiting[0]
            if answer.__class__ is PendingResponse:
                pending = answer
                pending.make_now()
                if not pending.is_complete:
                    return False
                answer = pending.take_answer()
            else:
                self.ready_bytes -= size_of(answer)
            waiting.popleft()
            self._put_out(answer)
            if self.has_large_parts:
                return True
        return False

    def write_out(self, transport: asyncio.Transport) -> None:
        """Give the transport what the turn has to say, in one call where one will do."""
        if len(self.out) == 1:  # nearly always
            self.has_large_parts = False
            part = self.out.pop()
            if not transport.is_closing():
                transport.write(part)
            return
        out, self.out = self.out, []
        was_large, self.has_large_parts = self.has_large_parts, False
        if transport.is_closing():
            return
        if not was_large or sum(map(len, out)) <= JOINED_BYTES_MAX:
            transport.write(b"".join(out))
        elif type(transport).__module__.startswith("uvloop"):
            transport.writelines(out)
        else:
            for part in out:  # asyncio's own transport would copy them all into one
                transport.write(part)

    def abandon(self) -> None:
        """The connection is lost: tell whoever would complete a waiting answer."""
        waiting, self.waiting = self.waiting, deque()
        self.out.clear()
        for answer in waiting:
            if answer.__class__ is PendingResponse:
                answer.abandon()

    @property
    def is_full(self) -> bool:
        """True when so many answers wait, or so many bytes of them, that no more may be made."""
        limits = self._limits
        return (
            len(self.waiting) >= limits.requests_in_flight_max
            or self.ready_bytes >= limits.write_buffer_bytes_max
        )

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
            if len(answer) > JOINED_BYTES_MAX:
                self.has_large_parts = True


def size_of(answer: Answer) -> int:
    """Return the bytes of an answer that is there."""
    if answer.__class__ is list:
        return sum(map(len, answer))
    return len(answer) if isinstance(answer, bytes) else 0
