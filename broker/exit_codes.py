"""Exit codes of the daemon, as docs/configuration.md lists them."""

from __future__ import annotations

import enum

from protocol.errors import TidelogError


class ExitCode(enum.IntEnum):
    """How the process ended."""

    DRAINED = 0
    BUG = 1
    """An error nobody expected; its traceback is in the log."""
    USAGE = 2
    """Wrong arguments, or a configuration that cannot be used."""
    DATA_DIRECTORY = 3
    """A data directory is missing, used by another broker, damaged beyond use or too new."""
    LISTEN = 4
    """An address cannot be listened on."""
    NOT_DRAINED = 5
    """Draining did not end in time, or a second signal asked not to wait for it."""
    DISK = 6
    """The disk failed a flush. Nothing was acknowledged after it."""


class StartError(TidelogError):
    """The broker cannot start; the text says why, `exit_code` is what the process ends with."""

    def __init__(self, exit_code: ExitCode, reason: str) -> None:
        super().__init__(exit_code, reason)
        self.exit_code, self.reason = exit_code, reason

    def __str__(self) -> str:
        return self.reason
