"""Leftovers: files that a crash has left behind, in the middle of a change (R31, passes 1 to 3)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from broker.storage.disk import TEMPORARY_SUFFIX, storage_errors
from broker.storage.file_records import FileRecords
from broker.storage.quarantine import REPORT_SUFFIX, is_quarantine_name
from broker.storage.segment_recovery import SegmentWalk
from protocol.errors import CorruptMessageError
from protocol.identifiers import Offset
from protocol.stored.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    SegmentFileName,
    parse_file_name,
)

if TYPE_CHECKING:
    from broker.storage.log_context import LogContext

_log = structlog.get_logger(__name__)

JUNK_SUFFIXES: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)
INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
OTHER_FILES: Final = frozenset({LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA})

NAMES_TOLD_MAX: Final = 20


class Leftovers(NamedTuple):
    """What a directory holds when they are gone."""

    base_offsets: tuple[int, ...]
    """Of all segments, oldest first."""
    lost_segments: tuple[int, ...] = ()
    """Base offsets of index files without a log, between two segments: there was one once."""
    swapped_segments: tuple[int, ...] = ()
    """Base offsets of segments that were put in place just now, and may have a transaction index of
    their originals."""
    has_reports: bool = False
    """There are reports in quarantine."""


def finish_leftovers(context: LogContext, directory: Path) -> Leftovers:
    """Finish or undo what a crash interrupted (R31, 1 to 3).

    Files that are none of ours are left alone, and named in the log.

    Raises:
        StorageError: the directory cannot be read or changed.
    """
    disk = context.disk
    with storage_errors("clean up", directory):
        names = disk.list_directory(directory)
        junk = [each for each in names if each.endswith(JUNK_SUFFIXES)]
        for name in junk:
            disk.unlink(directory / name)
        if junk:  # a deleted segment that came back would leave a hole behind it
            disk.sync_directory(directory)
            _log.info("leftovers removed", partition=directory.name, files=_told(junk))
        by_name = {name: parse_file_name(name) for name in names}
        parsed = [each for each in by_name.values() if each is not None]
        swaps = [each for each in parsed if each.state == SWAP_SUFFIX]
        swapped: tuple[int, ...] = ()
        if swaps:
            swapped = _Swaps(context, directory, swaps).finish()
            parsed = _segment_files(disk.list_directory(directory))
        logs = {each.base_offset for each in parsed if each[1:] == (LOG_SUFFIX, "")}
        orphans = [
            each
            for each in parsed
            if each.suffix in INDEX_SUFFIXES and not each.state and each.base_offset not in logs
        ]
        for each in orphans:
            _log.warning("index without a log removed", path=str(directory / str(each)))
            disk.unlink(directory / str(each))
    _tell_strangers(directory, [name for name, each in by_name.items() if each is None])
    lost = {each.base_offset for each in orphans if logs and min(logs) < each.base_offset}
    return Leftovers(
        tuple(sorted(logs)),
        tuple(sorted(base_offset for base_offset in lost if base_offset < max(logs))),
        swapped,
        any(name.endswith(REPORT_SUFFIX) for name in names),
    )


def _segment_files(names: list[str]) -> list[SegmentFileName]:
    return [each for name in names if (each := parse_file_name(name)) is not None]


def _tell_strangers(directory: Path, names: list[str]) -> None:
    """Tell of the files that have none of our names; `names` are those that no segment has."""
    strangers = [
        name
        for name in names
        if name not in OTHER_FILES
        and not name.endswith(JUNK_SUFFIXES)
        and not is_quarantine_name(name)
    ]
    if strangers:
        _log.warning("unknown files left alone", partition=directory.name, files=_told(strangers))


def _told(names: list[str]) -> list[str]:
    left_out = len(names) - NAMES_TOLD_MAX
    return names if left_out <= 0 else [*names[:NAMES_TOLD_MAX], f"and {left_out} more"]


class _Swaps:
    """Puts each sound `.log.swap` in the place of its originals; an unsound one goes.

    A swap file was synced before it got its name, so an unsound one means that nobody may rely on
    it, and its originals are still there. What is done here may be cut short and done again, down
    to the last rename; the removal of the originals is durable before that, for one that came back
    beside the new segment would have its records twice.
    """

    def __init__(self, context: LogContext, directory: Path, swaps: list[SegmentFileName]) -> None:
        self._context, self._directory = context, directory
        self._logs = [each for each in swaps if each.suffix == LOG_SUFFIX]
        self._others = [each for each in swaps if each.suffix != LOG_SUFFIX]

    def finish(self) -> tuple[int, ...]:
        """Return the base offsets of new segments whose transaction index is to be built anew."""
        disk = self._context.disk
        unsure = []
        for each in self._logs:
            path = self._path(each)
            end = self._end(each)
            if end < 0:
                _log.warning("unsound swap file removed", path=str(path))
                disk.unlink(path)
                continue
            originals = self._originals(each.base_offset, end)
            for name in originals:
                disk.unlink(self._path(name))
            disk.sync_directory(self._directory)
            index = each._replace(suffix=TRANSACTION_INDEX_SUFFIX)
            if index in self._others:
                self._others.remove(index)
                disk.rename(self._path(index), self._path(index._replace(state="")))
            elif disk.exists(self._path(index._replace(state=""))):
                unsure.append(each.base_offset)  # it has its name already, or is an original's
            disk.rename(path, self._path(each._replace(state="")))
            disk.sync_directory(self._directory)
            _log.info("swap file finished", path=str(path), originals=len(originals))
        for each in self._others:  # indexes, built anew; after a log has its name they are nobody's
            disk.unlink(self._path(each))
        return tuple(unsure)

    def _originals(self, base_offset: int, end: int) -> list[SegmentFileName]:
        """Return the files of the segments that a new one is made from, logs last.

        Not snapshots: those tell of producers, who have not changed. And not a transaction index
        whose log is gone: it may be the new segment's.
        """
        files = _segment_files(self._context.disk.list_directory(self._directory))
        has_log = SegmentFileName(Offset(base_offset), LOG_SUFFIX) in files
        originals = [
            each
            for each in files
            if not each.state
            and base_offset <= each.base_offset < max(end, base_offset + 1)
            and each.suffix != SNAPSHOT_SUFFIX
            and (has_log or each != (base_offset, TRANSACTION_INDEX_SUFFIX, ""))
        ]
        return sorted(originals, key=lambda each: each.suffix == LOG_SUFFIX)

    def _end(self, name: SegmentFileName) -> int:
        """Return the offset after the last batch of a swap file; -1 if it is not sound."""
        context, path = self._context, self._path(name)
        records = FileRecords.open(context.handles, path)
        records.file().drop_cached_pages(0, 0)  # it decides what is removed: believe the device
        end: int = name.base_offset
        try:
            for _, header in SegmentWalk(records, name.base_offset).checked_batches():
                end = header.next_offset
        except CorruptMessageError:
            return -1
        finally:
            context.handles.forget(path)
        return end

    def _path(self, name: SegmentFileName) -> Path:
        return self._directory / str(name)
