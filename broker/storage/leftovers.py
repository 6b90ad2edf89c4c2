"""Leftovers: files that a crash has left behind, in the middle of a change (R31, passes 1 to 3)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from broker.storage.disk import TEMPORARY_SUFFIX, storage_errors
from broker.storage.file_records import FileRecords
from broker.storage.segment_recovery import SegmentWalk
from protocol.errors import CorruptMessageError
from protocol.stored.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    SegmentFileName,
    parse_file_name,
)

if TYPE_CHECKING:
    from broker.storage.log_context import LogContext

_log = structlog.get_logger(__name__)

JUNK_SUFFIXES = (DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)
INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


def finish_leftovers(context: LogContext, directory: Path) -> tuple[int, ...]:
    """Finish or undo what a crash interrupted (R31, 1 to 3); return the base offsets of the logs.

    Files that are none of ours are left alone.

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
        parsed = [each for name in names if (each := parse_file_name(name)) is not None]
        swaps = [each for each in parsed if each.state == SWAP_SUFFIX]
        if swaps:
            _finish_swaps(context, directory, swaps)
            parsed = [
                each
                for name in disk.list_directory(directory)
                if (each := parse_file_name(name)) is not None
            ]
        logs = {each.base_offset for each in parsed if each[1:] == (LOG_SUFFIX, "")}
        for each in parsed:
            if each.suffix in INDEX_SUFFIXES and not each.state and each.base_offset not in logs:
                _log.warning("index without a log removed", path=str(directory / str(each)))
                disk.unlink(directory / str(each))
    return tuple(sorted(logs))


def _finish_swaps(context: LogContext, directory: Path, swaps: list[SegmentFileName]) -> None:
    """Put each sound `.log.swap` in the place of its originals; an unsound one goes.

    A swap file was synced before it got its name, so an unsound one means that nobody may rely on
    it, and its originals are still there.
    """
    disk = context.disk
    for each in swaps:
        if each.suffix != LOG_SUFFIX:
            disk.unlink(directory / str(each))  # indexes are built anew
    for each in swaps:
        if each.suffix != LOG_SUFFIX:
            continue
        path = directory / str(each)
        end = _end_of_swap(context, path, each.base_offset)
        originals = [
            name
            for text in disk.list_directory(directory)
            if (name := parse_file_name(text)) is not None
            and not name.state
            and each.base_offset <= name.base_offset < max(end, each.base_offset + 1)
        ]
        if end < 0:
            _log.warning("unsound swap file removed", path=str(path))
            disk.unlink(path)
            continue
        for name in originals:
            disk.unlink(directory / str(name))
        disk.rename(path, directory / str(each._replace(state="")))
        disk.sync_directory(directory)
        _log.info("swap file finished", path=str(path), originals=len(originals))


def _end_of_swap(context: LogContext, path: Path, base_offset: int) -> int:
    """Return the offset after the last batch of a swap file; -1 if it is not sound."""
    records = FileRecords.open(context.handles, path)
    end = base_offset
    try:
        for _, header in SegmentWalk(records, base_offset).checked_batches():
            end = header.next_offset
    except CorruptMessageError:
        return -1
    finally:
        context.handles.forget(path)
    return end
