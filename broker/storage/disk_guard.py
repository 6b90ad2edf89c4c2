"""DiskGuard: takes no more appends in a data directory before its disk is full, or when it is gone.

Appends end while `reserve_bytes` are still free; these are for what makes room or must be saved:
retention, checkpoints, the list of topics, a clean stop. They begin again by themselves once there
is a quarter of the reserve more than that, so that one deleted segment does not make them flap.

The same look tells whether the directory is still the one that was locked at start: after an
unmount at run time an empty one is in its place, and files made in it would be lost from sight.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from broker.storage.disk import Lock

if TYPE_CHECKING:
    from broker.storage.log_context import LogContext

RESERVE_PART: Final = 10
"""The reserve is at most one part in so many of the file system: a small one is of use too."""
RESUME_PART: Final = 4
"""Appends begin again with one part in so many of the reserve above it."""
NEAR_FACTOR: Final = 8
"""Below so many reserves a look each second is too few: a fast disk writes one in less."""

_log = structlog.get_logger("tidelog.disk")


class DiskLook(NamedTuple):
    """What a look at a data directory has found."""

    free_bytes: int
    total_bytes: int
    error: OSError | None = None
    """Why it cannot be reached, or is another one; then the numbers say nothing."""


class DirectorySample(NamedTuple):
    """One data directory at the moment of a scrape."""

    path: str
    free_bytes: int
    total_bytes: int
    reserve_bytes: int
    is_paused: bool
    refused_appends: int


class DiskGuard:
    """Of one data directory. `look` may be called in a thread, all else on the event loop's."""

    __slots__ = (
        "_context", "_disk", "_error", "_lock", "_path", "_reserve_bytes_max", "last", "problem",
    )  # fmt: skip

    def __init__(self, context: LogContext, path: Path, lock: Lock, reserve_bytes: int) -> None:
        """Args:
        reserve_bytes: 0 lets appends go on until the disk itself refuses them.
        """
        self._context, self._disk = context, context.disk
        self._path, self._lock, self._reserve_bytes_max = path, lock, reserve_bytes
        self._error: OSError | None = None
        self.last = DiskLook(0, 0)
        """What the last look has found."""
        self.problem = ""
        """Why no appends are taken, a sentence; empty: they are."""

    @property
    def reserve_bytes(self) -> int:
        """How much is kept free, on a file system of this size."""
        return min(self._reserve_bytes_max, self.last.total_bytes // RESERVE_PART)

    @property
    def is_out_of_reach(self) -> bool:
        """Whether the directory was not there, or did not answer, when last looked at."""
        return self._error is not None

    @property
    def is_near(self) -> bool:
        """Whether so little is left that it should be looked at more often."""
        return self.last.free_bytes < self.reserve_bytes * NEAR_FACTOR

    def look(self) -> DiskLook:
        """Ask the disk; it may hang, as a server that does not answer does."""
        try:
            self._lock.check()
            return DiskLook(self._disk.free_bytes(self._path), self._disk.total_bytes(self._path))
        except OSError as error:
            return DiskLook(0, 0, error)

    def note(self, look: DiskLook) -> bool:
        """Pause or resume appends as a look has found; return whether they are taken again."""
        self._error = look.error
        if look.error is not None:
            reason = look.error.strerror or str(look.error)
            self._pause(f"data directory {self._path} cannot be reached: {reason}")
            return False
        self.last = look
        reserve_bytes = self.reserve_bytes
        was_paused = bool(self._context.pause)
        needed_bytes = reserve_bytes + (reserve_bytes // RESUME_PART if was_paused else 0)
        if look.free_bytes < needed_bytes:
            kept = f"{reserve_bytes} bytes are kept free, so nothing is taken"
            self._pause(f"data directory {self._path} is nearly full: {kept}")
            return False
        if was_paused:
            self._context.pause = self.problem = ""
            _log.info("appends are taken again", path=str(self._path), free_bytes=look.free_bytes)
        return was_paused

    def _pause(self, problem: str) -> None:
        if problem == self.problem:
            return
        self._context.pause = self.problem = problem
        _log.error(
            "appends are refused; fetching and deleting go on",
            problem=problem,
            free_bytes=self.last.free_bytes,
        )

    def sample(self) -> DirectorySample:
        """Return the numbers for the metrics."""
        context, last = self._context, self.last
        return DirectorySample(
            str(self._path), last.free_bytes, last.total_bytes, self.reserve_bytes,
            bool(context.pause), context.refused_appends,
        )  # fmt: skip
