"""Transactions: which batches were aborted, and up to where all is decided, as the files tell.

A batch is decided by the next marker of its producer, which is behind it, in another segment maybe:
so there is a second look at the log, ahead of the reader, until all that it has read is decided. It
needs no index; the `.txnindex` says what markers cannot, where they are in a damaged stretch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.end_transaction_marker import decode_marker
from protocol.errors import StoredFormatError, TidelogError
from protocol.limits import INT64_MAX
from protocol.record_batch_header import CONTROL_FLAG, TRANSACTIONAL_FLAG
from protocol.stored import producer_snapshot, transaction_index
from protocol.stored.file_names import SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX
from protocol.stored.transaction_index import AbortedTransaction
from tidelog.segments.batch_table import BatchTable
from tidelog.segments.boundaries import Boundary
from tidelog.segments.file_window import FileWindow
from tidelog.segments.index_files import read_beside
from tidelog.segments.location import Location, opened
from tidelog.segments.log_files import PartitionFiles, SegmentFile
from tidelog.segments.log_scan import LegacyEntries, SoundBatches, Wound, scan

__all__ = ["AbortedBatches", "Transactions", "last_stable_offset"]

CHUNK_BYTES: Final = 4 << 20
APPLIED: Final = (
    "producer_id", "base_offset", "last_offset", "attributes", "record_count", "position",
)  # fmt: skip


class _Aborted(NamedTuple):
    """The batches of a producer between two offsets, both included."""

    producer_id: int
    first_offset: int
    last_offset: int


class AbortedBatches:
    """Tells which batches are of aborted transactions, of which somebody else has told."""

    def __init__(self, aborted: Iterable[tuple[int, int, int]]) -> None:
        """Args:
        aborted: Producer id, first and last offset of each; those of a producer do not overlap.
        """
        spans: dict[int, list[tuple[int, int]]] = {}
        for producer_id, first_offset, last_offset in aborted:
            spans.setdefault(producer_id, []).append((first_offset, last_offset))
        self._spans = {key: np.array(sorted(each)) for key, each in spans.items()}

    def __call__(self, table: BatchTable) -> NDArray[Any]:
        """Return of each batch whether a `read_committed` reader leaves it out."""
        found: NDArray[Any] = np.zeros(len(table), dtype=bool)
        data = np.flatnonzero(_is_data(table))
        producers, offsets = table["producer_id"][data], table["base_offset"][data]
        for producer_id in np.unique(producers).tolist():
            spans = self._spans.get(producer_id)
            if spans is None:
                continue
            of_producer = producers == producer_id
            begun = np.searchsorted(spans[:, 0], offsets[of_producer], side="right") - 1
            is_inside = (begun >= 0) & (offsets[of_producer] <= spans[begun, 1])
            found[data[of_producer]] = is_inside
        return found


class Transactions:
    """Tells which batches of a log are of aborted or undecided transactions, along the log."""

    def __init__(
        self, location: Location, segments: Iterable[SegmentFile], start: Boundary
    ) -> None:
        """Args:
        segments: That which is read, and those behind it.
        start: Where in the first of them reading begins.
        """
        self._sections = _sections(location, segments, start, self._note_index)
        self._open: dict[int, int] = {}
        self._aborted: list[_Aborted] = []
        self._indexed: dict[tuple[int, int], int] = {}
        """First offsets by producer and marker, from indexes: for markers that are damaged."""
        self._wound_end = -1
        """From here on nothing was damaged so far."""
        self._walked_offset = -1

    def is_aborted(self, table: BatchTable) -> NDArray[Any]:
        """Return of each batch whether a `read_committed` reader leaves it out."""
        found: NDArray[Any] = np.zeros(len(table), dtype=bool)
        data = table[_is_data(table)]
        if not len(data):
            return found
        first, last = int(data["base_offset"][0]), int(data["base_offset"][-1])
        self._look_ahead(last)
        undecided = [_Aborted(key, begin, INT64_MAX) for key, begin in self._open.items()]
        self._aborted = [each for each in self._aborted if each.last_offset >= first]
        offsets, producers = table["base_offset"], table["producer_id"]
        for each in (*self._aborted, *undecided):
            if each.first_offset <= last:
                found |= (
                    (producers == each.producer_id)
                    & (offsets >= each.first_offset)
                    & (offsets <= each.last_offset)
                )
        found &= _is_data(table)
        return found

    def close(self) -> None:
        """Close the file that is looked at."""
        self._sections.close()

    def _look_ahead(self, offset: int) -> None:
        """Go on until everything up to an offset is decided, or the log ends."""
        while (
            self._walked_offset < offset or min(self._open.values(), default=offset + 1) <= offset
        ):
            section = next(self._sections, None)
            if section is None:
                return
            if isinstance(section, Wound):
                self._pass(section)
                continue
            for ended, is_commit in _apply(self._open, section):
                if not is_commit:
                    self._aborted.append(self._confirmed(ended))
            self._walked_offset = int(section.table["last_offset"][-1])

    def _note_index(self, entries: list[AbortedTransaction]) -> None:
        for entry in entries:
            self._indexed[entry.producer_id, entry.last_offset] = entry.first_offset

    def _pass(self, wound: Wound) -> None:
        """Take from the indexes what was aborted by markers in a damaged stretch."""
        end_offset = INT64_MAX if wound.end_offset is None else wound.end_offset
        self._wound_end = max(self._wound_end, wound.first_offset, wound.end_offset or 0)
        for (producer_id, last_offset), first_offset in self._indexed.items():
            if wound.first_offset <= last_offset < end_offset:
                self._aborted.append(_Aborted(producer_id, first_offset, last_offset))
                self._open.pop(producer_id, None)

    def _confirmed(self, ended: _Aborted) -> _Aborted:
        """Return what was aborted: less, if a commit before it was in a damaged stretch."""
        if ended.first_offset >= self._wound_end:
            return ended
        key = ended.producer_id, ended.last_offset
        return ended._replace(first_offset=self._indexed.get(key, ended.first_offset))


def last_stable_offset(location: Location, files: PartitionFiles, end_offset: int) -> int:
    """Return the offset below which all transactions are decided, `end_offset` if all are.

    Walks from the newest producer snapshot on, or through the whole log where there is none. What
    was open before a damaged stretch counts as decided in it, so that reading comes to the damage.

    Raises:
        DataLossError: a segment is gone since the files were listed.
    """
    segments, open_since = list(files.segments), dict[int, int]()
    for number in reversed(range(len(segments))):
        if segments[number].base_offset > end_offset:
            continue
        known = _open_before(location, segments[number])
        if known is not None:
            segments, open_since = segments[number:], known
            break
    for section in _sections(location, segments, None, None, end_offset):
        if isinstance(section, Wound):
            open_since.clear()
            continue
        for _ in _apply(open_since, section):
            pass
    return min(open_since.values(), default=end_offset)


def _open_before(location: Location, segment: SegmentFile) -> dict[int, int] | None:
    """Return the transactions that were open where a segment begins; None if nobody says."""
    data = read_beside(location, segment.path, SNAPSHOT_SUFFIX)
    if data is None:
        return None
    try:
        entries = producer_snapshot.decode(data)
    except StoredFormatError:
        return None
    return {
        entry.producer_id: entry.current_txn_first_offset
        for entry in entries
        if entry.current_txn_first_offset >= 0
    }


def _sections(
    location: Location,
    segments: Iterable[SegmentFile],
    start: Boundary | None,
    note_index: Callable[[list[AbortedTransaction]], None] | None,
    end_offset: int = INT64_MAX,
) -> Generator[SoundBatches | Wound, None, None]:
    """Yield the record batches of segments in order, and what is damaged."""
    listed = list(segments)
    limits = [*(each.base_offset for each in listed[1:]), None]
    for segment, limit in zip(listed, limits, strict=True):
        if note_index is not None:
            data = read_beside(location, segment.path, TRANSACTION_INDEX_SUFFIX)
            try:
                note_index(transaction_index.decode(data or b""))
            except StoredFormatError:
                pass  # the markers tell
        with opened(location, segment.path, segment.base_offset, None) as file:
            size = file.size()
            begin = start or Boundary(0, segment.base_offset)
            window = FileWindow(file, begin.position, size, CHUNK_BYTES)
            for section in scan(
                window, end_position=size, first_offset=begin.offset,
                end_offset=end_offset, limit_offset=limit,
            ):  # fmt: skip
                if not isinstance(section, LegacyEntries):
                    yield section
        start = None


def _apply(open_since: dict[int, int], section: SoundBatches) -> Iterator[tuple[_Aborted, bool]]:
    """Follow the transactions of batches; yield those that end, and whether with a commit."""
    table = section.table
    rows = table[table["attributes"] & TRANSACTIONAL_FLAG != 0]
    columns = (rows[name].tolist() for name in APPLIED)
    for producer_id, offset, last_offset, attributes, count, position in zip(*columns, strict=True):
        if not attributes & CONTROL_FLAG:
            if count:  # else the cleaner has emptied it, and its marker may be gone
                open_since.setdefault(producer_id, offset)
            continue
        try:
            marker = decode_marker(section.data, position)
        except TidelogError:
            continue  # reading it tells of the damage
        if marker is not None:
            first_offset = open_since.pop(producer_id, last_offset)
            yield _Aborted(producer_id, first_offset, last_offset), marker.is_commit


def _is_data(table: BatchTable) -> NDArray[Any]:
    flags = table["attributes"] & (TRANSACTIONAL_FLAG | CONTROL_FLAG)
    is_data: NDArray[Any] = flags == TRANSACTIONAL_FLAG
    return is_data
