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
from protocol.identifiers import TopicPartition
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
from tidelog.segments.log_files import PartitionFiles, data_directory, list_partitions

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
NOTHING_KNOWN: Final = -1
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
    root = data_directory(location)
    # What is durable is read before the logs are listed: a live one only grows.
    durable = _durable_offsets(root)
    wanted = None if topics is None else frozenset(topics)
    partitions = list_partitions(location, wanted)
    if location.filesystem.get_file_info(location.path).type is FileType.File:
        directory = Location(location.filesystem, location.path.rpartition("/")[0])
        _plan_logs(plan, partitions[0], _files(directory), NOTHING_KNOWN)
        return plan
    if root.path == location.path:
        _check_small_files(plan, _files(location))
        _check_directories(plan, durable, wanted)
    for partition in partitions:
        name = file_names.directory_name(TopicPartition(partition.topic, partition.partition))
        directory = root.child(name) if root.path == location.path else location
        _plan_partition(plan, partition, directory, durable)
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
    plan: AuditPlan, partition: PartitionFiles, directory: Location, durable: _Durable
) -> None:
    start_offset = partition.log_start_offset
    durable_offset = _durable_offset(partition, directory, durable)
    files = _files(directory)
    _plan_logs(plan, partition, files, durable_offset)
    is_there = directory.filesystem.get_file_info(directory.path).type is FileType.Directory
    if is_there and not partition.segments and durable_offset > start_offset:
        last = durable_offset - 1
        text = f"no log is there; offsets up to {last} were durable"
        plan.faults.append(
            Fault(
                FaultKind.MISSING, Severity.ERROR, directory.path, text, None, None,
                start_offset, last,
            )
        )  # fmt: skip
    bases = {segment.base_offset for segment in partition.segments}
    others = []
    for info in files:
        name = parse_file_name(info.base_name)
        if name is not None and not name.state and name.suffix in _INDEX_SUFFIXES:
            if name.base_offset not in bases:
                plan.orphans.append(
                    Orphan(partition.topic, partition.partition, info.path, name.base_offset)
                )
        else:
            others.append(info)
    _check_small_files(plan, others)


def _plan_logs(
    plan: AuditPlan, partition: PartitionFiles, files: Sequence[Any], durable_offset: int
) -> None:
    """Add a task for each segment; `files` are those in its directory."""
    paths = {info.base_name: info.path for info in files}
    following = [*(each.base_offset for each in partition.segments[1:]), None]
    for segment, next_base_offset in zip(partition.segments, following, strict=False):
        index, time_index, transaction_index = (
            paths.get(file_names.segment_file_name(segment.base_offset, suffix))
            for suffix in _INDEX_SUFFIXES
        )
        plan.tasks.append(
            AuditTask(
                partition.topic, partition.partition, segment.path, segment.base_offset,
                segment.size_bytes, next_base_offset, durable_offset, partition.log_start_offset,
                index, time_index, transaction_index,
            )
        )  # fmt: skip


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


def _check_directories(plan: AuditPlan, durable: _Durable, topics: frozenset[str] | None) -> None:
    """Report partitions with something durable whose directories are gone, not even to be deleted.

    A warning: of a directory that is a copy it may be the checkpoint that knows too much.
    """
    there = {
        name.topic_partition
        for info in plan.location.filesystem.get_file_info(FileSelector(plan.location.path))
        if (name := parse_directory_name(info.base_name)) is not None
    }
    file = plan.location.child(file_names.RECOVERY_POINT_CHECKPOINT).path
    for key, offset in sorted(durable.recovery_points.items()):
        if offset > 0 and key not in there and (topics is None or key.topic in topics):
            missing = file_names.directory_name(key)
            text = f"there is no {missing}; offsets up to {offset - 1} of it were durable"
            fault = Fault(
                FaultKind.MISSING, Severity.WARNING, file, text, None, None, 0, offset - 1
            )
            plan.faults.append(fault)


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
    selector = FileSelector(directory.path, allow_not_found=True)  # a topic may have been deleted
    found = directory.filesystem.get_file_info(selector)
    files = [info for info in found if info.type is FileType.File]
    return sorted(files, key=lambda info: str(info.base_name))


def _read(location: Location) -> bytes:
    with location.filesystem.open_input_stream(location.path) as file:
        data: bytes = file.read(SMALL_FILE_BYTES_MAX)
    return data
