"""Findings: what a verification has to say of one file."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path


class Severity(enum.StrEnum):
    """How much a problem matters."""

    NOTE = "note"
    """Nothing is wrong: the next start tidies up."""
    WARNING = "warning"
    """A hint (an index, a checkpoint) is wrong, or a torn tail: the next start mends it."""
    ERROR = "error"
    """Stored data is damaged or missing."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it should be."""

    severity: Severity
    text: str
    position: int | None = None
    """Byte of the file, if there is one to name."""
    offset: int | None = None
    """The first offset that is concerned, as far as it is known."""


@dataclass(frozen=True, slots=True)
class FileFinding:
    """What was found out about one file."""

    path: Path
    kind: str
    """log, index, timeindex, snapshot, txnindex, checkpoint, metadata or leftover."""
    size_bytes: int
    entry_count: int
    """Batches and legacy entries of a log, entries of an index, lines of a checkpoint."""
    record_count: int
    first_offset: int | None
    last_offset: int | None
    problems: tuple[Problem, ...]

    @property
    def worst(self) -> Severity | None:
        """The gravest severity of the problems, None without any."""
        order = list(Severity)
        return max((one.severity for one in self.problems), key=order.index, default=None)
