"""TopicGrowth: topics get more partitions, whole or not at all, whatever breaks in between."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from broker.topic_registry import TopicRegistry
from protocol.errors import (
    InvalidPartitionsError,
    InvalidTopicError,
    StorageError,
    TidelogError,
    UnknownTopicOrPartitionError,
)
from tests.support.broker_machine import Machine
from tests.support.fake_disk import SimulatedCrash
from tests.support.native_broker import NativeBroker, batch


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "registry.sqlite")


def grow(broker: NativeBroker, count: int, topic: str = "logs") -> None:
    broker.loop.run(broker.manager.growth.grow(topic, count))


def high_watermarks(broker: NativeBroker) -> list[int]:
    partitions = broker.manager.partitions_by_topic[b"logs"]
    return [-1 if each is None else each.log.high_watermark for each in partitions]


def test_given_a_topic_when_grown_then_old_records_stay_and_new_partitions_take_some(
    machine: Machine,
):
    with machine.broker() as broker:
        broker.create_topic("logs", 2, {"retention.ms": "5000"})
        broker.produce("logs", batch(b"a"), partition=1, acks=-1)

        grow(broker, 5)

        for number in range(2, 5):
            assert broker.produce("logs", batch(b"b"), partition=number, acks=-1).error == 0
            assert broker.partition("logs", number).log.config.retention_ms == 5_000
        assert high_watermarks(broker) == [0, 1, 1, 1, 1]
        topic = broker.manager.topic("logs")
        assert topic.partition_count == 5
        assert {broker.partition("logs", n).log.topic_id for n in range(5)} == {topic.topic_id}
        assert machine.names() == [f"logs-{n}" for n in range(5)]


def test_given_who_holds_the_topics_partitions_when_grown_then_they_see_the_new_ones():
    """Handlers look partitions up in these lists, and may keep one for some loop turns."""
    with NativeBroker() as broker:
        broker.create_topic("logs")
        readable = broker.manager.partitions_by_topic[b"logs"]
        writable = broker.manager.writable_partitions_by_topic[b"logs"]

        grow(broker, 3)

        assert len(readable) == len(writable) == 3


def test_given_two_directories_when_grown_then_the_new_ones_even_out(machine: Machine):
    with machine.broker(data_dirs=("/data", "/more")) as broker:
        broker.create_topic("logs", 2)

        grow(broker, 6)

        assert [len(machine.names(each)) for each in ("/data", "/more")] == [3, 3]


@pytest.mark.parametrize("seed", range(5))
def test_given_a_power_cut_after_growth_when_started_then_all_partitions_are_there(
    machine: Machine, seed: int
):
    broker = machine.broker().open()
    broker.create_topic("logs")
    grow(broker, 4)
    broker.produce("logs", batch(b"a"), partition=3, acks=-1)
    broker.kill()
    machine.disk.crash(Random(seed))

    with machine.broker() as broker:
        assert high_watermarks(broker) == [0, 0, 0, 1]
        grow(broker, 6)  # and it goes on from there
        assert len(high_watermarks(broker)) == 6


def test_given_a_crash_before_the_directories_when_started_then_they_are_made(machine: Machine):
    with machine.broker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a"), acks=-1)
    registry = TopicRegistry.open(machine.registry)
    registry.set_partition_count("logs", 3)  # as far as it came
    registry.close()

    with machine.broker() as broker:
        assert high_watermarks(broker) == [1, 0, 0]


@pytest.mark.parametrize("after", range(0, 40, 3))
def test_given_a_crash_at_any_moment_when_started_then_the_topic_has_one_count_or_the_other(
    machine: Machine, after: int
):
    broker = machine.broker().open()
    broker.create_topic("logs")
    broker.produce("logs", batch(b"a"), acks=-1)
    machine.disk.crash_after(after)
    try:
        grow(broker, 4)
        count = 4
    except (SimulatedCrash, TidelogError):
        count = 0
    broker.kill()
    machine.disk.crash(Random(after))

    with machine.broker() as broker:
        found = high_watermarks(broker)
        assert found in ([1], [1, 0, 0, 0])
        assert not count or len(found) == count  # answered is answered
        assert broker.manager.topic("logs").partition_count == len(found)


@pytest.mark.parametrize("operation", ["make_directory", "create", "write"])
@pytest.mark.parametrize("after", [0, 2])
def test_given_a_full_disk_when_grown_then_the_topic_is_as_it_was(
    machine: Machine, operation: str, after: int
):
    with machine.broker() as broker:
        broker.create_topic("logs", 2)
        no_space = OSError(errno.ENOSPC, "No space left on device")
        broker.disk.fail(operation, no_space, after=after, times=100)

        with pytest.raises(StorageError):
            grow(broker, 5)
        broker.disk._faults.clear()

        assert broker.manager.topic("logs").partition_count == 2
        assert high_watermarks(broker) == [0, 0]
        broker.loop.advance(1_000)
        assert machine.names() == ["logs-0", "logs-1"]
        grow(broker, 5)  # nothing is in its way
        assert high_watermarks(broker) == [0] * 5
    with machine.broker() as broker:
        assert high_watermarks(broker) == [0] * 5


def test_given_a_full_disk_when_grown_and_started_anew_then_the_old_count_holds(machine: Machine):
    with machine.broker() as broker:
        broker.create_topic("logs", 2)
        broker.disk.fail("make_directory", OSError(errno.ENOSPC, "No space left"), times=9)
        with pytest.raises(StorageError):
            grow(broker, 5)
        broker.disk._faults.clear()

    with machine.broker() as broker:
        assert high_watermarks(broker) == [0, 0]


def test_given_two_growths_at_once_when_run_then_the_smaller_is_refused(machine: Machine):
    with machine.broker() as broker:
        broker.create_topic("logs")
        first = broker.loop.create_task(broker.manager.growth.grow("logs", 6))
        second = broker.loop.create_task(broker.manager.growth.grow("logs", 4))
        broker.loop.settle()

        assert first.exception() is None
        assert isinstance(second.exception(), InvalidPartitionsError)
        assert high_watermarks(broker) == [0] * 6


@pytest.mark.parametrize(
    ("topic", "count", "error"),
    [
        ("logs", 2, InvalidPartitionsError),
        ("logs", 1, InvalidPartitionsError),
        ("logs", -1, InvalidPartitionsError),
        ("logs", 1_001, InvalidPartitionsError),
        ("none", 3, UnknownTopicOrPartitionError),
        ("__consumer_offsets", 3, InvalidTopicError),
        ("a b", 3, InvalidTopicError),
    ],
)
def test_given_what_cannot_be_when_grown_then_it_is_refused(
    topic: str, count: int, error: type[TidelogError]
):
    with NativeBroker() as broker:
        broker.create_topic("logs", 2)
        broker.loop.run(broker.manager.ensure_topic("__consumer_offsets"))

        with pytest.raises(error):
            grow(broker, count, topic)

        assert high_watermarks(broker) == [0, 0]


def test_given_a_failed_sync_when_grown_then_nothing_is_made(machine: Machine):
    with machine.broker() as broker:
        broker.create_topic("logs")
        broker.manager.flusher.fail(OSError(errno.EIO, "Input/output error"))

        with pytest.raises(StorageError):
            grow(broker, 2)

        assert broker.manager.topic("logs").partition_count == 1
