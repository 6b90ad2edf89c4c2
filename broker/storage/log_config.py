"""LogConfig: the settings of one topic's logs, under Kafka's names with underscores.

What a client or the TOML file calls `retention.ms` or `retention_ms` is the field `retention_ms`.
Defaults are Apache Kafka's (engine rules, "Defaults") but for `flush_policy`, which is ours.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from protocol.limits import INT64_MAX

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


class FlushPolicy(enum.StrEnum):
    """When bytes are forced to the disk, and so what a high watermark promises."""

    COMMIT = "commit"
    """The high watermark is the durable offset: nothing unsynced is acknowledged or shown."""
    INTERVAL = "interval"
    """Synced after `flush_messages` or `flush_ms`; a power cut may take what readers saw."""
    OS = "os"
    """The operating system decides; a power cut may take what readers saw."""


class CleanupPolicy(enum.StrEnum):
    """What happens to old records."""

    DELETE = "delete"
    COMPACT = "compact"
    COMPACT_DELETE = "compact,delete"
    DELETE_COMPACT = "delete,compact"
    """The same; whoever set it so compares what is described with what they have set."""
    NONE = ""
    """They stay, whatever retention says, as in Kafka 4.3; delete-records still works."""

    @property
    def deletes(self) -> bool:
        return "delete" in self

    @property
    def compacts(self) -> bool:
        return "compact" in self


class MessageTimestampType(enum.StrEnum):
    """Whose clock a record's timestamp is."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a partition log must know; immutable, replaced whole when a setting changes."""

    cleanup_policy: CleanupPolicy = CleanupPolicy.DELETE
    compression_type: str = "producer"
    """producer, uncompressed, gzip, snappy, lz4 or zstd; used where the broker builds batches."""
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_policy: FlushPolicy = FlushPolicy.COMMIT
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    index_interval_bytes: int = 4_096
    max_compaction_lag_ms: int = INT64_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = HOUR_MS
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_type: MessageTimestampType = MessageTimestampType.CREATE_TIME
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    retention_bytes: int = -1
    """Per partition; -1 keeps everything."""
    retention_ms: int = 7 * DAY_MS
    """-1 keeps everything."""
    segment_bytes: int = 1024 * 1024 * 1024
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * DAY_MS
    validate_records: bool = False
    """Decode every record of every batch before it is appended; else the header is checked."""

    @property
    def roll_ms(self) -> int:
        """After which a segment is rolled: where compacted, in time for `max_compaction_lag_ms`."""
        if not self.cleanup_policy.compacts:
            return self.segment_ms
        return min(self.segment_ms, self.max_compaction_lag_ms)
