"""AlterConfigs and IncrementalAlterConfigs, in all versions, error by error."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.storage.log_config import CleanupPolicy
from protocol.error_codes import ErrorCode
from protocol.errors import StorageError
from protocol.kafka.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.fake_disk import FakeDisk
from tests.support.kafka_broker import KafkaBroker

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

Changes = list[tuple[str, int, str | None]]
"""Setting, operation, value."""


def alteration(
    values: dict[str, str | None], name: str = "logs", kind: int = TOPIC
) -> AlterConfigsResource:
    return AlterConfigsResource(kind, name, [AlterableConfig(*each) for each in values.items()])


def alter(broker: KafkaBroker, *resources: AlterConfigsResource, version: int = 2) -> Any:
    return broker.answer(AlterConfigsRequest(list(resources)), version).responses


def increment(
    changes: Changes, name: str = "logs", kind: int = TOPIC
) -> IncrementalAlterConfigsAlterConfigsResource:
    return IncrementalAlterConfigsAlterConfigsResource(
        kind, name, [IncrementalAlterConfigsAlterableConfig(*each) for each in changes]
    )


def changed(broker: KafkaBroker, changes: Changes, version: int = 1) -> dict[str, str]:
    """What the topic's settings are after changes that must be possible."""
    request = IncrementalAlterConfigsRequest([increment(changes)])
    (result,) = broker.answer(request, version).responses
    assert (result.error_code, result.error_message) == (0, None)
    return dict(broker.manager.topic("logs").settings)


def refused(broker: KafkaBroker, changes: Changes) -> tuple[int, str]:
    before = broker.manager.topic("logs").settings
    for validate_only in (True, False):
        request = IncrementalAlterConfigsRequest([increment(changes)], validate_only)
        (result,) = broker.answer(request).responses
    assert broker.manager.topic("logs").settings == before
    return result.error_code, result.error_message


# --- AlterConfigs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_given_settings_when_altered_then_those_named_hold_and_the_others_are_gone(version: int):
    with KafkaBroker() as broker:
        broker.create_topic("logs", 2, {"segment.ms": "7", "retention.ms": "66000"})

        values: dict[str, str | None] = {"retention.ms": "5000", "cleanup.policy": "compact"}
        (result,) = alter(broker, alteration(values), version=version)

        assert (result.error_code, result.error_message) == (0, None)
        assert (result.resource_type, result.resource_name) == (TOPIC, "logs")
        assert broker.manager.topic("logs").settings == values
        assert broker.partition("logs", 1).log.config.retention_ms == 5_000


@pytest.mark.parametrize("version", range(3))
def test_given_a_change_when_only_validated_then_nothing_changes(version: int):
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        resources = [alteration({"retention.ms": "5000"})]

        request = AlterConfigsRequest(resources, validate_only=True)
        (result,) = broker.answer(request, version).responses

        assert result.error_code == 0
        assert broker.manager.topic("logs").settings == {}


def test_given_nothing_when_altered_then_all_is_back_to_the_defaults():
    with KafkaBroker() as broker:
        broker.create_topic("logs", 1, {"segment.ms": "7"})

        assert alter(broker, alteration({}))[0].error_code == 0
        assert broker.manager.topic("logs").settings == {}


