"""Remembered wounds: those of which a durable report in quarantine tells, so that a start need not
walk from the oldest of them on to find them again. It says each aloud, until it is repaired.

A report is held against the log: a wound is there if the very bytes are, by their SHA-256; one that
was repaired, cut off or deleted is not. What is forgotten (a report that an operator has removed)
is met by whoever reads first, as every wound that nobody knows of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from broker.storage.damage import Damage, LogDamage
from broker.storage.disk import Disk, storage_errors
from broker.storage.quarantine import REPORT_SUFFIX, Cause, Report, read_report
from broker.storage.recovery import Recovered
from broker.storage.segment_recovery import SegmentWalk
from protocol.errors import CorruptMessageError, StorageError
from protocol.stored.file_names import LOG_SUFFIX, parse_file_name

if TYPE_CHECKING:
    from broker.storage.log_context import LogContext
    from broker.storage.segment import LogSegment

_log = structlog.get_logger(__name__)

REMEMBERED_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of one wound; a larger one is found by a walk, as each start would read all of it anyway."""
WINDOW_BYTES: Final = 64 * 1024


def with_remembered(context: LogContext, directory: Path, recovered: Recovered) -> Recovered:
    """Add the wounds that reports tell of, and say for which segments they tell of all.

    Raises:
        StorageError: the directory cannot be read.
    """
    # Not the last segment: a start that finds a wound in it begins a new one behind it.
    segments = {each.base_offset: each for each in recovered.segments[:-1]}
    ends = {each.base_offset for each in recovered.segments}
    remembered = LogDamage(_reported(context.disk, directory, segments, ends))
    if not remembered:
        return recovered
    damage = LogDamage([*recovered.damage, *remembered])
    for wound in damage:
        if wound not in recovered.damage:
            _log.error(
                "damage in acknowledged records, found before; verify the partition",
                partition=directory.name,
                **wound._asdict(),
            )
    bases = {each.segment_base_offset for each in damage}
    kept = [each for each in bases if damage.of_segment(each) == remembered.of_segment(each)]
    return recovered._replace(damage=tuple(damage), kept_segments=tuple(sorted(kept)))


def _reported(
    disk: Disk, directory: Path, segments: Mapping[int, LogSegment], ends: Container[int]
) -> list[Damage]:
    """Return the wounds that are reported, and still there.

    Args:
        ends: The offsets at which segments begin, the last one too.
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
                wound = _wound(report, segments, ends)
        except (StorageError, msgspec.MsgspecError) as error:
            _log.warning("report ignored", path=str(directory / name), error=str(error))
            continue
        if wound is not None:
            found.append(wound)
    return found


def _wound(
    report: Report, segments: Mapping[int, LogSegment], ends: Container[int]
) -> Damage | None:
    """Return the wound that a report tells of; None: there is none, or no longer."""
    parsed = parse_file_name(report.file)
    if report.cause is not Cause.DAMAGE or parsed is None or parsed.suffix != LOG_SUFFIX:
        return None
    segment = segments.get(parsed.base_offset)
    if segment is None:
        return None
    wound = Damage(
        segment.base_offset, report.position, report.end_position, report.first_offset,
        report.next_offset, report.fault,
    )  # fmt: skip
    is_possible = (
        0 <= wound.position <= wound.end_position <= segment.size_bytes
        and segment.base_offset <= wound.first_offset <= wound.next_offset
        and report.copied_bytes == wound.size_bytes <= REMEMBERED_BYTES_MAX
    )
    if not is_possible:
        return None
    if not wound.size_bytes:  # offsets that are missing at the file's end
        is_there = wound.position == segment.size_bytes and wound.next_offset in ends
    else:
        is_there = _has_bytes(segment, wound, report.sha256)
    return wound if is_there else None


def _has_bytes(segment: LogSegment, wound: Damage, sha256: str) -> bool:
    """Whether the bad bytes are there still, and are not the beginning of a sound batch.

    Those of a header that was torn off may be: what stands for it after a repair has its offset.
    """
    data = segment.records.read_exactly(wound.position, wound.size_bytes)
    if hashlib.sha256(data).hexdigest() != sha256:
        return False
    walk = SegmentWalk(segment.records, segment.base_offset, window_bytes=WINDOW_BYTES)
    try:
        return walk.check(wound.position).size_bytes <= wound.size_bytes
    except CorruptMessageError:
        return True
