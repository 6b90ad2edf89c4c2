"""StorageOptions: what the storage engine must know that is no topic's setting."""

from __future__ import annotations

import sys
from typing import Final

import msgspec

from broker.storage.file_handles import MAPPED_FILES_MAX, OPEN_FILES_MAX

MIB: Final = 1024 * 1024
PRODUCERS_MAX: Final = 10_000
PRODUCERS_IN_ALL_MAX: Final = 200_000


class StorageOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The same for every log of a broker; immutable."""

    open_files_max: int = OPEN_FILES_MAX
    """Files held open per data directory; those with unflushed bytes may exceed it."""
    pinned_files_max: int = sys.maxsize
    """Files with unflushed bytes held open per data directory; beyond it appends are refused."""
    mapped_files_max: int = MAPPED_FILES_MAX
    """Sealed segments mapped for sending, per data directory."""
    map_files: bool = True
    """False where mapped bytes would be copied anyway (plain asyncio joins them in Python)."""
    index_cache_bytes: int = 64 * MIB
    """Memory for the indexes of sealed segments, per data directory."""
    retention_check_ms: int = 300_000
    disk_reserve_bytes: int = 256 * MIB
    """Below so many free bytes a data directory takes no appends; see `disk_guard`. 0: no limit."""
    producer_id_expiration_ms: int = 86_400_000
    """A producer not heard from for so long is forgotten, unless it has a transaction open."""
    producers_per_partition_max: int = PRODUCERS_MAX
    """How many producers a log knows; beyond it those idle longest are forgotten."""
    producers_max: int = PRODUCERS_IN_ALL_MAX
    """How many producers all logs know together; see `producer_room`."""
    checkpoint_interval_ms: int = 1_000
    """How often recovery points are checkpointed and the durable offsets synced."""
    unflushed_bytes_max: int = 64 * MIB
    """With more than this unflushed a log is flushed under every policy, and with more than this
    flushed since the last checkpoint the next one is due: both bound recovery."""
    writeback_bytes: int = 8 * MIB
    """The kernel is asked to start writing each time this much was appended: bounds dirty pages."""
