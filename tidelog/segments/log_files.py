"""LogFiles: the partitions and segment files under a path, be it a broker's or a copy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from pyarrow.fs import FileSelector, FileType

from protocol.errors import StoredFormatError
from protocol.identifiers import TopicPartition
from protocol.stored.checkpoint import offset_checkpoint_decode
from protocol.stored.file_names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    DirectoryState,
    parse_directory_name,
    parse_file_name,
)
from tidelog.segments.errors import SegmentError
from tidelog.segments.location import Location

__all__ = ["PartitionFiles", "SegmentFile", "data_directory", "list_partitions", "list_segments"]

CHECKPOINT_BYTES_MAX: Final = 64 * 1024 * 1024


class SegmentFile(NamedTuple):
    """A `.log` file; it holds offsets from `base_offset` on."""

    path: str
    base_offset: int
    size_bytes: int
    """When it was listed: the last one of a live broker grows."""


class PartitionFiles(NamedTuple):
    """A partition and its segments, in the order of their offsets."""

    topic: str
    partition: int
    segments: tuple[SegmentFile, ...]
    high_watermark: int | None
    """Up to where a live broker had it committed when that was last written down; None: unknown."""
    log_start_offset: int
    """Records below it are deleted, though they may still be there; 0 where nobody knows."""


def list_partitions(
    location: Location, topics: Iterable[str] | None = None
) -> list[PartitionFiles]:
    """Return the partitions under a data directory, a partition's directory, or one segment file.

    By topic and number. What is being deleted, cleaned or swapped is left out, as a broker does.

    Args:
        topics: These only.

    Raises:
        SegmentError: there is nothing at that path, or nothing that is a log.
    """
    info = location.filesystem.get_file_info(location.path)
    if info.type is FileType.NotFound:
        raise SegmentError(f"{location.path} is not there")
    if info.type is FileType.File:
        return [_single_file(location, info)]
    parent = data_directory(location)
    own = None if parent.path == location.path else _partition_of(location.path)
    directories = _partition_directories(location) if own is None else [(own, location)]
    if not directories:
        raise SegmentError(f"{location.path} holds no partition, such as `web-logs-0`")
    wanted = None if topics is None else frozenset(topics)
    ends = _checkpoint(parent, HIGH_WATERMARK_CHECKPOINT)
    starts = _checkpoint(parent, LOG_START_CHECKPOINT)
    found: list[PartitionFiles] = []
    for key, directory in sorted(directories, key=lambda each: each[0]):
        if wanted is not None and key.topic not in wanted:
            continue
        try:
            segments = list_segments(directory)
        except FileNotFoundError:  # its topic was deleted just now
            continue
        end, start = ends.get(key), starts.get(key, 0)
        found.append(PartitionFiles(key.topic, key.partition, segments, end, start))
    return found


def data_directory(location: Location) -> Location:
    """Return the data directory of what is under a path: that itself, unless it is a partition's
    directory or a segment.

    A directory with partitions in it is no partition's, though its own name may be like one's, as
    that of a disk: `data-0`.
    """
    kind = location.filesystem.get_file_info(location.path).type
    parent = location.path.rstrip("/").rpartition("/")[0]
    if kind is FileType.File:
        return Location(location.filesystem, parent.rpartition("/")[0])
    is_named_so = kind is FileType.Directory and _partition_of(location.path) is not None
    if not is_named_so or _partition_directories(location):
        return location
    return Location(location.filesystem, parent)


def _single_file(location: Location, info: Any) -> PartitionFiles:
    name = parse_file_name(info.base_name)
    if name is None or (name.suffix, name.state) != (LOG_SUFFIX, ""):
        raise SegmentError(f"{location.path} is no segment, such as `00000000000000000042.log`")
    key = _partition_of(location.path.rpartition("/")[0])
    topic, partition = ("", 0) if key is None else key
    segment = SegmentFile(location.path, name.base_offset, info.size)
    return PartitionFiles(topic, partition, (segment,), None, 0)


def _partition_directories(location: Location) -> list[tuple[TopicPartition, Location]]:
    found: list[tuple[TopicPartition, Location]] = []
    for info in location.filesystem.get_file_info(FileSelector(location.path)):
        key = _partition_of(info.path) if info.type is FileType.Directory else None
        if key is not None:
            found.append((key, Location(location.filesystem, info.path)))
    return found


def _partition_of(path: str) -> TopicPartition | None:
    """Return the partition that a directory is of, by its name; None if it is not in use."""
    name = parse_directory_name(path.rstrip("/").rpartition("/")[2])
    if name is None or name.state is not DirectoryState.CURRENT:
        return None
    return name.topic_partition


def list_segments(directory: Location) -> tuple[SegmentFile, ...]:
    """Return the segments in a partition's directory, in the order of their offsets."""
    found: list[SegmentFile] = []
    for info in directory.filesystem.get_file_info(FileSelector(directory.path)):
        name = parse_file_name(info.base_name)
        if name is not None and (name.suffix, name.state) == (LOG_SUFFIX, ""):
            found.append(SegmentFile(info.path, name.base_offset, info.size))
    return tuple(sorted(found, key=lambda segment: segment.base_offset))


def _checkpoint(directory: Location, name: str) -> dict[TopicPartition, int]:
    """Return what a checkpoint says; nothing where it is missing or garbled: it is a hint."""
    path = directory.child(name).path
    info = directory.filesystem.get_file_info(path)
    if info.type is not FileType.File or info.size > CHECKPOINT_BYTES_MAX:
        return {}
    with directory.filesystem.open_input_stream(path) as file:
        data = file.read()
    try:
        return offset_checkpoint_decode(data)
    except StoredFormatError:
        return {}
