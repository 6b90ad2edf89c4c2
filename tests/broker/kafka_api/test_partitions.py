"""CreatePartitions and DeleteRecords, in all versions, error by error."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.errors import StorageError
from protocol.kafka.topic_changes import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.support.fake_disk import FakeDisk
from tests.support.kafka_broker import KafkaBroker
from tests.support.native_broker import batch

MINUTE_MS = 60_000
OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE


def growth(
    name: str, count: int, assignments: list[list[int]] | None = None
) -> CreatePartitionsTopic:
    listed = None if assignments is None else [*map(CreatePartitionsAssignment, assignments)]
    return CreatePartitionsTopic(name, count, listed)


def request(*topics: CreatePartitionsTopic, **how: Any) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(list(topics), **{"timeout_ms": MINUTE_MS, **how})


# --- CreatePartitions -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_given_a_topic_when_grown_then_the_new_partitions_can_be_used(version: int):
    with KafkaBroker() as broker:
        broker.create_topic("logs", 2)

        (result,) = broker.answer(request(growth("logs", 5)), version).results

        assert (result.name, result.error_code, result.error_message) == ("logs", 0, None)
        assert broker.produce("logs", batch(b"a"), partition=4, acks=-1).error == 0


def test_given_assignments_when_grown_then_they_are_taken():
    with KafkaBroker() as broker:
        broker.create_topic("logs", 2)

        (result,) = broker.answer(request(growth("logs", 4, [[1], [1]]))).results

        assert result.error_code == 0
        assert broker.manager.topic("logs").partition_count == 4


def test_given_a_topic_when_only_validated_then_it_does_not_grow():
    with KafkaBroker() as broker:
        broker.create_topic("logs", 2)

        good, bad = broker.answer(
            request(growth("logs", 5), growth("none", 5), validate_only=True)
        ).results

        assert (good.error_code, bad.error_code) == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert broker.manager.topic("logs").partition_count == 2


ASSIGNMENT = ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("wanted", "error", "reason"),
    [
        (growth("none", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "none"),
        (growth("a b", 3), ErrorCode.INVALID_TOPIC, "a b"),
        (growth("__consumer_offsets", 3), ErrorCode.INVALID_TOPIC, "internal"),
        (growth("logs", 2), ErrorCode.INVALID_PARTITIONS, "has 2 partitions"),
        (growth("logs", 1), ErrorCode.INVALID_PARTITIONS, "has 2 partitions"),
        (growth("logs", -1), ErrorCode.INVALID_PARTITIONS, "has 2 partitions"),
        (growth("logs", 1_001), ErrorCode.INVALID_PARTITIONS, "at most 1000"),
        (growth("logs", 4, [[1]]), ASSIGNMENT, "2 partitions would be added, but 1"),
        (growth("logs", 4, []), ASSIGNMENT, "2 partitions would be added, but 0"),
        (growth("logs", 3, [[2]]), ASSIGNMENT, "no broker 2"),
        (growth("logs", 3, [[]]), ASSIGNMENT, "no broker"),
    ],
)
@pytest.mark.parametrize("version", range(4))
def test_given_what_cannot_be_when_grown_then_it_is_refused_and_says_why(
    version: int, wanted: CreatePartitionsTopic, error: ErrorCode, reason: str
):
    with KafkaBroker() as broker:
        broker.create_topic("logs", 2)
        broker.loop.run(broker.manager.ensure_topic("__consumer_offsets"))

        (result,) = broker.answer(request(wanted), version).results

        assert result.error_code == error
        assert reason in result.error_message
        assert broker.manager.topic("logs").partition_count == 2
        assert broker.kafka_errors("create_partitions") == {error: 1}


def test_given_a_topic_twice_when_grown_then_it_is_refused_once():
    with KafkaBroker() as broker:
        broker.create_topic("logs")

        (result,) = broker.answer(request(growth("logs", 2), growth("logs", 3))).results

        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert broker.manager.topic("logs").partition_count == 1


def test_given_a_full_disk_when_grown_then_the_answer_says_so():
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        broker.disk.fail("make_directory", OSError(errno.ENOSPC, "No space left"), times=9)

        (result,) = broker.answer(request(growth("logs", 3))).results

        broker.disk._faults.clear()
        assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.manager.topic("logs").partition_count == 1


def test_given_no_time_when_grown_then_the_work_is_begun_and_not_waited_for():
    with KafkaBroker() as broker:
        broker.create_topic("logs")

        (result,) = broker.answer(request(growth("logs", 3), timeout_ms=0)).results

        assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert broker.manager.topic("logs").partition_count == 3


# --- DeleteRecords --------------------------------------------------------------------------------


def deletion(
    topic: str, *offsets: tuple[int, int], timeout_ms: int = MINUTE_MS
) -> DeleteRecordsRequest:
    partitions = [DeleteRecordsPartition(*each) for each in offsets]
    return DeleteRecordsRequest([DeleteRecordsTopic(topic, partitions)], timeout_ms)


def deleted(
    broker: KafkaBroker, topic: str, *offsets: tuple[int, int], version: int = 2
) -> list[tuple[int, int, int]]:
    """Partition, low watermark and error of each."""
    (results,) = broker.answer(deletion(topic, *offsets), version).topics
    assert results.name == topic
    return [(r.partition_index, r.low_watermark, r.error_code) for r in results.partitions]


def filled(broker: KafkaBroker, count: int = 6, settings: dict[str, str] | None = None) -> None:
    broker.create_topic("logs", 2, settings)
    for number in range(count):
        broker.produce("logs", batch(b"%d" % number), acks=-1)


@pytest.mark.parametrize("version", range(3))
def test_given_records_when_deleted_then_the_log_starts_there(version: int):
    with KafkaBroker() as broker:
        filled(broker)

        assert deleted(broker, "logs", (0, 4), (1, 0), version=version) == [(0, 4, 0), (1, 0, 0)]
        assert broker.partition("logs").log.log_start_offset == 4


@pytest.mark.parametrize("version", range(3))
def test_given_minus_1_when_deleted_then_all_that_is_committed_goes(version: int):
    with KafkaBroker() as broker:
        filled(broker)

        assert deleted(broker, "logs", (0, -1), version=version) == [(0, 6, 0)]
        assert broker.partition("logs").log.log_start_offset == 6


def test_given_an_offset_below_the_log_start_when_deleted_then_nothing_comes_back():
    with KafkaBroker() as broker:
        filled(broker)
        deleted(broker, "logs", (0, 4))

        assert deleted(broker, "logs", (0, 2)) == [(0, 4, 0)]


@pytest.mark.parametrize("version", range(3))
def test_given_what_cannot_be_when_deleted_then_each_partition_says_so(version: int):
    with KafkaBroker() as broker:
        filled(broker)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        answer = deleted(broker, "logs", (0, 7), (0, -2), (2, 0), (-1, 0), (0, 3), version=version)

        assert answer == [
            (0, -1, OUT_OF_RANGE),
            (0, -1, OUT_OF_RANGE),
            (2, -1, unknown),
            (-1, -1, unknown),
            (0, 3, 0),
        ]
        assert deleted(broker, "none", (0, 0), version=version) == [(0, -1, unknown)]
        assert deleted(broker, "a b", (0, 0)) == [(0, -1, ErrorCode.INVALID_TOPIC)]
        assert broker.kafka_errors("delete_records") == {
            OUT_OF_RANGE: 2, unknown: 3, ErrorCode.INVALID_TOPIC: 1,
        }  # fmt: skip


def test_given_an_internal_topic_when_deleted_from_then_it_is_refused():
    with KafkaBroker() as broker:
        broker.loop.run(broker.manager.ensure_topic("__consumer_offsets"))

        assert deleted(broker, "__consumer_offsets", (0, -1)) == [(0, -1, ErrorCode.INVALID_TOPIC)]


@pytest.mark.parametrize(("policy", "error"), [("compact", 44), ("compact,delete", 0), ("", 0)])
def test_given_a_compacted_topic_when_deleted_from_then_its_policy_decides(policy: str, error: int):
    with KafkaBroker() as broker:
        broker.create_topic("logs", 1, {"cleanup.policy": policy})

        assert deleted(broker, "logs", (0, 0)) == [(0, 0 if not error else -1, error)]


@pytest.mark.parametrize("seed", range(3))
def test_given_records_when_deleted_then_a_power_cut_does_not_bring_them_back(
    tmp_path: Path, seed: int
):
    disk, registry = FakeDisk(), tmp_path / "registry.sqlite"
    broker = KafkaBroker(disk=disk, registry=registry)
    broker.open()
    filled(broker)
    assert deleted(broker, "logs", (0, 4)) == [(0, 4, 0)]
    broker.kill()
    disk.crash(Random(seed))

    with KafkaBroker(disk=disk, registry=registry) as broker:
        assert broker.partition("logs").log.log_start_offset == 4


def test_given_log_starts_that_cannot_be_saved_when_deleted_then_the_answer_says_so():
    with KafkaBroker() as broker:
        filled(broker)

        async def refuse(_: object) -> None:
            raise StorageError("the disk is full")

        broker.manager.save_log_starts = refuse  # type: ignore[method-assign]

        assert deleted(broker, "logs", (0, 4), (1, 9)) == [
            (0, -1, ErrorCode.KAFKA_STORAGE_ERROR),
            (1, -1, OUT_OF_RANGE),
        ]


def test_given_a_slow_disk_when_deleted_then_the_answer_comes_when_its_time_is_up():
    with KafkaBroker() as broker:
        filled(broker)
        slow = broker.loop.create_future()

        async def wait(_: object) -> None:
            await slow

        broker.manager.save_log_starts = wait  # type: ignore[method-assign]
        sent = broker.ask(deletion("logs", (0, 4), timeout_ms=500))
        broker.loop.advance(490)
        assert sent.is_waiting
        assert sent.pauses_reading
        broker.loop.advance(20)

        (result,) = sent.response.topics[0].partitions
        assert (result.error_code, result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        slow.set_result(None)
        broker.loop.settle()


def test_given_many_topics_when_deleted_from_then_other_requests_go_in_between():
    with KafkaBroker() as broker:
        one = [DeleteRecordsPartition(0, 0)]
        topics = [DeleteRecordsTopic(f"none-{number}", one) for number in range(100)]

        sent = broker.ask(DeleteRecordsRequest(topics, MINUTE_MS), settle=False)
        for _ in range(5):
            broker.loop.turn()
        assert sent.is_waiting
        broker.loop.settle()

        found = sent.response.topics
        assert [each.name for each in found] == [topic.name for topic in topics]
        assert all(len(each.partitions) == 1 for each in found)
