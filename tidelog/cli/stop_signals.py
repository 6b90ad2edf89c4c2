"""StopSignals: Ctrl-C and SIGTERM as something to ask about, so that nothing is cut in half.

An exception out of a signal handler could come between reading a piece of input and passing it on,
and the piece would be lost. So the first signal only sets `requested` and ends `wait_for_input`; a
second one means that the person will not wait, and raises StoppedError wherever the program is.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from tidelog.cli.errors import ExitCode

CODES: Final = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
}


STANDARD_ERROR: Final = 2


class StoppedError(BaseException):
    """A second signal. Like KeyboardInterrupt, no error that a command handles in passing."""


class StopSignals:
    """Takes the signals while it is entered.

    Args:
        told: What the person is told at the first one, if it takes long to end then.
    """

    def __init__(self, told: str = "") -> None:
        self._told = told
        self.requested: ExitCode | None = None
        """The exit code of the first signal that came."""
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> StopSignals:
        self._woken, self._wake = os.pipe()
        self._errors = os.dup(STANDARD_ERROR)  # while Java starts, that leads elsewhere
        for number in CODES:
            self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        os.close(self._woken)
        os.close(self._wake)
        os.close(self._errors)

    def wait_for_input(self, descriptor: int) -> bool:
        """Wait until `descriptor` can be read or has ended; False: a signal came first."""
        if self.requested is None:
            select.select([descriptor, self._woken], [], [])
        return self.requested is None

    def wait(self, seconds: float) -> bool:
        """Wait so long; False: a signal came first."""
        if self.requested is None:
            select.select([self._woken], [], [], seconds)
        return self.requested is None

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self.requested is not None:
            raise StoppedError
        self.requested = CODES[signal.Signals(number)]
        if self._told:  # past sys.stderr, in the middle of whose write this may be
            os.write(self._errors, f"tidelog: {self._told}\n".encode())
        os.write(self._wake, b"\0")
