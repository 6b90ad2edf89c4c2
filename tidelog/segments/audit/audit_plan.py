"""Audit plan: the segments under a data directory as tasks, and what is wrong beside them.

All files but logs and their indexes are small, so whoever plans reads them: checkpoints, producer
snapshots, metadata. What cannot be read of these is a fault; what is left over is a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from pyarrow.fs import FileSelector, FileType

from protocol.errors import TidelogError
from protocol.stored import (
    checkpoint,
    clean_shutdown,
    durable_offsets,
    file_names,
    leader_epoch_checkpoint,
    meta_properties,
    partition_metadata,
    producer_snapshot,
)
from protocol.stored.file_names import parse_directory_name, parse_file_name
from tidelog.segments.audit.audit_task import AuditTask, SegmentAudit
from tidelog.segments.audit.fault import Fault, FaultKind, Severity
from tidelog.segments.location import Location
from tidelog.segments.log_files import PartitionFiles, list_partitions

__all__ = ["AuditPlan", "lost_logs", "plan_audit"]

SMALL_FILE_BYTES_MAX: Final = 64 * 1024 * 1024

_DECODERS: Final[dict[str, Callable[[bytes], object]]] = {
    file_names.RECOVERY_POINT_CHECKPOINT: checkpoint.offset_checkpoint_decode,
    file_names.HIGH_WATERMARK_CHECKPOINT: checkpoint.offset_checkpoint_decode,
    file_names.LOG_START_CHECKPOINT: checkpoint.offset_checkpoint_decode,
    file_names.CLEANER_CHECKPOINT: checkpoint.offset_checkpoint_decode,
    file_names.LEADER_EPOCH_CHECKPOINT: leader_epoch_checkpoint.decode,
    file_names.CLEAN_SHUTDOWN_MARKER: clean_shutdown.decode,
    file_names.META_PROPERTIES: meta_properties.decode,
    file_names.PARTITION_METADATA: partition_metadata.decode,
    file_names.DURABLE_OFFSETS: durable_offsets.decode,
}
_IRREPLACEABLE: Final = frozenset({file_names.META_PROPERTIES, file_names.PARTITION_METADATA})
"""No start makes them anew."""
_INDEX_SUFFIXES: Final = (
    file_names.OFFSET_INDEX_SUFFIX,
    file_names.TIME_INDEX_SUFFIX,
    file_names.TRANSACTION_INDEX_SUFFIX,
)


class Orphan(NamedTuple):
    """An index whose log is not there."""

    topic: str
    partition: int
    path: str
    base_offset: int


class AuditPlan(NamedTuple):
    """What is to be checked under one path."""

    location: Location
    tasks: list[AuditTask]
    """By topic, partition and offset."""
    faults: list[Fault]
    """Of small files, and of what is left over."""
    orphans: list[Orphan]


def plan_audit(location: Location, topics: Iterable[str] | None = None) -> AuditPlan:
    """List what is to be checked under a data directory, a partition's, or of one segment.

    Raises:
        SegmentError: nothing is there, or nothing that is a log.
    """
    plan = AuditPlan(location, [], [], [])
    filesystem = location.filesystem
    info = filesystem.get_file_info(location.path)
    parent = location.path.rstrip("/").rpartition("/")[0]
    data_directory = location.path
    if info.type is FileType.File:
        data_directory = parent.rpartition("/")[0]
    elif parse_directory_name(info.base_name) is not None:
        data_directory = parent
    # What is durable is read before the logs are listed: a live one only grows.
    durable = _durable_offsets(Location(filesystem, data_directory))
    partitions = list_partitions(location, topics)
    if data_directory == location.path:
        _check_small_files(plan, _files(location))
    for partition in partitions:
        if partition.segments:
            _plan_partition(plan, partition, durable, is_single=info.type is FileType.File)
    return plan


def lost_logs(plan: AuditPlan, segments: Sequence[SegmentAudit]) -> list[Fault]:
    """Return what is wrong about indexes without a log: in a gap, there was one."""
    gaps: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for before, after in pairwise(sorted(segments, key=_place)):
        partition = (before.topic, before.partition)
        first = before.base_offset if before.last_offset is None else before.last_offset + 1
        if partition == (after.topic, after.partition) and first < after.base_offset:
            gaps.setdefault(partition, []).append((first, after.base_offset - 1))
    found: list[Fault] = []
    for orphan in plan.orphans:
        fault = Fault(FaultKind.LEFTOVER, Severity.NOTE, orphan.path, "an index without a log")
        for first, last in gaps.get((orphan.topic, orphan.partition), ()):
            if first <= orphan.base_offset <= last:
                text = f"its log is missing, with offsets {first} to {last}"
                fault = Fault(
                    FaultKind.MISSING, Severity.ERROR, orphan.path, text, None, None, first, last
                )
        found.append(fault)
    return found


def _place(segment: SegmentAudit) -> tuple[str, int, int]:
    return segment.topic, segment.partition, segment.base_offset


class _Durable(NamedTuple):
    """What a data directory promises to hold."""

    by_id: dict[tuple[bytes, int], int]
    """Ours, by topic id and partition."""
    recovery_points: dict[Any, int]


def _durable_offsets(directory: Location) -> _Durable:
    by_id: dict[tuple[bytes, int], int] = {}
    recovery_points: dict[Any, int] = {}
    try:
        data = _read(directory.child(file_names.DURABLE_OFFSETS))
        for slot in durable_offsets.decode(data):  # two of one partition: both were true once
            key = (slot.topic_id.bytes, slot.partition)
            by_id[key] = max(slot.durable_offset, by_id.get(key, 0))
    except (OSError, TidelogError):
        pass  # a hint lost; a file that cannot be read is a fault of its own
    try:
        data = _read(directory.child(file_names.RECOVERY_POINT_CHECKPOINT))
        recovery_points = dict(checkpoint.offset_checkpoint_decode(data))
    except (OSError, TidelogError):
        pass
    return _Durable(by_id, recovery_points)


def _plan_partition(
    plan: AuditPlan, partition: PartitionFiles, durable: _Durable, *, is_single: bool
) -> None:
    segments = partition.segments
    directory = Location(plan.location.filesystem, segments[0].path.rpartition("/")[0])
    paths = {info.base_name: info.path for info in _files(directory)}
    durable_offset = _durable_offset(partition, directory, durable)
    for number, segment in enumerate(segments):
        is_last = number == len(segments) - 1
        index, time_index, transaction_index = (
            paths.get(file_names.segment_file_name(segment.base_offset, suffix))
            for suffix in _INDEX_SUFFIXES
        )
        plan.tasks.append(
            AuditTask(
                partition.topic, partition.partition, segment.path, segment.base_offset,
                segment.size_bytes, None if is_last else segments[number + 1].base_offset,
                -1 if is_single else durable_offset, partition.log_start_offset,
                index, time_index, transaction_index,
            )
        )  # fmt: skip
    if is_single:
        return
    bases = {segment.base_offset for segment in segments}
    others = []
    for info in _files(directory):
        name = parse_file_name(info.base_name)
        if name is not None and not name.state and name.suffix in _INDEX_SUFFIXES:
            if name.base_offset not in bases:
                plan.orphans.append(
                    Orphan(partition.topic, partition.partition, info.path, name.base_offset)
                )
        else:
            others.append(info)
    _check_small_files(plan, others)


def _durable_offset(partition: PartitionFiles, directory: Location, durable: _Durable) -> int:
    """Return up to where a partition was durable, as a start would know it; -1: nobody knows."""
    try:
        topic_id = partition_metadata.decode(_read(directory.child(file_names.PARTITION_METADATA)))
        found = durable.by_id.get((topic_id.bytes, partition.partition), -1)
    except (OSError, TidelogError):
        found = -1
    if found >= 0:
        return found
    return durable.recovery_points.get((partition.topic, partition.partition), -1)


def _check_small_files(plan: AuditPlan, files: Iterable[Any]) -> None:
    for info in files:
        name = parse_file_name(info.base_name)
        if name is not None and name.state:
            text = "a leftover that the next start removes or uses"
            plan.faults.append(Fault(FaultKind.LEFTOVER, Severity.NOTE, info.path, text))
            continue
        decode = _DECODERS.get(info.base_name)
        if name is not None and name.suffix == file_names.SNAPSHOT_SUFFIX:
            decode = producer_snapshot.decode
        if decode is None:
            continue
        try:
            decode(_read(Location(plan.location.filesystem, info.path)))
        except FileNotFoundError:
            continue  # a live broker removes and replaces them
        except TidelogError as error:
            is_lost = info.base_name in _IRREPLACEABLE
            severity = Severity.ERROR if is_lost else Severity.WARNING
            plan.faults.append(Fault(FaultKind.SMALL_FILE, severity, info.path, str(error)))


def _files(directory: Location) -> list[Any]:
    found = directory.filesystem.get_file_info(FileSelector(directory.path))
    files = [info for info in found if info.type is FileType.File]
    return sorted(files, key=lambda info: str(info.base_name))


def _read(location: Location) -> bytes:
    with location.filesystem.open_input_stream(location.path) as file:
        data: bytes = file.read(SMALL_FILE_BYTES_MAX)
    return data
