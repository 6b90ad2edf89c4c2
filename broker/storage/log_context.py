"""LogContext: what all logs of one data directory share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from broker.clock import Clock
from broker.storage.disk import Disk
from broker.storage.file_handles import FileHandles
from broker.storage.index_cache import IndexCache
from broker.storage.log_config import LogConfig
from broker.storage.producer_room import ProducerRoom
from broker.storage.segment import LogSegment
from broker.storage.storage_options import StorageOptions

if TYPE_CHECKING:
    from broker.storage.log_trimmer import LogTrimmer
    from broker.storage.partition_log import PartitionLog


class LogContext:
    """Disk, clock, caches and options; owned by the event loop."""

    __slots__ = (
        "bytes_since_checkpoint", "clock", "deleting", "disk", "handles", "index_cache",
        "is_checkpoint_due", "options", "pause", "producer_room", "refused_appends", "touched",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        options: StorageOptions,
        *,
        handles: FileHandles,
        index_cache: IndexCache,
        producer_room: ProducerRoom,
    ) -> None:
        self.disk = disk
        self.clock = clock
        self.options = options
        self.handles = handles
        self.index_cache = index_cache
        self.producer_room = producer_room
        self.pause = ""
        """Why no log of the directory takes appends just now; empty: they do. See `DiskGuard`.
        What makes room or must be saved goes on: rolls, retention, checkpoints, a clean stop."""
        self.refused_appends = 0
        """By that pause."""
        self.is_checkpoint_due = False
        """A log wants its offsets checkpointed before the next regular time: it rolled, was cut,
        or its start was moved."""
        self.touched: dict[PartitionLog, None] = {}
        """Logs whose checkpointed offsets may have changed since the last checkpoint."""
        self.bytes_since_checkpoint = 0
        """Flushed, in all logs; many of them make the next checkpoint due too."""
        self.deleting: dict[LogTrimmer, None] = {}
        """Of the logs with deleted segments that are not gone for good: few of many, to be looked
        at some times a second."""

    @classmethod
    def with_caches(
        cls,
        disk: Disk,
        clock: Clock,
        options: StorageOptions,
        *,
        index_cache: IndexCache | None = None,
        producer_room: ProducerRoom | None = None,
        observe_flush_seconds: Callable[[float], None] | None = None,
    ) -> LogContext:
        """Make handles, and what is not given, of the sizes in the options."""
        handles = FileHandles(
            disk,
            options.open_files_max,
            pinned_files_max=options.pinned_files_max,
            mapped_files_max=options.mapped_files_max if options.map_files else 0,
            observe_flush_seconds=observe_flush_seconds,
            monotonic=clock.monotonic,
        )
        if index_cache is None:
            index_cache = IndexCache(options.index_cache_bytes)
        if producer_room is None:
            producer_room = ProducerRoom(options.producers_max)
        return cls(
            disk, clock, options,
            handles=handles, index_cache=index_cache, producer_room=producer_room,
        )  # fmt: skip

    def open_segment(
        self,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        *,
        create: bool = False,
        active: bool = False,
        sizes: Mapping[str, int] | None = None,
    ) -> LogSegment:
        """Open or make a segment of one of the logs; arguments and errors as `LogSegment.open`."""
        return LogSegment.open(
            self.handles, directory, base_offset, config, self.clock,
            create=create, active=active, index_cache=self.index_cache, sizes=sizes,
        )  # fmt: skip
