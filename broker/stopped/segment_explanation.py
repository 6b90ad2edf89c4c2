"""SegmentExplanation of a stopped broker: what retention would do with a topic's files.

Read from the files as they are, nothing is changed: sizes and times, the last entries of time
indexes, the checkpointed log starts, and the topic's settings in the registry. It is an outlook;
a start that has to recover a log may find it shorter.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from broker.stopped.log_scan import HEADER_BYTES_MAX
from broker.stopped.running import refuse_running
from broker.storage.checkpoint import read_offset_checkpoint
from broker.storage.log_config import LogConfig
from broker.storage.os_disk import OsDisk
from broker.storage.retention import SegmentFacts
from broker.storage.retention_explained import PartitionExplanation, TopicExplanation, explain
from broker.topic_registry import FILE_NAME
from broker.topic_settings import log_config
from protocol.errors import CorruptMessageError, DataDirectoryError
from protocol.identifiers import NO_TIMESTAMP, TopicPartition
from protocol.legacy_message_set import entry_magic, parse_entry
from protocol.record_batch_header import MAGIC, parse_header
from protocol.stored.file_names import (
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    DirectoryState,
    parse_directory_name,
    parse_file_name,
    segment_file_name,
)
from protocol.stored.index_entries import TIME_INDEX_ENTRY


def explain_stopped(
    directories: Sequence[Path],
    topic: str,
    partitions: Collection[int] = (),
    *,
    defaults: LogConfig,
    now_ms: int,
) -> TopicExplanation:
    """Say of each segment of a topic why it is kept, or when it goes.

    Args:
        directories: The data directories; the first one has the registry.
        partitions: Only these; all of the topic without any.
        defaults: Settings of topics that do not set their own.

    Raises:
        DataDirectoryError: a broker works on it, it is none, or it has nothing of the topic.
    """
    found: dict[int, tuple[Path, Path]] = {}
    for directory in directories:
        refuse_running(directory)
        if not directory.is_dir():
            raise DataDirectoryError(f"{directory} is no directory")
        for path in directory.iterdir():
            parsed = parse_directory_name(path.name)
            if parsed is None or parsed.state is not DirectoryState.CURRENT:
                continue
            name, number = parsed.topic_partition
            if name == topic and (not partitions or number in partitions):
                found[number] = directory, path
    missing = sorted(set(partitions) - set(found))
    if not found or missing:
        what = f"partition {missing[0]} of topic {topic}" if missing else f"topic {topic}"
        raise DataDirectoryError(f"there is no {what} in {', '.join(map(str, directories))}")
    config = log_config(_settings(directories[0] / FILE_NAME, topic), defaults)
    return TopicExplanation(
        topic,
        str(config.cleanup_policy),
        config.retention_ms,
        config.retention_bytes,
        tuple(
            _partition(TopicPartition(topic, number), *found[number], config, now_ms)
            for number in sorted(found)
        ),
    )


def _settings(path: Path, topic: str) -> dict[str, str]:
    if not path.exists():
        return {}
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            return dict(
                connection.execute(
                    "SELECT name, value FROM topic_settings WHERE topic_name = ?", (topic,)
                ).fetchall()
            )
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise DataDirectoryError(f"cannot read the topic registry {path}: {error}") from error


def _partition(
    partition: TopicPartition, data_directory: Path, path: Path, config: LogConfig, now_ms: int
) -> PartitionExplanation:
    bases = sorted(
        parsed.base_offset
        for each in path.iterdir()
        if (parsed := parse_file_name(each.name)) is not None
        and parsed.suffix == LOG_SUFFIX
        and not parsed.state
    )
    if not bases:
        return PartitionExplanation(partition.partition, error="it has no log files")
    facts = list(_facts(path, bases))
    log_end_offset = facts[-1].next_base_offset
    log_starts = read_offset_checkpoint(OsDisk(), data_directory / LOG_START_CHECKPOINT)
    log_start_offset = max(log_starts.get(partition, 0), bases[0])
    size_bytes = sum(each.size_bytes for each in facts)
    return PartitionExplanation(
        partition.partition,
        None,
        log_start_offset,
        log_end_offset,
        size_bytes,
        tuple(
            explain(
                facts,
                config,
                size_bytes=size_bytes,
                log_start_offset=log_start_offset,
                high_watermark=log_end_offset,  # as after a start
                durable_offset=log_end_offset,
                now_ms=now_ms,
            )
        ),
    )


def _facts(directory: Path, bases: Sequence[int]) -> Iterator[SegmentFacts]:
    for number, base_offset in enumerate(bases):
        path = directory / segment_file_name(base_offset, LOG_SUFFIX)
        status = path.stat()
        modified_at_ms = status.st_mtime_ns // 1_000_000
        is_active = number == len(bases) - 1
        largest = NO_TIMESTAMP if is_active else _last_time(directory, base_offset)
        end_offset = bases[number + 1] if not is_active else base_offset
        if largest == NO_TIMESTAMP:
            largest, walked_end = _walked(path, base_offset)
            end_offset = walked_end if is_active else end_offset
        yield SegmentFacts(
            base_offset=base_offset,
            next_base_offset=end_offset,
            size_bytes=status.st_size,
            largest_timestamp_ms=largest if largest > 0 else modified_at_ms,
            modified_at_ms=modified_at_ms,
            is_active=is_active,
        )


def _last_time(directory: Path, base_offset: int) -> int:
    """Return the timestamp in the last entry of a sealed segment's time index; -1: none to see."""
    try:
        data = (directory / segment_file_name(base_offset, TIME_INDEX_SUFFIX)).read_bytes()
    except OSError:
        return NO_TIMESTAMP
    if len(data) % TIME_INDEX_ENTRY.size or not data:
        return NO_TIMESTAMP
    timestamp: int = TIME_INDEX_ENTRY.unpack_from(data, len(data) - TIME_INDEX_ENTRY.size)[0]
    return timestamp if timestamp > 0 else NO_TIMESTAMP


def _walked(path: Path, base_offset: int) -> tuple[int, int]:
    """Return the largest timestamp in a log file's headers, and the offset after the last one."""
    largest, end_offset, position = int(NO_TIMESTAMP), base_offset, 0
    size_bytes = path.stat().st_size
    with path.open("rb") as file:
        while position < size_bytes:
            file.seek(position)
            head = file.read(HEADER_BYTES_MAX)
            try:
                if entry_magic(head) == MAGIC:
                    batch = parse_header(head)
                    timestamp, last, entry_bytes = (
                        batch.max_timestamp, batch.last_offset, batch.size_bytes
                    )  # fmt: skip
                else:
                    entry = parse_entry(head)
                    timestamp, last, entry_bytes = entry.timestamp, entry.offset, entry.size_bytes
            except CorruptMessageError:
                break  # a torn tail: the next start cuts it
            position += entry_bytes
            if position > size_bytes:
                break
            largest, end_offset = max(largest, timestamp), last + 1
    return largest, end_offset
