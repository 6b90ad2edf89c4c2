"""Idleness: since when a client has neither asked for anything nor taken what it asked for."""

from __future__ import annotations


class Idleness:
    """Of one connection; times are seconds of the loop's clock.

    Who waits for an answer may well be silent: for a poll, a commit, the rest of its group. Who
    takes long over a large one is not idle either. But who takes nothing of what is there holds
    megabytes for nobody.

    Attributes:
        since_s: Set it where something was read.
    """

    __slots__ = ("_timeout_s", "_unsent_bytes", "since_s")

    def __init__(self, timeout_s: float, now_s: float) -> None:
        self._timeout_s, self.since_s, self._unsent_bytes = timeout_s, now_s, 0

    def is_over(self, now_s: float, answers_due: int, unsent_bytes: int) -> bool:
        """Whether it has lasted too long; to be asked now and then, for it compares.

        Args:
            answers_due: Those that the broker is at work for, or waits with it.
            unsent_bytes: Of answers that it has not taken yet.
        """
        if (answers_due and not unsent_bytes) or unsent_bytes != self._unsent_bytes:
            self._unsent_bytes, self.since_s = unsent_bytes, now_s
        return now_s - self.since_s > self._timeout_s
