"""Fault: one thing in a file of a log that is not as it should be, and where."""

from __future__ import annotations

import enum
from typing import Final

import msgspec

__all__ = ["Fault", "FaultKind", "Faults", "Severity"]

FAULTS_MAX: Final = 20
"""Of one file and kind; those beyond are only counted."""


class Severity(enum.StrEnum):
    """How much a fault matters; the words are those of `tidelog verify`."""

    NOTE = "note"
    """Nothing is wrong."""
    WARNING = "warning"
    """A hint (an index, a checkpoint) is wrong, or a torn tail: the next start mends it."""
    ERROR = "error"
    """Stored data is damaged or missing."""


class FaultKind(enum.StrEnum):
    """What is wrong."""

    DAMAGE = "damage"
    """Bytes that are no sound batch: a wrong CRC, a header that cannot be."""
    TORN = "torn tail"
    """The newest file ends in bytes that are no sound batch, and nothing durable is lost."""
    GAP = "gap"
    """Offsets that no batch takes up: what compaction leaves, or what is lost."""
    OVERLAP = "overlap"
    """Offsets that two batches take up."""
    DISORDER = "disorder"
    """A batch whose offsets are all below those of the one before it."""
    MISPLACED = "misplaced"
    """Offsets that do not belong into a file of this name."""
    RECORDS = "records"
    """Records that do not decode, or not as many as the header says."""
    MISSING = "missing"
    """A file, or durable offsets, that should be there."""
    INDEX = "index"
    TIME_INDEX = "timeindex"
    TRANSACTION_INDEX = "txnindex"
    SMALL_FILE = "small file"
    """A checkpoint, a snapshot or metadata that cannot be read."""
    LEFTOVER = "leftover"
    """What the next start removes or uses."""


class Fault(msgspec.Struct, frozen=True):
    """One fault in one file."""

    kind: FaultKind
    severity: Severity
    file: str
    """The whole path."""
    text: str
    position: int | None = None
    """Byte of the file."""
    size_bytes: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None

    @property
    def offsets(self) -> str:
        """Return "12", "12-15", or "" if none is known."""
        if self.first_offset is None:
            return ""
        if self.last_offset is None or self.last_offset == self.first_offset:
            return str(self.first_offset)
        return f"{self.first_offset}-{self.last_offset}"


class Faults:
    """The faults of one file; a list that does not grow without bound."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[Fault] = []
        self._counts: dict[tuple[FaultKind, Severity], int] = {}

    def add(
        self,
        kind: FaultKind,
        severity: Severity,
        text: str,
        *,
        position: int | None = None,
        size_bytes: int | None = None,
        offsets: tuple[int, int | None] | None = None,
    ) -> None:
        """Take note of one.

        Args:
            offsets: The first and the last that are concerned, as far as they are known.
        """
        count = self._counts.get((kind, severity), 0)
        self._counts[kind, severity] = count + 1
        if count < FAULTS_MAX:
            first, last = offsets or (None, None)
            fault = Fault(kind, severity, self.file, text, position, size_bytes, first, last)
            self.found.append(fault)

    def all(self) -> list[Fault]:
        """Return what was found; where some were only counted, a last one says how many."""
        return self.found + [
            Fault(kind, severity, self.file, f"and {count - FAULTS_MAX} more of this kind")
            for (kind, severity), count in self._counts.items()
            if count > FAULTS_MAX
        ]