@pytest.mark.parametrize("seed", range(3))
def test_given_a_change_when_answered_then_a_power_cut_does_not_take_it(tmp_path: Path, seed: int):
    disk, registry = FakeDisk(), tmp_path / "registry.sqlite"
    broker = KafkaBroker(disk=disk, registry=registry)
    broker.open()
    broker.create_topic("logs")
    assert alter(broker, alteration({"retention.ms": "5"}))[0].error_code == 0
    broker.kill()
    disk.crash(Random(seed))

    with KafkaBroker(disk=disk, registry=registry) as broker:
        assert broker.manager.topic("logs").settings == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("resource", "error", "reason"),
    [
        (alteration({"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG, "retention.ms must be"),
        (alteration({"retention.ms": ""}), ErrorCode.INVALID_CONFIG, "retention.ms must be"),
        (alteration({"weather": "fine"}), ErrorCode.INVALID_CONFIG, "weather"),
        (alteration({"retention.ms": None}), ErrorCode.INVALID_REQUEST, "no value"),
        (alteration({}, "none"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "none"),
        (alteration({}, "a b"), ErrorCode.INVALID_TOPIC, "a b"),
        (alteration({}, "__consumer_offsets"), ErrorCode.INVALID_TOPIC, "internal"),
        (alteration({}, "1", BROKER), ErrorCode.INVALID_REQUEST, "read-only"),
        (alteration({}, "", BROKER), ErrorCode.INVALID_REQUEST, "read-only"),
        (alteration({}, "1", BROKER_LOGGER), ErrorCode.INVALID_REQUEST, "BROKER_LOGGER"),
        (alteration({}, "m", CLIENT_METRICS), ErrorCode.INVALID_REQUEST, "CLIENT_METRICS"),
        (alteration({}, "g", GROUP), ErrorCode.INVALID_REQUEST, "GROUP"),
        (alteration({}, "x", 3), ErrorCode.INVALID_REQUEST, "type 3"),
    ],
)
@pytest.mark.parametrize("version", range(3))
def test_given_what_cannot_be_when_altered_then_it_is_refused_and_says_why(
    version: int, resource: AlterConfigsResource, error: ErrorCode, reason: str
):
    with KafkaBroker() as broker:
        broker.create_topic("logs", 1, {"segment.ms": "7"})
        broker.loop.run(broker.manager.ensure_topic("__consumer_offsets"))

        (result,) = alter(broker, resource, version=version)

        assert result.error_code == error
        assert reason in result.error_message
        assert broker.manager.topic("logs").settings == {"segment.ms": "7"}
        assert broker.kafka_errors("alter_configs") == {error: 1}


def test_given_one_bad_resource_when_altered_then_the_others_change():
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        broker.create_topic("other")
        twice = alteration({"segment.ms": "9"}, "twice")

        results = alter(
            broker,
            alteration({"segment.ms": "0"}),
            twice,
            alteration({"segment.ms": "9"}, "other"),
            twice,
        )

        assert [(each.resource_name, each.error_code) for each in results] == [
            ("logs", ErrorCode.INVALID_CONFIG),
            ("twice", ErrorCode.INVALID_REQUEST),
            ("other", 0),
        ]
        assert broker.manager.topic("other").settings == {"segment.ms": "9"}


# --- IncrementalAlterConfigs ----------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2))
def test_given_settings_when_some_are_set_and_deleted_then_the_others_stay(version: int):
    with KafkaBroker() as broker:
        broker.create_topic("logs", 1, {"segment.ms": "7", "retention.ms": "66000"})

        changes: Changes = [
            ("retention.ms", DELETE, None),
            ("max.message.bytes", SET, "5000"),
            ("flush.policy", SET, "os"),
            ("flush.ms", DELETE, "whatever"),
            ("weather", DELETE, None),
        ]

        assert changed(broker, changes, version) == {
            "segment.ms": "7",
            "max.message.bytes": "5000",
            "flush.policy": "os",
        }
        assert broker.partition("logs").log.config.max_message_bytes == 5_000


@pytest.mark.parametrize("version", range(2))
def test_given_a_list_when_appended_and_subtracted_then_its_entries_change(version: int):
    with KafkaBroker() as broker:
        broker.create_topic("logs")

        both = changed(broker, [("cleanup.policy", APPEND, "compact")], version)
        same = changed(broker, [("cleanup.policy", APPEND, "compact, delete")], version)
        one = changed(broker, [("cleanup.policy", SUBTRACT, "delete")], version)
        none = changed(broker, [("cleanup.policy", SUBTRACT, "compact")], version)

        assert both == same == {"cleanup.policy": "delete,compact"}
        assert one == {"cleanup.policy": "compact"}
        assert none == {"cleanup.policy": ""}
        assert broker.partition("logs").log.config.cleanup_policy is CleanupPolicy.NONE
        assert changed(broker, [("cleanup.policy", DELETE, None)], version) == {}


def test_given_a_list_that_outgrows_what_can_be_told_when_appended_to_then_it_is_refused():
    """A text in an answer of version 3 has at most 32,767 bytes."""
    name = "leader.replication.throttled.replicas"
    some, more = (
        ",".join(f"{number}:1" for number in range(first, first + 3_000))
        for first in (10_000, 20_000)
    )
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        assert changed(broker, [(name, SET, some)]) == {name: some}

        error, reason = refused(broker, [(name, APPEND, more)])

        assert error == ErrorCode.INVALID_CONFIG
        assert "at most 32767 bytes" in reason


def test_given_a_list_without_effect_when_changed_then_it_is_kept_all_the_same():
    name = "leader.replication.throttled.replicas"
    with KafkaBroker() as broker:
        broker.create_topic("logs")

        assert changed(broker, [(name, APPEND, "0:1,1:1")]) == {name: "0:1,1:1"}
        assert changed(broker, [(name, APPEND, "2:1")]) == {name: "0:1,1:1,2:1"}
        assert changed(broker, [(name, SUBTRACT, "1:1")]) == {name: "0:1,2:1"}
        assert changed(broker, [(name, SUBTRACT, "2:1,0:1")]) == {name: ""}
        assert changed(broker, [(name, SET, "*")]) == {name: "*"}
        assert changed(broker, [(name, SET, "")]) == {name: ""}
        assert changed(broker, [(name, DELETE, None)]) == {}


@pytest.mark.parametrize(
    ("changes", "error", "reason"),
    [
        ([("segment.ms", SET, "0")], ErrorCode.INVALID_CONFIG, "from 1 to"),
        ([("segment.ms", SET, "")], ErrorCode.INVALID_CONFIG, "segment.ms must be"),
        ([("weather", SET, "5")], ErrorCode.INVALID_CONFIG, "weather"),
        ([("segment.ms", SET, None)], ErrorCode.INVALID_REQUEST, "no value"),
        ([("cleanup.policy", APPEND, None)], ErrorCode.INVALID_REQUEST, "no value"),
        ([("segment.ms", APPEND, "5")], ErrorCode.INVALID_CONFIG, "no list"),
        ([("segment.ms", SUBTRACT, "5")], ErrorCode.INVALID_CONFIG, "no list"),
        ([("cleanup.policy", APPEND, "forget")], ErrorCode.INVALID_CONFIG, "delete, compact"),
        (
            [("leader.replication.throttled.replicas", SET, "0:1,all")],
            ErrorCode.INVALID_CONFIG,
            "PARTITION:BROKER",
        ),
        ([("segment.ms", 4, "5")], ErrorCode.INVALID_REQUEST, "operations"),
        (
            [("segment.ms", SET, "5"), ("segment.ms", DELETE, None)],
            ErrorCode.INVALID_REQUEST,
            "twice",
        ),
        (
            [("min.compaction.lag.ms", SET, "5"), ("max.compaction.lag.ms", SET, "4")],
            ErrorCode.INVALID_CONFIG,
            "must not be above",
        ),
    ],
)
def test_given_what_cannot_be_when_changed_then_it_is_refused_and_says_why(
    changes: Changes, error: ErrorCode, reason: str
):
    with KafkaBroker() as broker:
        broker.create_topic("logs", 1, {"retention.ms": "7"})

        code, text = refused(broker, changes)

        assert code == error
        assert reason in text
        assert broker.kafka_errors("incremental_alter_configs") == {error: 2}


def test_given_changes_sent_together_when_made_then_none_undoes_another():
    """Each is made of the settings as they are when its turn comes, not as they were when sent."""
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        name = "leader.replication.throttled.replicas"
        for number in range(5):
            changes: Changes = [(name, APPEND, f"{number}:1")]
            broker.ask(IncrementalAlterConfigsRequest([increment(changes)]), settle=False)
        broker.loop.settle()

        assert broker.manager.topic("logs").settings == {name: "0:1,1:1,2:1,3:1,4:1"}


def test_given_a_registry_that_fails_when_changed_then_the_answer_says_so():
    with KafkaBroker() as broker:
        broker.create_topic("logs")

        async def refuse(*_: object) -> None:
            raise StorageError(str(OSError(errno.ENOSPC, "No space left")))

        broker.manager.store.set_settings = refuse  # type: ignore[method-assign]
        request = IncrementalAlterConfigsRequest([increment([("segment.ms", SET, "5")])])
        (result,) = broker.answer(request).responses

        assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.manager.topic("logs").settings == {}
