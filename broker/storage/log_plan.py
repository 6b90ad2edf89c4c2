"""LogPlan: what has to be loaded of a data directory, log by log, and what recovery says of each.

Plain values both, so that a log may be recovered in another process than the one that serves it:
all that recovery does is in the files afterwards, synced; `RecoveredFacts` are what would have to
be read again to know them.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from broker.storage.damage import Damage
from broker.storage.disk import Disk, storage_errors
from broker.storage.log_config import LogConfig
from broker.storage.recovery import Hints
from protocol.identifiers import TopicPartition
from protocol.limits import INT64_MAX
from protocol.stored.file_names import LOG_SUFFIX, parse_file_name


class LogPlan(NamedTuple):
    """One log that is to be loaded."""

    directory: Path
    topic_partition: TopicPartition
    topic_id: UUID
    config: LogConfig
    hints: Hints
    tail_bytes: int
    """What recovery will have to read of it, about; 0 after a clean stop."""


class RecoveredFacts(NamedTuple):
    """What a recovery has made of a log."""

    segment_sizes: dict[int, int]
    """The size of each `.log` by its base offset; the largest is the active segment's."""
    log_end_offset: int
    damage: tuple[Damage, ...]
    checked_bytes: int
    cut_bytes: int
    checked_segments: tuple[int, ...]
    """Base offsets of those of which every byte was looked at."""
    kept_segments: tuple[int, ...] = ()
    """Base offsets of those whose wounds are all in durable reports."""


def log_sizes(disk: Disk, directory: Path) -> dict[int, int]:
    """Return the size of each `.log` of a partition's directory by base offset, oldest first.

    Raises:
        StorageError: the directory cannot be read.
    """
    with storage_errors("read", directory):
        sizes = disk.file_sizes(directory)
    found = (
        (parsed.base_offset, size)
        for name, size in sizes.items()
        if name.endswith(LOG_SUFFIX) and (parsed := parse_file_name(name)) is not None
    )
    return dict(sorted(found))


def tail_bytes(sizes: dict[int, int], hints: Hints) -> int:
    """Return the bytes of all segments that reach beyond the recovery point."""
    if hints.is_clean:
        return 0
    ends = [*sizes, INT64_MAX][1:]
    return sum(
        size for size, end in zip(sizes.values(), ends, strict=True) if end > hints.check_from
    )
