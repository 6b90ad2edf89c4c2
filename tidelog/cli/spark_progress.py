"""Progress: how far a job is, on standard error: a line that changes, or plain lines in a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

from tidelog.cli import output

__all__ = ["Progress"]

LINE_INTERVAL_S: Final = 5.0
"""Between two plain lines; a terminal's line changes ten times a second at most."""
REDRAW_INTERVAL_S: Final = 0.1


class Progress:
    """Tells what it is called with."""

    def __init__(
        self,
        job: str,
        *,
        is_terminal: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args:
        is_terminal: None: if standard error is one.
        clock: Seconds.
        """
        self._job, self._clock = job, clock
        self._is_terminal = sys.stderr.isatty() if is_terminal is None else is_terminal
        self._interval_s = REDRAW_INTERVAL_S if self._is_terminal else LINE_INTERVAL_S
        self._told: dict[str, tuple[float, str]] = {}
        """By what is counted: when something was told of it last, and what."""
        self._is_drawn = False

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Tell it, unless nothing is new, or something was told a moment ago; the end always is."""
        text = f"{self._job}: {done:,}{'' if total is None else f' of {total:,}'} {what}"
        is_last = total is not None and done >= total
        now = self._clock()
        told_at, told = self._told.get(what, (-self._interval_s, ""))
        if text == told or (now - told_at < self._interval_s and not is_last):
            return
        self._told[what] = now, text
        if self._is_terminal:
            sys.stderr.write(f"\r\x1b[2K{text}")
            sys.stderr.flush()
            self._is_drawn = True
        else:
            output.say(text)

    def end(self) -> None:
        """Take the line of a terminal away, so that the result begins on a clean one."""
        if self._is_drawn:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self._is_drawn = False
