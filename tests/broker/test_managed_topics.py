"""PartitionManager: topics made, deleted and changed, also by two at once and halfway."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from uuid import UUID, uuid4

import pytest

from broker.topic_registry import TopicEntry, TopicRegistry
from protocol.error_codes import ErrorCode
from protocol.errors import (
    InvalidTopicError,
    StorageError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from protocol.native import requests
from tests.support.broker_machine import Machine
from tests.support.fake_disk import SimulatedCrash
from tests.support.native_broker import batch, config_of


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "registry.sqlite")


# --- topics ---------------------------------------------------------------------------------------


def test_given_a_deleted_topic_when_made_again_at_once_then_it_is_empty_and_another(
    machine: Machine,
):
    with machine.broker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"old"))
        old = broker.manager.topic("logs").topic_id

        assert broker.send(requests.encode_delete_topic("logs")).status == (0, "")
        renamed = [name for name in machine.names() if name.endswith("-delete")]
        broker.create_topic("logs")

        assert len(renamed) == 1
        assert broker.manager.topic("logs").topic_id != old
        assert broker.fetch("logs", 0).fetched == (0, b"")
        broker.loop.advance(1_000)
        assert machine.names() == ["logs-0"]  # the old one was unlinked


@pytest.mark.parametrize("seed", range(5))
def test_given_a_power_cut_after_a_deletion_when_started_then_the_topic_is_gone(
    machine: Machine, seed: int
):
    broker = machine.broker().open()
    broker.create_topic("logs", 2)
    broker.produce("logs", batch(b"a"), acks=-1)
    assert broker.send(requests.encode_delete_topic("logs")).status == (0, "")
    broker.kill()
    machine.disk.crash(Random(seed))

    with machine.broker() as broker:
        assert broker.manager.topics() == []
        broker.loop.advance(1_000)
        assert machine.names() == []


def test_given_a_deletion_cut_short_when_started_then_it_is_finished(machine: Machine):
    with machine.broker() as broker:
        broker.create_topic("logs", 2)
        broker.create_topic("kept")
    registry = TopicRegistry.open(machine.registry)
    registry.begin_delete("logs")
    registry.close()

    with machine.broker() as broker:
        assert [entry.name for entry in broker.manager.topics()] == ["kept"]
        broker.create_topic("logs")  # the name is free
        broker.loop.advance(1_000)
        assert machine.names() == ["kept-0", "logs-0"]


@pytest.mark.parametrize("operation", ["make_directory", "create", "write"])
@pytest.mark.parametrize("after", [0, 2, 7])
def test_given_a_failed_creation_when_it_failed_halfway_then_nothing_is_left(
    machine: Machine, operation: str, after: int
):
    with machine.broker() as broker:
        no_space = OSError(errno.ENOSPC, "No space left on device")
        broker.disk.fail(operation, no_space, after=after, times=100)
        try:
            broker.loop.run(broker.manager.create_topic("logs", 5, {}))
            assert (operation, after) == ("make_directory", 7)  # there were not so many
        except StorageError:
            broker.disk._faults.clear()
            assert broker.manager.topics() == []
            broker.loop.advance(1_000)
            assert machine.names() == []
            broker.create_topic("logs", 5)  # and nothing is in its way
        broker.disk._faults.clear()
        for number in range(5):
            assert broker.produce("logs", batch(b"a"), partition=number, acks=-1).error == 0
    machine.disk.crash()

    with machine.broker() as broker:
        found = [broker.partition("logs", number).log.high_watermark for number in range(5)]
        assert found == [1] * 5


def test_given_two_names_that_differ_in_dots_only_when_made_at_once_then_one_wins(
    machine: Machine,
):
    with machine.broker() as broker:
        first = broker.loop.create_task(broker.manager.create_topic("web.logs", 20, {}))
        second = broker.loop.create_task(broker.manager.create_topic("web_logs", 1, {}))
        broker.loop.settle()

        assert first.exception() is None
        assert isinstance(second.exception(), InvalidTopicError)


def test_given_a_name_that_differs_in_dots_only_when_produced_to_then_no_topic_is_made(
    machine: Machine,
):
    with machine.broker() as broker:
        broker.create_topic("web.logs")

        refused = broker.produce("web_logs", batch(b"a"), acks=-1)

        assert refused.error == ErrorCode.INVALID_TOPIC
        assert [entry.name for entry in broker.manager.topics()] == ["web.logs"]


def test_given_names_that_differ_in_dots_only_when_they_are_there_then_both_work(
    machine: Machine,
):
    with machine.broker() as broker:
        for name in ("web.logs", "web_logs"):  # as an older version could make them
            broker.loop.run(broker.manager.store.create_topic(TopicEntry(name, uuid4(), 1)))

    with machine.broker() as broker:
        for name in ("web.logs", "web_logs"):
            assert broker.produce(name, batch(b"a"), acks=-1).error == 0
        broker.loop.run(broker.manager.delete_topic("web.logs"))
        with pytest.raises(InvalidTopicError):
            broker.loop.run(broker.manager.create_topic("web.logs", 1, {}))  # the other is there
        broker.loop.run(broker.manager.delete_topic("web_logs"))
        broker.create_topic("web.logs")


def test_given_a_name_like_an_internal_topics_when_there_then_the_broker_makes_its_own(
    machine: Machine,
):
    with machine.broker() as broker:
        entry = TopicEntry("__consumer.offsets", uuid4(), 1)
        broker.loop.run(broker.manager.store.create_topic(entry))

        assert broker.loop.run(broker.manager.ensure_own_topic("__consumer_offsets", 1, {}))


def test_given_two_creations_at_once_when_run_then_one_wins(machine: Machine):
    with machine.broker() as broker:
        first = broker.loop.create_task(broker.manager.create_topic("logs", 20, {}))
        second = broker.loop.create_task(broker.manager.create_topic("logs", 1, {}))
        broker.loop.settle()

        assert first.exception() is None
        assert isinstance(second.exception(), TopicAlreadyExistsError)
        assert broker.manager.topic("logs").partition_count == 20


def test_given_many_producers_when_they_ensure_one_topic_then_it_is_created_once(machine: Machine):
    with machine.broker(settings={"topics.default_partitions": 9}) as broker:
        tasks = [broker.loop.create_task(broker.manager.ensure_topic("logs")) for _ in range(10)]
        broker.loop.settle()

        assert [task.exception() for task in tasks] == [None] * 10
        assert broker.metrics.topics_auto_created == 1
        assert broker.manager.topic("logs").partition_count == 9


def test_given_an_unknown_topic_when_asked_for_then_that_is_said(machine: Machine):
    with machine.broker() as broker:
        with pytest.raises(UnknownTopicOrPartitionError):
            broker.manager.topic("logs")
        with pytest.raises(UnknownTopicOrPartitionError):
            broker.manager.partition("logs", 0)


def test_given_new_defaults_when_taken_over_then_topics_without_their_own_have_them(
    machine: Machine,
):
    with machine.broker() as broker:
        broker.create_topic("mine", 1, {"retention.ms": "5"})
        broker.create_topic("plain")

        changed = config_of({"topics.retention_ms": 7, "topics.segment_bytes": 99_999_999}, (), ())
        broker.manager.use_topic_defaults(changed.topics)

        mine, plain = (broker.partition(name).log.config for name in ("mine", "plain"))
        assert (mine.retention_ms, plain.retention_ms) == (5, 7)
        assert mine.segment_bytes == plain.segment_bytes == 99_999_999


def test_given_ids_when_topics_are_made_then_each_has_its_own(machine: Machine):
    with machine.broker() as broker:
        for name in ("a", "b"):
            broker.create_topic(name)

        ids = {entry.topic_id for entry in broker.manager.topics()}

        assert len(ids) == 2
        assert UUID(int=0) not in ids


@pytest.mark.parametrize("change", range(30))
def test_given_a_crash_at_any_change_when_started_then_each_topic_is_whole_or_gone(
    machine: Machine, change: int
):
    broker = machine.broker().open()
    broker.create_topic("first", 2)
    machine.disk.crash_after(change)
    try:
        broker.loop.run(broker.manager.create_topic("second", 2, {}))
        broker.loop.run(broker.manager.delete_topic("first"))
        acknowledged = True
    except SimulatedCrash:
        acknowledged = False
    broker.kill()
    machine.disk.crash(Random(change))

    with machine.broker() as broker:
        names = [entry.name for entry in broker.manager.topics()]
        for name in names:
            codes = [broker.produce(name, batch(b"x"), partition=n).error for n in range(2)]
            assert codes == [0, 0]
        broker.loop.advance(1_000)

        assert machine.names() == sorted(f"{name}-{n}" for name in names for n in range(2))
        if acknowledged:
            assert names == ["second"]
