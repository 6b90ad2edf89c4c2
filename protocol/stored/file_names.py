"""Names of files and directories in a data directory, and of the topics they are made from.

    <data directory>/
      <topic>-<partition>/                     one partition, e.g. `web-logs-0`
        00000000000000000042.log               base offset, 20 digits, then what the file holds
        00000000000000000042.log.deleted       and, in passing, what is happening to it
      <topic>-<partition>.<32 hex digits>-delete/    a deleted partition, not yet unlinked

All as in Apache Kafka 3.x and 4.x (LogFileUtils, LocalLog.logDeleteDirName, Topic.validate).
A name that is none of ours parses to None, not to an error: data directories hold other things
too, and they are left alone.
"""

from __future__ import annotations

import enum
import re
from typing import Final, NamedTuple
from uuid import UUID

from protocol.errors import InvalidTopicError
from protocol.identifiers import Offset, TopicPartition
from protocol.limits import INT32_MAX, INT64_MAX, TOPIC_NAME_CHARS_MAX

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"

DELETED_SUFFIX: Final = ".deleted"
"""Out of the segment list, to be unlinked; removed at load."""
CLEANED_SUFFIX: Final = ".cleaned"
"""Compaction was still writing it; removed at load."""
SWAP_SUFFIX: Final = ".swap"
"""Complete, about to take the place of older segments; finished at load."""
QUARANTINE_SUFFIX: Final = ".quarantine"
"""Ours, not Kafka's: a copy of bytes that recovery found damaged or cut off."""

SEGMENT_SUFFIXES: Final = (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
STATE_SUFFIXES: Final = ("", DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)

RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN_MARKER: Final = ".kafka_cleanshutdown"
LOCK_FILE: Final = ".lock"
META_PROPERTIES: Final = "meta.properties"
DURABLE_OFFSETS: Final = "durable-offsets"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"

FILE_NAME_BYTES_MAX: Final = 255
"""NAME_MAX of every Linux file system a log is kept on."""

_TOPIC = re.compile(rf"[a-zA-Z0-9._-]{{1,{TOPIC_NAME_CHARS_MAX}}}")
_FILE = re.compile(
    r"([0-9]{20})(\.log|\.index|\.timeindex|\.snapshot|\.txnindex)(\.deleted|\.cleaned|\.swap)?"
)
_DIRECTORY = re.compile(
    r"(.+)-(0|[1-9][0-9]{0,9})(?:\.([0-9a-f]{32})-(delete|future|stray))?", re.DOTALL
)


class SegmentFileName(NamedTuple):
    """The parts of a segment file's name; `state` is "", ".deleted", ".cleaned" or ".swap"."""

    base_offset: Offset
    suffix: str
    state: str = ""

    def __str__(self) -> str:
        return segment_file_name(self.base_offset, self.suffix, self.state)


class DirectoryState(enum.StrEnum):
    """Why a partition's directory does not have its plain name."""

    CURRENT = ""
    DELETE = "delete"
    """Its topic was deleted; the directory is to be unlinked."""
    FUTURE = "future"
    """Kafka was moving it between data directories. Never ours to load."""
    STRAY = "stray"
    """Kafka found that it does not belong to this broker. Never ours to load."""


class DirectoryName(NamedTuple):
    """The parts of a partition directory's name.

    Of a directory that is not CURRENT the topic may have been cut short to fit 255 bytes.
    """

    topic_partition: TopicPartition
    state: DirectoryState = DirectoryState.CURRENT
    unique_id: UUID | None = None


def segment_file_name(base_offset: int, suffix: str, state: str = "") -> str:
    """Return e.g. `00000000000000000042.log`, with `state` (such as `.deleted`) at its end."""
    assert 0 <= base_offset <= INT64_MAX, base_offset
    return f"{base_offset:020d}{suffix}{state}"


def log_file_name(base_offset: int) -> str:
    """Return the name of the file with the record batches."""
    return segment_file_name(base_offset, LOG_SUFFIX)


def offset_index_file_name(base_offset: int) -> str:
    """Return the name of the offset index."""
    return segment_file_name(base_offset, OFFSET_INDEX_SUFFIX)


def time_index_file_name(base_offset: int) -> str:
    """Return the name of the time index."""
    return segment_file_name(base_offset, TIME_INDEX_SUFFIX)


def snapshot_file_name(offset: int) -> str:
    """Return the name of the producer snapshot of the state before `offset`."""
    return segment_file_name(offset, SNAPSHOT_SUFFIX)


def transaction_index_file_name(base_offset: int) -> str:
    """Return the name of the index of aborted transactions."""
    return segment_file_name(base_offset, TRANSACTION_INDEX_SUFFIX)


def parse_file_name(name: str) -> SegmentFileName | None:
    """Return the parts of a segment file's name; None if it is no segment file."""
    match = _FILE.fullmatch(name)
    if match is None:
        return None
    base_offset = int(match[1])
    if base_offset > INT64_MAX:
        return None
    return SegmentFileName(Offset(base_offset), match[2], match[3] or "")


def directory_name(topic_partition: TopicPartition) -> str:
    """Return the name of a partition's directory."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def deleted_directory_name(topic_partition: TopicPartition, unique_id: UUID) -> str:
    """Return what the directory of a deleted partition is renamed to; `unique_id` is random.

    A long topic name is cut at its end so that the whole fits FILE_NAME_BYTES_MAX, as in Kafka.
    """
    tail = f"-{topic_partition.partition}.{unique_id.hex}-delete"
    return topic_partition.topic[: FILE_NAME_BYTES_MAX - len(tail)] + tail


def parse_directory_name(name: str) -> DirectoryName | None:
    """Return the parts of a partition directory's name; None if it is no partition directory.

    The partition number is what follows the last `-`, since topics may contain one. It must be
    written as we write it: `t-01` beside `t-1` would be two directories of one partition.
    """
    match = _DIRECTORY.fullmatch(name)
    if match is None or not is_topic_name(match[1]):
        return None
    partition = int(match[2])
    if partition > INT32_MAX:
        return None
    topic_partition = TopicPartition(match[1], partition)
    if match[3] is None:
        return DirectoryName(topic_partition)
    return DirectoryName(topic_partition, DirectoryState(match[4]), UUID(hex=match[3]))


def is_topic_name(name: str) -> bool:
    """Return whether `name` is a legal topic name: `[a-zA-Z0-9._-]{1,249}`, not `.` or `..`."""
    return _TOPIC.fullmatch(name) is not None and name not in {".", ".."}


def check_topic_name(name: str | bytes) -> str:
    """Return the name as text if it is legal.

    Topic names become directory names, so anything else would be a path traversal.

    Raises:
        InvalidTopicError: it is not; the text says what is wrong with it.
    """
    text = name if isinstance(name, str) else name.decode("latin-1")  # never fails; ASCII or bad
    if is_topic_name(text):
        return text
    if not text:
        raise InvalidTopicError("the topic name is empty")
    if len(text) > TOPIC_NAME_CHARS_MAX:
        raise InvalidTopicError(
            f"the topic name has {len(text)} characters, at most {TOPIC_NAME_CHARS_MAX} are allowed"
        )
    shown = name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")
    raise InvalidTopicError(
        f"the topic name {shown!r} is not legal: use ASCII letters, digits, '.', '_' and '-', "
        "and neither '.' nor '..' alone"
    )
