"""DescribeConfigs and ListConfigResources, in all versions, error by error."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from broker.topic_registry import TopicEntry
from protocol.error_codes import ErrorCode
from protocol.kafka.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    ListConfigResourcesRequest,
)
from tests.support.kafka_broker import KafkaBroker

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
OF_TOPIC, STATIC, DEFAULT = 1, 4, 5
VERSIONS = range(1, 5)

# LogConfig of Apache Kafka 4.3: name, type and default of every topic setting that is not internal.
KAFKA_4_3 = """
cleanup.policy                            LIST     delete
compression.gzip.level                    INT      -1
compression.lz4.level                     INT      9
compression.type                          STRING   producer
compression.zstd.level                    INT      3
delete.retention.ms                       LONG     86400000
file.delete.delay.ms                      LONG     60000
flush.messages                            LONG     9223372036854775807
flush.ms                                  LONG     9223372036854775807
follower.replication.throttled.replicas   LIST
index.interval.bytes                      INT      4096
leader.replication.throttled.replicas     LIST
local.retention.bytes                     LONG     -2
local.retention.ms                        LONG     -2
max.compaction.lag.ms                     LONG     9223372036854775807
max.message.bytes                         INT      1048588
message.timestamp.after.max.ms            LONG     3600000
message.timestamp.before.max.ms           LONG     9223372036854775807
message.timestamp.type                    STRING   CreateTime
min.cleanable.dirty.ratio                 DOUBLE   0.5
min.compaction.lag.ms                     LONG     0
min.insync.replicas                       INT      1
preallocate                               BOOLEAN  false
remote.log.copy.disable                   BOOLEAN  false
remote.log.delete.on.disable              BOOLEAN  false
remote.storage.enable                     BOOLEAN  false
retention.bytes                           LONG     -1
retention.ms                              LONG     604800000
segment.bytes                             INT      1073741824
segment.index.bytes                       INT      10485760
segment.jitter.ms                         LONG     0
segment.ms                                LONG     604800000
unclean.leader.election.enable            BOOLEAN  false
"""
TYPES = {"BOOLEAN": 1, "STRING": 2, "INT": 3, "LONG": 5, "DOUBLE": 6, "LIST": 7}
OURS = {"flush.policy", "validate.records"}


def described(
    broker: KafkaBroker, kind: int, name: str, *keys: str, version: int = 4, **how: bool
) -> Any:
    resource = DescribeConfigsResource(kind, name, list(keys) or None)
    (result,) = broker.answer(DescribeConfigsRequest([resource], **how), version).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def configs_of(*where: Any, **how: Any) -> dict[str, Any]:
    result = described(*where, **how)
    assert (result.error_code, result.error_message) == (0, None)
    assert len({each.name for each in result.configs}) == len(result.configs)
    return {each.name: each for each in result.configs}


# --- topics ---------------------------------------------------------------------------------------


def test_given_a_topic_when_described_then_it_has_the_settings_types_and_defaults_of_kafka():
    with KafkaBroker(settings={"topics.segment_index_bytes": 10 * 1024 * 1024}) as broker:
        broker.create_topic("logs")

        configs = configs_of(broker, TOPIC, "logs")

        rows = [[*line.split(), ""][:3] for line in KAFKA_4_3.strip().splitlines()]
        assert configs.keys() == {name for name, _, _ in rows} | OURS
        for name, kind, default in rows:
            found = configs[name]
            assert (found.value, found.config_type) == (default, TYPES[kind]), name
            assert (found.config_source, found.read_only, found.is_sensitive) == (
                DEFAULT, False, False,
            )  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_given_settings_from_everywhere_when_described_then_each_says_where_it_is_from(
    version: int,
):
    reserved = {"topics.retention_ms": 77_000, "topics.segment_ms": 5_000}
    with KafkaBroker(settings=reserved) as broker:
        broker.create_topic("logs", settings={"retention.ms": "66000", "min.insync.replicas": "2"})

        configs = configs_of(broker, TOPIC, "logs", version=version, include_synonyms=True)

        def said(name: str) -> tuple[str, int, list[tuple[str, str, int]]]:
            found = configs[name]
            synonyms = [(each.name, each.value, each.source) for each in found.synonyms]
            return found.value, found.config_source, synonyms

        assert said("retention.ms") == (
            "66000",
            OF_TOPIC,
            [
                ("retention.ms", "66000", OF_TOPIC),
                ("log.retention.ms", "77000", STATIC),
                ("log.retention.ms", "604800000", DEFAULT),
            ],
        )
        assert said("segment.ms") == (
            "5000",
            STATIC,
            [("log.roll.ms", "5000", STATIC), ("log.roll.ms", "604800000", DEFAULT)],
        )
        assert said("preallocate") == ("false", DEFAULT, [("log.preallocate", "false", DEFAULT)])
        assert said("min.insync.replicas") == (
            "2",
            OF_TOPIC,
            [("min.insync.replicas", "2", OF_TOPIC), ("min.insync.replicas", "1", DEFAULT)],
        )


@pytest.mark.parametrize("version", VERSIONS)
def test_given_what_is_not_asked_for_when_described_then_it_is_not_told(version: int):
    with KafkaBroker() as broker:
        broker.create_topic("logs")

        plain = configs_of(broker, TOPIC, "logs", version=version)["retention.ms"]
        assert (plain.synonyms, plain.documentation) == ([], None if version >= 3 else "")
        if version >= 3:
            asked = {"include_documentation": True, "version": version}
            configs = configs_of(broker, TOPIC, "logs", **asked)
            assert all(each.documentation for each in configs.values())


@pytest.mark.parametrize("version", VERSIONS)
def test_given_keys_when_described_then_only_those_are(version: int):
    with KafkaBroker() as broker:
        broker.create_topic("logs")

        keys = ("retention.ms", "weather", "cleanup.policy")
        configs = configs_of(broker, TOPIC, "logs", *keys, version=version)
        everything = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "logs", [])])

        assert list(configs) == ["cleanup.policy", "retention.ms"]
        assert len(broker.answer(everything, version).results[0].configs) > 30


def test_given_settings_that_kafka_forgot_when_described_then_they_are_shown_where_set():
    """message.timestamp.difference.max.ms stands for the two that came after it."""
    with KafkaBroker() as broker:
        old = {
            "message.timestamp.difference.max.ms": "5000",
            "message.format.version": "2.8",
            "message.timestamp.after.max.ms": "7",
        }
        broker.create_topic("logs", settings=old)

        configs = configs_of(broker, TOPIC, "logs", include_synonyms=True)

        found = {name: (configs[name].value, configs[name].config_source) for name in old}
        assert found == {name: (value, OF_TOPIC) for name, value in old.items()}
        before = configs["message.timestamp.before.max.ms"]
        assert (before.value, before.config_source) == ("5000", OF_TOPIC)
        assert len(configs["message.format.version"].synonyms) == 1


def test_given_an_internal_topic_when_described_then_its_settings_are_told():
    with KafkaBroker() as broker:
        broker.loop.run(broker.manager.ensure_topic("__consumer_offsets"))

        assert configs_of(broker, TOPIC, "__consumer_offsets")["cleanup.policy"].value == "delete"


# --- the broker -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_given_the_broker_when_described_then_kafkas_names_say_what_we_are_set_to(version: int):
    settings = {
        "daemon.node_id": 7,
        "topics.default_partitions": 6,
        "topics.retention_ms": 77_000,
        "limits.frame_bytes_max": 50_000_000,
    }
    with KafkaBroker(settings=settings) as broker:
        configs = configs_of(broker, BROKER, "7", version=version, include_synonyms=True)

        def said(name: str) -> tuple[str, int]:
            return configs[name].value, configs[name].config_source

        assert said("node.id") == said("broker.id") == ("7", STATIC)
        assert said("num.partitions") == ("6", STATIC)
        assert said("log.retention.ms") == ("77000", STATIC)
        assert said("socket.request.max.bytes") == ("50000000", STATIC)
        assert said("auto.create.topics.enable") == ("true", DEFAULT)
        assert said("log.roll.ms") == ("604800000", DEFAULT)
        assert said("default.replication.factor") == ("1", DEFAULT)
        assert said("log.dirs") == ("/data", STATIC)
        assert said("advertised.listeners") == ("PLAINTEXT://broker.test:19092", STATIC)
        assert said("min.insync.replicas") == ("1", DEFAULT)
        assert all(each.read_only and not each.is_sensitive for each in configs.values())
        assert list(configs) == sorted(configs)
        synonyms = [(s.name, s.value, s.source) for s in configs["num.partitions"].synonyms]
        assert synonyms == [("num.partitions", "6", STATIC), ("num.partitions", "1", DEFAULT)]


def test_given_the_default_of_all_brokers_when_described_then_nothing_is_set_there():
    with KafkaBroker() as broker:
        assert configs_of(broker, BROKER, "") == {}


# --- what has none --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "m", ErrorCode.INVALID_REQUEST),
        (GROUP, "g", ErrorCode.INVALID_REQUEST),
        (1, "x", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_given_what_has_no_settings_when_described_then_it_says_so(
    version: int, kind: int, name: str, error: ErrorCode
):
    with KafkaBroker() as broker:
        result = described(broker, kind, name, version=version)

        assert (result.error_code, result.configs) == (error, [])
        assert result.error_message
        assert broker.kafka_errors("describe_configs") == {error: 1}


def test_given_more_than_fits_an_answer_when_described_then_the_rest_is_refused():
    with KafkaBroker(settings={"limits.fetch_response_bytes_max": 5_000}) as broker:
        broker.create_topic("logs")
        resources = [DescribeConfigsResource(TOPIC, "logs", None)] * 12

        sent = broker.ask(DescribeConfigsRequest(resources, include_documentation=True))

        found = [each.error_code for each in sent.response.results]
        assert found == [0] + [ErrorCode.INVALID_REQUEST] * 11
        assert len(sent.frame) <= 5_000 + 12 * 100


def test_given_many_topics_when_described_then_other_requests_go_in_between():
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "logs", None)] * 12)

        sent = broker.ask(request, settle=False)

        assert sent.is_waiting
        broker.loop.settle()
        assert [each.error_code for each in sent.response.results] == [0] * 12


# --- ListConfigResources --------------------------------------------------------------------------


def listed(broker: KafkaBroker, *kinds: int) -> list[tuple[str, int]]:
    answer = broker.answer(ListConfigResourcesRequest(list(kinds)), 1)
    assert answer.error_code == 0
    return [(each.resource_name, each.resource_type) for each in answer.config_resources]


def test_given_topics_when_resources_are_listed_then_they_and_the_broker_are_there():
    with KafkaBroker() as broker:
        broker.create_topic("b")
        broker.create_topic("a")
        topics = [("a", TOPIC), ("b", TOPIC)]

        assert listed(broker) == [*topics, ("1", BROKER)]
        assert listed(broker, TOPIC) == topics
        assert listed(broker, GROUP, BROKER) == [("1", BROKER)]
        assert listed(broker, CLIENT_METRICS) == listed(broker, BROKER_LOGGER) == []


def test_given_very_many_topics_when_resources_are_listed_then_others_go_in_between():
    with KafkaBroker() as broker:
        entry = TopicEntry("logs", uuid4(), 1)
        broker.manager.store.entries.update(dict.fromkeys(map(str, range(1_001)), entry))

        sent = broker.ask(ListConfigResourcesRequest([TOPIC]), settle=False)

        assert sent.is_waiting
        broker.loop.settle()
        assert len(sent.response.config_resources) == 1_001
        broker.manager.store.entries.clear()


def test_given_version_0_when_resources_are_listed_then_it_means_client_metrics():
    with KafkaBroker() as broker:
        broker.create_topic("a")

        assert broker.answer(ListConfigResourcesRequest(), 0).config_resources == []


def test_given_an_unknown_kind_when_resources_are_listed_then_it_is_not_supported():
    with KafkaBroker() as broker:
        answer = broker.answer(ListConfigResourcesRequest([TOPIC, 3]), 1)

        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert answer.config_resources == []
