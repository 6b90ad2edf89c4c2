"""KafkaSettings: what Kafka's tools are told of topic settings beside their values.

Types, defaults and the names of brokers' defaults are those of Apache Kafka 4.3's `LogConfig`. What
a setting with a field of our `LogConfig` is by default, the configuration's table [topics] says;
one without (see `topic_settings`) is kept, without effect. docs/kafka-settings.md is made of this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from broker.storage.log_config import LogConfig
from broker.topic_settings import SETTINGS, value_text


class ConfigType(IntEnum):
    """Types of values, by Kafka's numbers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """Where a value comes from, by Kafka's numbers."""

    TOPIC = 1
    STATIC_BROKER = 4
    """The broker's configuration."""
    DEFAULT = 5


class KafkaSetting(NamedTuple):
    """One topic setting."""

    name: str
    type: ConfigType
    broker_name: str
    """What its default is called in a broker's configuration; empty: it has none."""
    documentation: str
    default: str | None = None
    """Of one without effect; None with an effect, or where Kafka 4 does not know it any more."""

    @property
    def has_effect(self) -> bool:
        return SETTINGS[self.name].field is not None

    @property
    def is_listed(self) -> bool:
        """Whether it is described also where nobody has set it."""
        return self.has_effect or self.default is not None


_T = ConfigType
_TABLE: Final = (
    KafkaSetting(
        "cleanup.policy", _T.LIST, "log.cleanup.policy",
        "What happens to old records: delete, compact, or both; empty: they stay, whatever "
        "retention says.",
    ),
    KafkaSetting(
        "compression.gzip.level", _T.INT, "compression.gzip.level",
        "The level of gzip; batches that the broker compresses have its default.", "-1",
    ),
    KafkaSetting(
        "compression.lz4.level", _T.INT, "compression.lz4.level",
        "The level of lz4; batches that the broker compresses have its default.", "9",
    ),
    KafkaSetting(
        "compression.type", _T.STRING, "compression.type",
        "How batches that the broker itself builds (of formats 0 and 1) are compressed; producer: "
        "as they came. Unlike in Kafka, a Kafka client's batches are kept as it compressed them.",
    ),
    KafkaSetting(
        "compression.zstd.level", _T.INT, "compression.zstd.level",
        "The level of zstd; batches that the broker compresses have its default.", "3",
    ),
    KafkaSetting(
        "delete.retention.ms", _T.LONG, "log.cleaner.delete.retention.ms",
        "How long compaction keeps tombstones.",
    ),
    KafkaSetting(
        "file.delete.delay.ms", _T.LONG, "log.segment.delete.delay.ms",
        "How long the files of a deleted segment stay.",
    ),
    KafkaSetting(
        "flush.messages", _T.LONG, "log.flush.interval.messages",
        "Flush policy interval: sync after so many messages of a partition.",
    ),
    KafkaSetting(
        "flush.ms", _T.LONG, "log.flush.interval.ms",
        "Flush policy interval: sync so long after the first unsynced message.",
    ),
    KafkaSetting(
        "flush.policy", _T.STRING, "",
        "Tidelog's own. commit: nothing is acknowledged (acks=all) or shown before it is on the "
        "disk; interval: synced after flush.messages or flush.ms; os: when the system likes.",
    ),
    KafkaSetting(
        "follower.replication.throttled.replicas", _T.LIST, "",
        "Replicas whose replication is throttled; there is none on one broker.", "",
    ),
    KafkaSetting(
        "index.interval.bytes", _T.INT, "log.index.interval.bytes",
        "Bytes of log for one index entry.",
    ),
    KafkaSetting(
        "internal.segment.bytes", _T.INT, "",
        "Kafka's own tests use it; where it is set, it stands for segment.bytes.",
    ),
    KafkaSetting(
        "leader.replication.throttled.replicas", _T.LIST, "",
        "Replicas whose replication is throttled; there is none on one broker.", "",
    ),
    KafkaSetting(
        "local.retention.bytes", _T.LONG, "log.local.retention.bytes",
        "What is kept on the local disk of a topic in remote storage, which there is not.", "-2",
    ),
    KafkaSetting(
        "local.retention.ms", _T.LONG, "log.local.retention.ms",
        "How long a topic in remote storage, which there is not, is kept on the local disk.", "-2",
    ),
    KafkaSetting(
        "max.compaction.lag.ms", _T.LONG, "log.cleaner.max.compaction.lag.ms",
        "The longest a record may stay uncompacted.",
    ),
    KafkaSetting(
        "max.message.bytes", _T.INT, "message.max.bytes", "The largest batch that is taken.",
    ),
    KafkaSetting(
        "message.downconversion.enable", _T.BOOLEAN, "",
        "Not known to Kafka since 4.0; older readers are always converted for.",
    ),
    KafkaSetting(
        "message.format.version", _T.STRING, "",
        "Not known to Kafka since 4.0; new data is always written as v2.",
    ),
    KafkaSetting(
        "message.timestamp.after.max.ms", _T.LONG, "log.message.timestamp.after.max.ms",
        "How far a record's timestamp may lie after the broker's clock.",
    ),
    KafkaSetting(
        "message.timestamp.before.max.ms", _T.LONG, "log.message.timestamp.before.max.ms",
        "How far a record's timestamp may lie before the broker's clock.",
    ),
    KafkaSetting(
        "message.timestamp.difference.max.ms", _T.LONG, "",
        "Not known to Kafka since 4.0; where message.timestamp.after.max.ms or "
        "message.timestamp.before.max.ms is not set, it stands for that.",
    ),
    KafkaSetting(
        "message.timestamp.type", _T.STRING, "log.message.timestamp.type",
        "Whose clock a record's timestamp is: CreateTime or LogAppendTime.",
    ),
    KafkaSetting(
        "min.cleanable.dirty.ratio", _T.DOUBLE, "log.cleaner.min.cleanable.ratio",
        "The share of not yet compacted bytes from which a log is compacted.",
    ),
    KafkaSetting(
        "min.compaction.lag.ms", _T.LONG, "log.cleaner.min.compaction.lag.ms",
        "The shortest time a record stays uncompacted.",
    ),
    KafkaSetting(
        "min.insync.replicas", _T.INT, "min.insync.replicas",
        "Replicas that must have a batch; there is one, so acks=all never asks for more.", "1",
    ),
    KafkaSetting(
        "preallocate", _T.BOOLEAN, "log.preallocate",
        "Whether a new segment file is given its full size at once; here it grows.", "false",
    ),
    KafkaSetting(
        "remote.log.copy.disable", _T.BOOLEAN, "", "There is no remote storage.", "false",
    ),
    KafkaSetting(
        "remote.log.delete.on.disable", _T.BOOLEAN, "", "There is no remote storage.", "false",
    ),
    KafkaSetting(
        "remote.storage.enable", _T.BOOLEAN, "",
        "There is no remote storage: true is refused.", "false",
    ),
    KafkaSetting(
        "retention.bytes", _T.LONG, "log.retention.bytes",
        "So many bytes of each partition are kept; -1 keeps everything.",
    ),
    KafkaSetting(
        "retention.ms", _T.LONG, "log.retention.ms",
        "Segments whose newest record is older are deleted; -1 keeps everything.",
    ),
    KafkaSetting(
        "segment.bytes", _T.INT, "log.segment.bytes",
        "A new segment file is begun before one would pass this.",
    ),
    KafkaSetting(
        "segment.index.bytes", _T.INT, "log.index.size.max.bytes",
        "The size of an index file; a full index begins a new segment.",
    ),
    KafkaSetting(
        "segment.jitter.ms", _T.LONG, "log.roll.jitter.ms",
        "At most this is taken off segment.ms, at random.",
    ),
    KafkaSetting(
        "segment.ms", _T.LONG, "log.roll.ms",
        "A new segment file is begun when the first record of the current one is older.",
    ),
    KafkaSetting(
        "unclean.leader.election.enable", _T.BOOLEAN, "unclean.leader.election.enable",
        "Whether a replica that lags may lead; there is one replica.", "false",
    ),
    KafkaSetting(
        "validate.records", _T.BOOLEAN, "",
        "Tidelog's own: decode every record of every batch before it is appended.",
    ),
)  # fmt: skip

