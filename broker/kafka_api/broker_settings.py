"""BrokerSettings: the broker's configuration under Kafka's names, for who describes it.

Keys of ours that have a counterpart in Kafka's `server.properties`, and the defaults of topics. All
of it is read-only here: it is set in the configuration (docs/configuration.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.config import Config
from broker.kafka_api.cluster import PARTITIONS_PER_PAGE_MAX
from broker.kafka_settings import (
    BUILT_IN,
    KAFKA_SETTINGS,
    ConfigEntry,
    ConfigSource,
    ConfigType,
    KafkaSetting,
)
from broker.topic_settings import SETTINGS, value_text

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi

_T: Final = ConfigType


class BrokerKey(NamedTuple):
    """A name of Kafka's, and which key of ours it is."""

    name: str
    type: ConfigType
    path: str
    """table.key of ours."""


BROKER_KEYS: Final = (
    BrokerKey("auto.create.topics.enable", _T.BOOLEAN, "topics.auto_create"),
    BrokerKey("broker.id", _T.INT, "daemon.node_id"),
    BrokerKey("connections.max.idle.ms", _T.LONG, "limits.idle_timeout_ms"),
    BrokerKey("fetch.max.bytes", _T.INT, "limits.fetch_response_bytes_max"),
    BrokerKey("group.initial.rebalance.delay.ms", _T.INT, "groups.initial_rebalance_delay_ms"),
    BrokerKey("group.max.session.timeout.ms", _T.INT, "groups.max_session_timeout_ms"),
    BrokerKey("group.max.size", _T.INT, "groups.group_max_size"),
    BrokerKey("group.min.session.timeout.ms", _T.INT, "groups.min_session_timeout_ms"),
    BrokerKey("log.cleaner.backoff.ms", _T.LONG, "cleaner.backoff_ms"),
    BrokerKey("log.cleaner.dedupe.buffer.size", _T.LONG, "cleaner.dedupe_buffer_bytes"),
    BrokerKey("log.cleaner.enable", _T.BOOLEAN, "cleaner.enabled"),
    BrokerKey("log.cleaner.io.max.bytes.per.second", _T.DOUBLE, "cleaner.io_bytes_per_second"),
    BrokerKey("log.dirs", _T.LIST, "storage.data_dirs"),
    BrokerKey("log.retention.check.interval.ms", _T.LONG, "storage.retention_check_ms"),
    BrokerKey("max.connections", _T.INT, "limits.connections_max"),
    BrokerKey("max.connections.per.ip", _T.INT, "limits.connections_per_address_max"),
    BrokerKey("node.id", _T.INT, "daemon.node_id"),
    BrokerKey("num.partitions", _T.INT, "topics.default_partitions"),
    BrokerKey("offset.metadata.max.bytes", _T.INT, "groups.offset_metadata_max_bytes"),
    BrokerKey("offsets.commit.timeout.ms", _T.INT, "groups.offsets_commit_timeout_ms"),
    BrokerKey(
        "offsets.retention.check.interval.ms", _T.LONG, "groups.offsets_retention_check_interval_ms"
    ),
    BrokerKey("offsets.topic.num.partitions", _T.INT, "groups.offsets_topic_partitions"),
    BrokerKey("offsets.topic.segment.bytes", _T.INT, "groups.offsets_topic_segment_bytes"),
    BrokerKey("producer.id.expiration.ms", _T.INT, "storage.producer_id_expiration_ms"),
    BrokerKey("socket.request.max.bytes", _T.INT, "limits.frame_bytes_max"),
)
"""Without the defaults of topics, whose names `kafka_settings` knows."""

FIXED: Final = (
    ("default.replication.factor", _T.INT, "1", "There is one broker."),
    ("delete.topic.enable", _T.BOOLEAN, "true", "Topics can always be deleted."),
    (
        "max.request.partition.size.limit", _T.INT, str(PARTITIONS_PER_PAGE_MAX),
        "Partitions in one answer to DescribeTopicPartitions.",
    ),
)  # fmt: skip
"""What Kafka lets one set, and what is as it is here: name, type, value, documentation."""

_DEFAULTS: Final = Config()


def broker_entries(server: KafkaApi) -> Iterator[ConfigEntry]:
    """Yield the broker's settings by name."""
    yield from sorted(_entries(server), key=lambda entry: entry.setting.name)


def _entries(server: KafkaApi) -> Iterator[ConfigEntry]:
    host, port = server.advertised
    address = f"PLAINTEXT://{f'[{host}]' if ':' in host else host}:{port}"
    text = "What clients are told to connect to."
    yield _entry(KafkaSetting("advertised.listeners", _T.LIST, "", text), address, None)
    for name, kind, value, text in FIXED:
        yield _entry(KafkaSetting(name, kind, "", text), value, value)
    for key in BROKER_KEYS:
        setting = KafkaSetting(key.name, key.type, "", f"Set as {key.path}.")
        value, default = (_value(config, key.path) for config in (server.config, _DEFAULTS))
        if key.path.startswith("topics."):  # may have been reloaded
            value = _text(getattr(server.manager.topics_config, key.path.partition(".")[2]))
        yield _entry(setting, value, default)
    yield from _topic_defaults(server)


def _topic_defaults(server: KafkaApi) -> Iterator[ConfigEntry]:
    for setting in KAFKA_SETTINGS.values():
        if not setting.broker_name:
            continue
        named = setting._replace(name=setting.broker_name)
        field = SETTINGS[setting.name].field
        if field is None:
            yield _entry(named, setting.default or "", setting.default)
        else:
            value, default = (
                getattr(each, field) for each in (server.manager.store.defaults, BUILT_IN)
            )
            yield _entry(named, value_text(value), value_text(default))


def _entry(setting: KafkaSetting, value: str, default: str | None) -> ConfigEntry:
    said: list[tuple[str, str, ConfigSource]] = []
    if value != default:
        said.append((setting.name, value, ConfigSource.STATIC_BROKER))
    if default is not None:
        said.append((setting.name, default, ConfigSource.DEFAULT))
    return ConfigEntry(setting, value, said[0][2], said)


def _value(config: Config, path: str) -> str:
    table, _, name = path.partition(".")
    return _text(getattr(getattr(config, table), name))


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else value_text(value)
