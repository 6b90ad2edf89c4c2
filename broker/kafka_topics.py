"""KafkaTopics: what an Apache Kafka that wrote a data directory knew of its topics.

Kafka keeps topics' settings in its controller's log, `__cluster_metadata-0`, not in their
directories. That log is Kafka's alone: it is read, never opened for writing, and never served.
Where it is missing (Kafka before 3.3 kept them in ZooKeeper, larger clusters have controllers of
their own) or cannot be read, nothing is known, and whoever takes the topics over has to be careful.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import structlog

from broker.storage.disk import Disk
from broker.topic_settings import SETTINGS, checked_settings
from protocol.errors import BatchTruncatedError, InvalidConfigError, TidelogError
from protocol.record_batch import check_batch, iterate_batches, iterate_records
from protocol.stored.cluster_metadata import KafkaTopic, read_topics
from protocol.stored.file_names import LOG_SUFFIX, parse_file_name

DIRECTORY: Final = "__cluster_metadata-0"
METADATA_BYTES_MAX: Final = 1024**3
"""A controller's log beyond this is not read: it is taken for unknown."""

KEEP_ALL: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
"""Settings that delete nothing: for a topic whose own are not known."""

_CHECKPOINT: Final = re.compile(r"\d{20}-\d{10}\.checkpoint")

_log = structlog.get_logger("tidelog.topics")


def kafka_topics(disk: Disk, data_directories: Sequence[Path]) -> dict[str, KafkaTopic]:
    """Return the topics that Kafka's controller knew, of all directories; empty: nothing is known.

    Raises:
        Nothing: what cannot be read is logged, and counts as unknown.
    """
    found: dict[str, KafkaTopic] = {}
    for directory in data_directories:
        path = directory / DIRECTORY
        if not disk.exists(path):
            continue
        try:
            found |= read_topics(_values(disk, path))
        except (OSError, TidelogError) as error:
            _log.warning("cannot read Kafka's metadata", path=str(path), error=str(error))
    return found


def settings_to_adopt(topic: KafkaTopic | None) -> tuple[dict[str, str], list[str]]:
    """Return the settings with which a topic of a Kafka directory is taken over, and what is lost.

    What Kafka's brokers had in their own configuration files is not known. So retention that the
    topic does not state itself is off: nothing is deleted before somebody says so.

    Returns:
        The settings, and a sentence for each that cannot be taken over.
    """
    if topic is None:
        return checked_settings(KEEP_ALL), []
    known: dict[str, str] = {}
    lost: list[str] = []
    for name, value in (KEEP_ALL | topic.settings).items():
        if name not in SETTINGS:
            lost.append(f"{name}={value}: Tidelog has no such setting")
            continue
        try:
            known |= checked_settings({name: value})
        except InvalidConfigError as error:
            lost.append(f"{name}={value}: {error}")
    return known, lost


def _values(disk: Disk, directory: Path) -> Iterator[bytes]:
    """Yield the values of the newest snapshot, then those of the log behind it."""
    names = disk.list_directory(directory)
    start = 0
    if snapshots := sorted(name for name in names if _CHECKPOINT.fullmatch(name)):
        start = int(snapshots[-1].partition("-")[0])
        yield from (value for _, value in _records(disk, directory / snapshots[-1]))
    logs = sorted(
        parsed.base_offset
        for name in names
        if (parsed := parse_file_name(name)) is not None and parsed[1:] == (LOG_SUFFIX, "")
    )
    for base_offset in logs:
        path = directory / f"{base_offset:020d}{LOG_SUFFIX}"
        yield from (value for offset, value in _records(disk, path) if offset >= start)


def _records(disk: Disk, path: Path) -> Iterator[tuple[int, bytes]]:
    size = disk.file_size(path)
    if size > METADATA_BYTES_MAX:
        raise OSError(f"{path} has {size} bytes")
    file = disk.open(path)
    try:
        data = file.read(size, 0)
    finally:
        file.close()
    try:
        for position, header in iterate_batches(data):
            check_batch(data, position)
            if not header.is_control:
                for record in iterate_records(data, position):
                    if record.value is not None:
                        yield record.offset, record.value
    except BatchTruncatedError:
        return  # the torn tail of a controller that was killed: never committed
