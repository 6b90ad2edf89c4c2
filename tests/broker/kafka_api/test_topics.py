"""CreateTopics and DeleteTopics, in all versions, error by error."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import msgspec
import pytest

from protocol.error_codes import ErrorCode
from protocol.kafka.message import NO_UUID
from protocol.kafka.topic_changes import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.support.fake_disk import FakeDisk
from tests.support.kafka_broker import KafkaBroker

CREATE_VERSIONS = range(2, 8)
DELETE_VERSIONS = range(1, 7)
MINUTE_MS = 60_000


def topic(
    name: str = "logs",
    partitions: int = 1,
    factor: int = 1,
    assignments: dict[int, list[int]] | None = None,
    **settings: str | None,
) -> CreatableTopic:
    """Settings with underscores, for they are keywords here."""
    return CreatableTopic(
        name,
        partitions,
        factor,
        [CreatableReplicaAssignment(*each) for each in (assignments or {}).items()],
        [CreatableTopicConfig(key.replace("_", "."), value) for key, value in settings.items()],
    )


def creation(*topics: CreatableTopic, **how: Any) -> CreateTopicsRequest:
    return CreateTopicsRequest(list(topics), **{"timeout_ms": MINUTE_MS, **how})


def created(broker: KafkaBroker, wanted: CreatableTopic, version: int = 7, **how: Any) -> Any:
    (result,) = broker.answer(creation(wanted, **how), version).topics
    assert result.name == wanted.name
    return result


def deletion(version: int, *names: str, timeout_ms: int = MINUTE_MS) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms)
    return DeleteTopicsRequest([DeleteTopicState(name) for name in names], timeout_ms=timeout_ms)


# --- CreateTopics ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", CREATE_VERSIONS)
def test_given_a_topic_when_created_then_it_is_there_and_the_answer_says_what_it_is_like(
    version: int,
):
    with KafkaBroker() as broker:
        result = created(broker, topic(partitions=3, retention_ms="5000"), version)

        entry = broker.manager.topic("logs")
        assert (entry.partition_count, entry.settings) == (3, {"retention.ms": "5000"})
        assert (result.error_code, result.error_message) == (0, None)
        assert result.topic_id == (entry.topic_id.bytes if version >= 7 else NO_UUID)
        if version >= 5:
            assert (result.num_partitions, result.replication_factor) == (3, 1)
            configs = {each.name: (each.value, each.config_source) for each in result.configs}
            assert configs["retention.ms"] == ("5000", 1)
            assert configs["segment.ms"] == ("604800000", 5)
            assert configs["cleanup.policy"] == ("delete", 5)
            assert configs["min.insync.replicas"] == ("1", 5)
            assert not any(each.read_only or each.is_sensitive for each in result.configs)
        else:
            assert (result.num_partitions, result.configs) == (-1, [])


@pytest.mark.parametrize("version", CREATE_VERSIONS)
def test_given_a_topic_when_only_validated_then_nothing_is_made(version: int):
    with KafkaBroker() as broker:
        good = created(broker, topic(partitions=3), version, validate_only=True)
        bad = created(broker, topic(segment_ms="0"), version, validate_only=True)

        assert (good.error_code, good.topic_id) == (0, NO_UUID)
        assert good.num_partitions == (3 if version >= 5 else -1)
        assert bad.error_code == ErrorCode.INVALID_CONFIG
        assert broker.manager.topics() == []


@pytest.mark.parametrize("version", CREATE_VERSIONS)
def test_given_defaults_when_created_then_the_broker_decides(version: int):
    with KafkaBroker(settings={"topics.default_partitions": 4}) as broker:
        assert created(broker, topic(partitions=-1, factor=-1), version).error_code == 0
        assert broker.manager.topic("logs").partition_count == 4


def test_given_defaults_that_were_reloaded_when_created_then_the_new_ones_count():
    with KafkaBroker() as broker:
        changed = msgspec.structs.replace(broker.config.topics, default_partitions=6)
        broker.manager.use_topic_defaults(changed)

        assert created(broker, topic(partitions=-1)).num_partitions == 6


def test_given_assignments_when_created_then_there_are_as_many_partitions():
    with KafkaBroker() as broker:
        wanted = topic(partitions=-1, factor=-1, assignments={1: [1], 0: [1], 2: [1]})

        assert created(broker, wanted).error_code == 0
        assert broker.manager.topic("logs").partition_count == 3


ASSIGNMENT = ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("wanted", "error", "reason"),
    [
        (topic("a b"), ErrorCode.INVALID_TOPIC, "a b"),
        (topic(""), ErrorCode.INVALID_TOPIC, "empty"),
        (topic("__transaction_state"), ErrorCode.INVALID_TOPIC, "internal"),
        (topic("__cluster_metadata"), ErrorCode.INVALID_TOPIC, "internal"),
        (topic("__consumer.offsets"), ErrorCode.INVALID_TOPIC, "mistaken"),
        (topic("there"), ErrorCode.TOPIC_ALREADY_EXISTS, "there"),
        (topic("there", 0, 3, weather="fine"), ErrorCode.TOPIC_ALREADY_EXISTS, "there"),
        (topic(partitions=0), ErrorCode.INVALID_PARTITIONS, "0"),
        (topic(partitions=-2), ErrorCode.INVALID_PARTITIONS, "-2"),
        (topic(partitions=1_001), ErrorCode.INVALID_PARTITIONS, "1 to 1000"),
        (topic(factor=0), ErrorCode.INVALID_REPLICATION_FACTOR, "one broker"),
        (topic(factor=2), ErrorCode.INVALID_REPLICATION_FACTOR, "one broker"),
        (topic(factor=-2), ErrorCode.INVALID_REPLICATION_FACTOR, "one broker"),
        (topic(partitions=2, factor=-1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST, "-1"),
        (topic(partitions=-1, factor=1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST, "-1"),
        (topic(partitions=-1, factor=-1, assignments={0: [2]}), ASSIGNMENT, "no broker 2"),
        (topic(partitions=-1, factor=-1, assignments={0: [1, 1]}), ASSIGNMENT, "twice"),
        (topic(partitions=-1, factor=-1, assignments={0: []}), ASSIGNMENT, "no broker"),
        (topic(partitions=-1, factor=-1, assignments={1: [1]}), ASSIGNMENT, "numbered"),
        (topic(retention_ms="soon"), ErrorCode.INVALID_CONFIG, "retention.ms must be"),
        (topic(retention_ms=""), ErrorCode.INVALID_CONFIG, "retention.ms must be"),
        (topic(retention_ms=None), ErrorCode.INVALID_CONFIG, "no value"),
        (topic(weather="fine"), ErrorCode.INVALID_CONFIG, "weather"),
        (topic(remote_storage_enable="true"), ErrorCode.INVALID_CONFIG, "no remote storage"),
        (
            topic(min_compaction_lag_ms="5", max_compaction_lag_ms="4"),
            ErrorCode.INVALID_CONFIG,
            "must not be above",
        ),
    ],
)
@pytest.mark.parametrize("version", CREATE_VERSIONS)
def test_given_what_cannot_be_when_created_then_it_is_refused_and_says_why(
    version: int, wanted: CreatableTopic, error: ErrorCode, reason: str
):
    with KafkaBroker() as broker:
        broker.create_topic("there")

        result = created(broker, wanted, version)

        assert result.error_code == error
        assert reason in result.error_message
        assert (result.topic_id, result.num_partitions, result.configs) == (NO_UUID, -1, [])
        assert [entry.name for entry in broker.manager.topics()] == ["there"]
        assert broker.kafka_errors("create_topics") == {error: 1}


def test_given_a_setting_twice_when_created_then_it_is_refused():
    with KafkaBroker() as broker:
        wanted = topic()
        wanted.configs = [CreatableTopicConfig("segment.ms", "5")] * 2

        assert created(broker, wanted).error_code == ErrorCode.INVALID_CONFIG


def test_given_a_name_twice_when_created_then_it_is_refused_once_and_the_others_are_made():
    with KafkaBroker() as broker:
        answer = broker.answer(creation(topic("a"), topic("b"), topic("a", 2), topic("c", 0)))

        assert [(each.name, each.error_code) for each in answer.topics] == [
            ("a", ErrorCode.INVALID_REQUEST),
            ("b", 0),
            ("c", ErrorCode.INVALID_PARTITIONS),
        ]
        assert [entry.name for entry in broker.manager.topics()] == ["b"]


def test_given_very_many_topics_when_validated_then_the_settings_of_1000_are_told_in_turns():
    with KafkaBroker() as broker:
        wanted = [topic(f"logs-{number}") for number in range(1_002)]
        sent = broker.ask(creation(*wanted, validate_only=True), settle=False)
        for _ in range(20):
            broker.loop.turn()
        assert sent.is_waiting  # ten a turn
        broker.loop.settle()

        found = [(each.error_code, each.topic_config_error_code) for each in sent.response.topics]
        assert found == [(0, 0)] * 1_000 + [(0, ErrorCode.INVALID_REQUEST)] * 2
        assert [bool(each.configs) for each in sent.response.topics[-3:]] == [True, False, False]


def test_given_a_full_disk_when_created_then_the_answer_says_so():
    with KafkaBroker() as broker:
        broker.disk.fail("make_directory", OSError(errno.ENOSPC, "No space left"), times=9)

        assert created(broker, topic()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        broker.disk._faults.clear()
        assert created(broker, topic()).error_code == 0


@pytest.mark.parametrize("seed", range(3))
def test_given_a_topic_when_answered_then_a_power_cut_does_not_take_it(tmp_path: Path, seed: int):
    disk, registry = FakeDisk(), tmp_path / "registry.sqlite"
    broker = KafkaBroker(disk=disk, registry=registry)
    broker.open()
    topic_id = created(broker, topic(partitions=2, segment_ms="7")).topic_id
    broker.kill()
    disk.crash(Random(seed))

    with KafkaBroker(disk=disk, registry=registry) as broker:
        entry = broker.manager.topic("logs")
        assert (entry.partition_count, entry.settings) == (2, {"segment.ms": "7"})
        assert entry.topic_id == UUID(bytes=topic_id)


def test_given_work_that_takes_longer_when_created_then_it_times_out_and_is_done_all_the_same():
    with KafkaBroker() as broker:
        slow = broker.loop.create_future()
        create = broker.manager.create_topic

        async def create_slowly(name: str, count: int, settings: dict[str, str]) -> None:
            await create(name, count, settings)
            if name == "b":
                await slow

        broker.manager.create_topic = create_slowly  # type: ignore[method-assign]
        sent = broker.ask(creation(topic("a"), topic("b"), topic("c"), timeout_ms=2_000))
        broker.loop.advance(1_990)
        assert sent.is_waiting
        assert sent.pauses_reading
        broker.loop.advance(20)

        late = ErrorCode.REQUEST_TIMED_OUT
        found = [(each.name, each.error_code) for each in sent.response.topics]
        assert found == [("a", 0), ("b", late), ("c", late)]
        slow.set_result(None)
        broker.loop.settle()
        assert [entry.name for entry in broker.manager.topics()] == ["a", "b", "c"]


def test_given_no_time_when_created_then_the_work_is_begun_and_not_waited_for():
    with KafkaBroker() as broker:
        result = created(broker, topic(), timeout_ms=0)

        assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert [entry.name for entry in broker.manager.topics()] == ["logs"]


# --- DeleteTopics ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", DELETE_VERSIONS)
def test_given_topics_when_deleted_by_name_then_they_are_gone_and_unknown_ones_unknown(
    version: int,
):
    with KafkaBroker() as broker:
        for name in ("a", "b", "c"):
            broker.create_topic(name)
        topic_id = broker.manager.topic("a").topic_id.bytes

        answer = broker.answer(deletion(version, "a", "none", "c"), version)

        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        found = [(each.name, each.error_code) for each in answer.responses]
        assert found == [("a", 0), ("none", unknown), ("c", 0)]
        assert answer.responses[0].error_message is None
        assert bool(answer.responses[1].error_message) == (version >= 5)
        assert answer.responses[0].topic_id == (topic_id if version >= 6 else NO_UUID)
        assert [entry.name for entry in broker.manager.topics()] == ["b"]
        assert broker.kafka_errors("delete_topics") == {unknown: 1}


def test_given_topics_when_deleted_by_id_then_names_are_told():
    with KafkaBroker() as broker:
        broker.create_topic("a")
        topic_id, other = broker.manager.topic("a").topic_id.bytes, UUID(int=7).bytes
        states = [DeleteTopicState(None, topic_id), DeleteTopicState(None, other)]

        answer = broker.answer(DeleteTopicsRequest(states, timeout_ms=MINUTE_MS))

        assert [(each.name, each.topic_id, each.error_code) for each in answer.responses] == [
            ("a", topic_id, 0),
            (None, other, ErrorCode.UNKNOWN_TOPIC_ID),
        ]
        assert broker.manager.topics() == []


def test_given_both_or_none_when_deleted_then_it_is_refused():
    with KafkaBroker() as broker:
        broker.create_topic("a")
        topic_id = broker.manager.topic("a").topic_id.bytes
        states = [DeleteTopicState("a", topic_id), DeleteTopicState(None, NO_UUID)]

        answer = broker.answer(DeleteTopicsRequest(states, timeout_ms=MINUTE_MS))

        assert [each.error_code for each in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2
        assert len(broker.manager.topics()) == 1


@pytest.mark.parametrize("version", DELETE_VERSIONS)
def test_given_a_name_twice_when_deleted_then_it_is_refused_once(version: int):
    with KafkaBroker() as broker:
        broker.create_topic("a")

        (result,) = broker.answer(deletion(version, "a", "a"), version).responses

        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert len(broker.manager.topics()) == 1


@pytest.mark.parametrize("version", DELETE_VERSIONS)
def test_given_an_internal_topic_when_deleted_then_it_stays(version: int):
    with KafkaBroker() as broker:
        broker.loop.run(broker.manager.ensure_topic("__consumer_offsets"))

        (result,) = broker.answer(deletion(version, "__consumer_offsets"), version).responses

        assert result.error_code == ErrorCode.INVALID_TOPIC
        assert len(broker.manager.topics()) == 1


def test_given_a_topic_made_again_meanwhile_when_deleted_by_id_then_the_new_one_stays():
    with KafkaBroker() as broker:
        broker.create_topic("a")
        broker.create_topic("b")
        ids = [broker.manager.topic(name).topic_id.bytes for name in ("b", "a")]
        delete = broker.manager.delete_topic

        async def delete_and_more(name: str) -> None:
            await delete(name)
            if name == "b":
                await delete("a")
                await broker.manager.create_topic("a", 1, {})

        broker.manager.delete_topic = delete_and_more  # type: ignore[method-assign]
        states = [DeleteTopicState(None, each) for each in ids]
        answer = broker.answer(DeleteTopicsRequest(states, timeout_ms=MINUTE_MS))

        found = [each.error_code for each in answer.responses]
        assert found == [0, ErrorCode.UNKNOWN_TOPIC_ID]
        assert [entry.name for entry in broker.manager.topics()] == ["a"]


@pytest.mark.parametrize("version", DELETE_VERSIONS)
def test_given_no_time_when_deleted_then_the_work_is_begun_and_not_waited_for(version: int):
    with KafkaBroker() as broker:
        broker.create_topic("a")

        (result,) = broker.answer(deletion(version, "a", timeout_ms=0), version).responses

        assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert broker.manager.topics() == []


def test_given_a_client_that_leaves_when_deleted_then_it_is_done_all_the_same():
    with KafkaBroker() as broker:
        broker.create_topic("a")
        sent = broker.ask(deletion(6, "a"), settle=False)

        sent.abandon()
        broker.loop.settle()

        assert broker.manager.topics() == []
        assert broker.connection.closed == []
