"""Index checks: whether an offset index or a time index says what its log says.

They are fed with the log's entries as these are walked, so no list of a log's batches is kept.
Whatever is wrong here is a warning: an index is a hint, and is built anew at the next start.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from broker.stopped.findings import FileFinding, Problem, Severity
from broker.stopped.log_scan import ScannedEntry
from protocol.errors import StoredFormatError
from protocol.identifiers import Buffer
from protocol.stored.index_entries import (
    OFFSET_INDEX_ENTRY_BYTES,
    TIME_INDEX_ENTRY_BYTES,
    OffsetIndexEntry,
    TimeIndexEntry,
    decode_offset_index,
    decode_time_index,
)

Entry = TypeVar("Entry", OffsetIndexEntry, TimeIndexEntry)

PROBLEMS_MAX: Final = 20
"""One file's problems beyond this are only counted."""


class Problems:
    """A list of problems that does not grow without bound."""

    def __init__(self) -> None:
        self._found: list[Problem] = []
        self._left_out = 0

    def add(
        self,
        severity: Severity,
        text: str,
        *,
        position: int | None = None,
        offset: int | None = None,
    ) -> None:
        if len(self._found) < PROBLEMS_MAX:
            self._found.append(Problem(severity, text, position, offset))
        else:
            self._left_out += 1

    def all(self) -> tuple[Problem, ...]:
        if not self._left_out:
            return tuple(self._found)
        worst = max((one.severity for one in self._found), key=list(Severity).index)
        return (*self._found, Problem(worst, f"and {self._left_out} more problems"))


class OffsetIndexCheck:
    """Compares `.index` with its log: each entry's position must be that of a batch, and its
    offset one that is found from there on."""

    def __init__(self, path: Path, base_offset: int) -> None:
        self.path, self.problems = path, Problems()
        data = path.read_bytes()
        self._entries: list[OffsetIndexEntry] = _decoded(
            data, base_offset, decode_offset_index, OFFSET_INDEX_ENTRY_BYTES, self.problems
        )
        self._next = 0

    def entry(self, entry: ScannedEntry) -> None:
        """Take note of the log's next entry."""
        entries = self._entries
        while self._next < len(entries) and entries[self._next].position < entry.position:
            self._report("points into the middle of a batch")
        if self._next < len(entries) and entries[self._next].position == entry.position:
            index_entry = entries[self._next]
            if entry.header is not None and index_entry.offset < entry.first_offset:
                self._report(f"is below offset {entry.first_offset}, which is there")
            else:
                self._next += 1

    def finding(self, log_size_bytes: int) -> FileFinding:
        """Return what was found, once the log has been walked."""
        while self._next < len(self._entries):
            beyond = self._entries[self._next].position >= log_size_bytes
            self._report("points past the log's end" if beyond else "points into a batch")
        return _finding(
            self.path,
            "index",
            OFFSET_INDEX_ENTRY_BYTES,
            [one.offset for one in self._entries],
            self.problems,
        )

    def _report(self, text: str) -> None:
        entry = self._entries[self._next]
        self.problems.add(
            Severity.WARNING,
            f"entry {self._next} (offset {entry.offset}, position {entry.position}) {text}",
            position=self._next * OFFSET_INDEX_ENTRY_BYTES,
            offset=entry.offset,
        )
        self._next += 1


class TimeIndexCheck:
    """Compares `.timeindex` with its log: no record up to an entry's offset may be later than
    the entry's timestamp."""

    def __init__(self, path: Path, base_offset: int) -> None:
        self.path, self.problems = path, Problems()
        data = path.read_bytes()
        self._entries: list[TimeIndexEntry] = _decoded(
            data, base_offset, decode_time_index, TIME_INDEX_ENTRY_BYTES, self.problems
        )
        self._next = 0
        self._largest, self._last_offset = -1, base_offset - 1

    def entry(self, entry: ScannedEntry) -> None:
        """Take note of the log's next entry."""
        if entry.header is None:
            return
        entries = self._entries
        while self._next < len(entries) and entries[self._next].offset < entry.last_offset:
            self._compare()
        self._largest = max(self._largest, entry.max_timestamp)
        self._last_offset = entry.last_offset

    def finding(self) -> FileFinding:
        """Return what was found, once the log has been walked."""
        while self._next < len(self._entries):
            self._compare()
        return _finding(
            self.path,
            "timeindex",
            TIME_INDEX_ENTRY_BYTES,
            [one.offset for one in self._entries],
            self.problems,
        )

    def _compare(self) -> None:
        entry = self._entries[self._next]
        if entry.offset > self._last_offset and self._next == len(self._entries) - 1:
            self._report(entry, f"is past the log's last offset {self._last_offset}")
        elif entry.timestamp < self._largest:
            self._report(entry, f"is below timestamp {self._largest}, which is in the log")
        self._next += 1

    def _report(self, entry: TimeIndexEntry, text: str) -> None:
        self.problems.add(
            Severity.WARNING,
            f"entry {self._next} (timestamp {entry.timestamp}, offset {entry.offset}) {text}",
            position=self._next * TIME_INDEX_ENTRY_BYTES,
            offset=entry.offset,
        )


def _decoded(
    data: bytes,
    base_offset: int,
    decode: Callable[[Buffer, int], list[Entry]],
    entry_bytes: int,
    problems: Problems,
) -> list[Entry]:
    try:
        entries = decode(data, base_offset)
    except StoredFormatError as error:
        problems.add(Severity.WARNING, str(error))
        return []
    tail = data[len(entries) * entry_bytes :]
    if tail.strip(b"\0"):
        text = f"entry {len(entries)} is not above the one before it"
        problems.add(Severity.WARNING, text, position=len(entries) * entry_bytes)
    return entries


def _finding(
    path: Path, kind: str, entry_bytes: int, offsets: list[int], problems: Problems
) -> FileFinding:
    return FileFinding(
        path=path,
        kind=kind,
        size_bytes=len(offsets) * entry_bytes,  # an active index is preallocated: zeros are nothing
        entry_count=len(offsets),
        record_count=0,
        first_offset=offsets[0] if offsets else None,
        last_offset=offsets[-1] if offsets else None,
        problems=problems.all(),
    )
