"""TopicsConfig: table [topics]: how topics come to be, and what they are unless told otherwise.

Below the first keys stand the fields of `LogConfig`, one for one (a test holds that), with their
bounds and their meaning; defaults are taken from there.
"""

# No `from __future__ import annotations` here: each field's type is looked at when the daemon
# starts, and texts would have to be compiled and evaluated for that, one by one.

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from broker.config_units import count, duration, size, text
from broker.storage.log_config import (
    CleanupPolicy,
    FlushPolicy,
    LogConfig,
    MessageTimestampType,
)
from protocol.limits import INT32_MAX, PARTITIONS_PER_TOPIC_MAX

_LOG: Final = LogConfig()


class TopicsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How topics are made, and the settings of a topic that does not set its own.
    Names are Apache Kafka's topic settings with underscores."""

    auto_create: bool = True
    """Whether producing to an unknown topic creates it."""
    default_partitions: Annotated[int, count(ge=1, le=PARTITIONS_PER_TOPIC_MAX)] = 1
    """Partitions of a topic that is created without a number."""

    cleanup_policy: CleanupPolicy = _LOG.cleanup_policy
    """What happens to old records; empty: they stay, whatever retention says."""
    compression_type: Annotated[
        str, text("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
    ] = _LOG.compression_type
    """How batches that the broker itself builds are compressed; producer: as they came."""
    delete_retention_ms: Annotated[int, duration(ge=0)] = _LOG.delete_retention_ms
    """How long compaction keeps tombstones."""
    file_delete_delay_ms: Annotated[int, duration(ge=0)] = _LOG.file_delete_delay_ms
    """How long the files of a deleted segment stay, so that reads under way can end."""
    flush_policy: FlushPolicy = _LOG.flush_policy
    """commit: nothing is acknowledged (acks=all) or shown before it is on the disk.
    interval: synced after flush_messages or flush_ms. os: synced when the operating system likes.
    With the last two, a power cut may take what was acknowledged and read."""
    flush_messages: Annotated[int, count(ge=1)] = _LOG.flush_messages
    """Policy interval: sync after this many messages of a partition."""
    flush_ms: Annotated[int, duration(ge=0)] = _LOG.flush_ms
    """Policy interval: sync this long after the first unsynced message of a partition."""
    index_interval_bytes: Annotated[int, size(ge=0, le=INT32_MAX)] = _LOG.index_interval_bytes
    """Bytes of log for one index entry."""
    max_compaction_lag_ms: Annotated[int, duration(ge=1)] = _LOG.max_compaction_lag_ms
    """The longest a record may stay uncompacted."""
    max_message_bytes: Annotated[int, size(ge=0, le=INT32_MAX)] = _LOG.max_message_bytes
    """The largest batch (in formats 0 and 1: the largest message) that is taken."""
    message_timestamp_after_max_ms: Annotated[int, duration(ge=0)] = (
        _LOG.message_timestamp_after_max_ms
    )
    """How far a record's timestamp may lie after the broker's clock."""
    message_timestamp_before_max_ms: Annotated[int, duration(ge=0)] = (
        _LOG.message_timestamp_before_max_ms
    )
    """How far a record's timestamp may lie before the broker's clock."""
    message_timestamp_type: MessageTimestampType = _LOG.message_timestamp_type
    """Whose clock a record's timestamp is: the producer's, or the broker's at the append."""
    min_cleanable_dirty_ratio: Annotated[float, Meta(ge=0, le=1)] = _LOG.min_cleanable_dirty_ratio
    """The share of not yet compacted bytes from which a log is compacted."""
    min_compaction_lag_ms: Annotated[int, duration(ge=0)] = _LOG.min_compaction_lag_ms
    """The shortest time a record stays uncompacted."""
    retention_bytes: Annotated[int, size(ge=-1)] = _LOG.retention_bytes
    """Of each partition this many bytes are kept, and the oldest segments beyond them deleted;
    -1 keeps everything."""
    retention_ms: Annotated[int, duration(ge=-1)] = _LOG.retention_ms
    """Segments whose newest record is older are deleted; -1 keeps everything."""
    segment_bytes: Annotated[int, size(ge=14, le=INT32_MAX)] = _LOG.segment_bytes
    """A new segment file is begun before one would pass this."""
    segment_index_bytes: Annotated[int, size(ge=12, le=INT32_MAX)] = _LOG.segment_index_bytes
    """The size of an index file, preallocated sparsely; a full index begins a new segment."""
    segment_jitter_ms: Annotated[int, duration(ge=0)] = _LOG.segment_jitter_ms
    """At most this is taken off segment_ms, at random, so that logs do not all roll at once."""
    segment_ms: Annotated[int, duration(ge=1)] = _LOG.segment_ms
    """A new segment file is begun when the first record of the current one is older."""
    validate_records: bool = _LOG.validate_records
    """Decode every record of every batch before it is appended; else its header and CRC are
    checked."""

    def log_config(self) -> LogConfig:
        """Return what a log needs to know of these settings."""
        values = msgspec.structs.asdict(self)
        return LogConfig(**{name: values[name] for name in LogConfig.__struct_fields__})