KAFKA_SETTINGS: Final = {setting.name: setting for setting in _TABLE}
"""Every topic setting, by name."""
assert set(KAFKA_SETTINGS) == set(SETTINGS), "a setting is not described"

BUILT_IN: Final = LogConfig()


class ConfigEntry(NamedTuple):
    """One setting of a topic as it is in effect."""

    setting: KafkaSetting
    value: str
    source: ConfigSource
    synonyms: list[tuple[str, str, ConfigSource]]
    """Name, value and source of all that is said of it, what counts most first."""


def topic_entries(
    settings: Mapping[str, str], config: LogConfig, defaults: LogConfig
) -> Iterator[ConfigEntry]:
    """Yield the settings of a topic, by name.

    Args:
        settings: What was set for this topic, by canonical names.
        config: What is in effect.
        defaults: What is where nothing was set.
    """
    for name, setting in KAFKA_SETTINGS.items():
        if setting.is_listed or name in settings:
            yield _entry(setting, settings.get(name), config, defaults)


def _entry(
    setting: KafkaSetting, own: str | None, config: LogConfig, defaults: LogConfig
) -> ConfigEntry:
    field = SETTINGS[setting.name].field
    said: list[tuple[str, str, ConfigSource]] = []
    if field is None:
        value, default = own, setting.default
    else:
        value, default = (value_text(getattr(each, field)) for each in (config, defaults))
    if value is not None and (own is not None or value != default):
        said.append((setting.name, value, ConfigSource.TOPIC))
    name = setting.broker_name or setting.name
    if field is not None and getattr(defaults, field) != getattr(BUILT_IN, field):
        said.append((name, default or "", ConfigSource.STATIC_BROKER))
        default = value_text(getattr(BUILT_IN, field))
    if default is not None:
        said.append((name, default, ConfigSource.DEFAULT))
    return ConfigEntry(setting, said[0][1], said[0][2], said)
