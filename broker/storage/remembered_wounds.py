"""Remembered wounds: those of which a durable report in quarantine tells, so that a start need not
walk from the oldest of them on to find them again.

A report is held against the log: a wound is there if the very bytes are, by their SHA-256; one that
was repaired, cut off or deleted is not. What is forgotten (a report that an operator has removed)
is met by whoever reads first, as every wound that nobody knows of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from broker.storage.damage import Damage, LogDamage
from broker.storage.disk import Disk, storage_errors
from broker.storage.quarantine import REPORT_SUFFIX, Cause, Report, pieces_of, read_report
from broker.storage.recovery import Recovered
from protocol.errors import StorageError
from protocol.stored.file_names import LOG_SUFFIX, log_file_name, parse_file_name

if TYPE_CHECKING:
    from broker.storage.log_context import LogContext

_log = structlog.get_logger(__name__)

REMEMBERED_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of one wound; a larger one is found by a walk, as each start would read all of it anyway."""


def with_remembered(context: LogContext, directory: Path, recovered: Recovered) -> Recovered:
    """Add the wounds that reports tell of, and say for which segments they tell of all.

    Raises:
        StorageError: the directory cannot be read.
    """
    sizes = {each.base_offset: each.size_bytes for each in recovered.segments}
    remembered = LogDamage(_reported(context.disk, directory, sizes))
    if not remembered:
        return recovered
    damage = LogDamage([*recovered.damage, *remembered])
    bases = {each.segment_base_offset for each in damage}
    kept = [each for each in bases if damage.of_segment(each) == remembered.of_segment(each)]
    return recovered._replace(damage=tuple(damage), kept_segments=tuple(sorted(kept)))


def _reported(disk: Disk, directory: Path, sizes: Mapping[int, int]) -> list[Damage]:
    """Return the wounds that are reported, and still there.

    Args:
        sizes: Of the log files, by base offset, oldest first.
    """
    found: list[Damage] = []
    with storage_errors("read", directory):
        names = disk.list_directory(directory)
    for name in names:
        if not name.endswith(REPORT_SUFFIX):
            continue
        try:
            with storage_errors("read", directory / name):
                report = read_report(disk.read_file(directory / name))
                wound = _wound(disk, directory, report, sizes)
        except (StorageError, msgspec.MsgspecError) as error:
            _log.warning("report ignored", path=str(directory / name), error=str(error))
            continue
        if wound is not None:
            found.append(wound)
    return found


def _wound(disk: Disk, directory: Path, report: Report, sizes: Mapping[int, int]) -> Damage | None:
    """Return the wound that a report tells of; None: there is none, or no longer.

    None too in the last segment: a start that finds one begins a new segment behind it.
    """
    parsed = parse_file_name(report.file)
    if report.cause is not Cause.DAMAGE or parsed is None or parsed.suffix != LOG_SUFFIX:
        return None
    base_offset, size = int(parsed.base_offset), report.size_bytes
    if base_offset not in sizes or base_offset == max(sizes):
        return None
    position, end = report.position, report.end_position
    if not 0 <= position <= end <= sizes[base_offset] or end - position != size:
        return None
    if not base_offset <= report.first_offset <= report.next_offset:
        return None
    if report.copied_bytes != size or size > REMEMBERED_BYTES_MAX:
        return None
    if not size:
        is_there = position == sizes[base_offset] and report.next_offset in sizes
    else:
        digest = hashlib.sha256()
        for piece in pieces_of(disk, directory / log_file_name(base_offset), position, size):
            digest.update(piece)
        is_there = digest.hexdigest() == report.sha256
    if not is_there:
        return None
    return Damage(base_offset, position, end, report.first_offset, report.next_offset, report.fault)
