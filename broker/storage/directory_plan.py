"""DirectoryPlan: what a data directory holds and says of its logs, before one is loaded.

The clean marker is taken away here, durably: a crash from now on is an unclean stop.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import structlog

from broker.storage.checkpoint import read_offset_checkpoint
from broker.storage.durable_offsets import log_start_key, read_durable_offsets
from broker.storage.log_loader import read_topic_id
from broker.storage.log_plan import LogPlan, log_sizes, tail_bytes
from broker.storage.recovery import Hints
from protocol.errors import StorageError
from protocol.identifiers import TopicPartition
from protocol.stored.file_names import (
    CLEAN_SHUTDOWN_MARKER,
    CLEANER_CHECKPOINT,
    DURABLE_OFFSETS,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    DirectoryState,
    parse_directory_name,
)

if TYPE_CHECKING:
    from broker.storage.checkpoint import Checkpoints
    from broker.storage.disk import Disk
    from broker.storage.log_config import LogConfig
    from broker.storage.log_context import LogContext

_log = structlog.get_logger(__name__)

KRAFT_METADATA_TOPIC = "__cluster_metadata"
"""Of Kafka's controllers: no topic of a broker, left alone."""


class DirectoryPlan(NamedTuple):
    """What was found."""

    is_clean: bool
    """The broker before stopped in order."""
    logs: dict[TopicPartition, LogPlan]
    unavailable: dict[TopicPartition, str]
    """Partitions whose files the disk does not give, and why."""
    known_durable: dict[tuple[UUID, int], int]
    doomed: list[Path]
    """Directories of deleted partitions, to be unlinked."""


def plan_directory(
    context: LogContext,
    path: Path,
    checkpoints: Checkpoints,
    config_of: Callable[[str], LogConfig],
    topic_id_of: Callable[[str], UUID],
) -> DirectoryPlan:
    """Look at a data directory that this process has locked; see `LogDirectory.open`.

    Raises:
        OSError: the disk refused.
    """
    disk = context.disk
    is_clean = _take_marker(disk, path)
    recovery_points = checkpoints.read(RECOVERY_POINT_CHECKPOINT)
    log_starts = checkpoints.read(LOG_START_CHECKPOINT)
    cleaned = read_offset_checkpoint(disk, path / CLEANER_CHECKPOINT)
    known_durable = read_durable_offsets(disk, path / DURABLE_OFFSETS)
    plan = DirectoryPlan(is_clean, {}, {}, known_durable, [])
    for name in disk.list_directory(path):
        topic_partition = _partition_of(disk, path / name, plan.doomed)
        if topic_partition is None:
            continue
        topic, partition = topic_partition
        try:
            topic_id = read_topic_id(context, path / name, topic, topic_id_of)
            recovery_point = recovery_points.get(topic_partition)
            durable_offset = known_durable.get((topic_id, partition))
            spare = known_durable.get(log_start_key(topic_id, partition))
            log_start = _log_start(
                name, log_starts.get(topic_partition, 0), spare, durable_offset, recovery_point
            )
            cleaned_offset = cleaned.get(topic_partition, 0)
            hints = Hints(is_clean, recovery_point, log_start, durable_offset, cleaned_offset)
            tail = 0 if is_clean else tail_bytes(log_sizes(disk, path / name), hints)
        except StorageError as error:
            _log.error("partition not available", partition=name, error=str(error))
            plan.unavailable[topic_partition] = str(error)
            continue
        plan.logs[topic_partition] = LogPlan(
            path / name, topic_partition, topic_id, config_of(topic), hints, tail
        )
    return plan


def _log_start(
    name: str, checkpointed: int, spare: int | None, durable: int | None, recovery_point: int | None
) -> int:
    """Return the log start of a partition, as far as files beside it tell.

    Its checkpoint has no checksum; a slot of `durable-offsets` has one, and was durable before, as
    was a durable offset that is not below it. So the slot decides; without it, a checkpoint that
    says more than was ever durable is wrong. Where durable offsets are below the recovery point,
    somebody else wrote since (Kafka in place): they say less than is true, and decide nothing.
    """
    if durable is None or durable < (recovery_point or 0):
        return max(checkpointed, spare or 0)
    believed = spare if spare is not None else checkpointed if checkpointed <= durable else 0
    if believed < checkpointed:
        _log.warning(
            "a log start is not believed: its checksummed copy, or what is durable, says less",
            partition=name, checkpointed=checkpointed, believed=believed,
        )  # fmt: skip
    return believed


def _take_marker(disk: Disk, path: Path) -> bool:
    """Return whether the last stop was a clean one; from now on it will not have been."""
    marker = path / CLEAN_SHUTDOWN_MARKER
    if not disk.exists(marker):
        return False
    disk.unlink(marker)
    disk.sync_directory(path)
    return True


def _partition_of(disk: Disk, path: Path, doomed: list[Path]) -> TopicPartition | None:
    """Return the partition that a directory is of, if it is one to be loaded."""
    parsed = parse_directory_name(path.name)
    if parsed is None or not disk.is_directory(path):
        return None
    if parsed.state is DirectoryState.DELETE:
        doomed.append(path)
        return None
    if parsed.state is not DirectoryState.CURRENT:
        _log.warning("directory left alone", path=str(path), state=parsed.state)
        return None
    topic_partition = parsed.topic_partition
    return None if topic_partition.topic == KRAFT_METADATA_TOPIC else topic_partition
