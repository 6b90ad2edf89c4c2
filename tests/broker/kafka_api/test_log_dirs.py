"""DescribeLogDirs, in all versions."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.kafka.log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tests.support.fake_disk import FakeDisk
from tests.support.kafka_broker import KafkaBroker
from tests.support.native_broker import batch

VERSIONS = range(1, 6)


def sizes(result: Any) -> dict[tuple[str, int], int]:
    """Partition sizes by topic and number; what every partition has in common must be so."""
    found: dict[tuple[str, int], int] = {}
    for topic in result.topics:
        for each in topic.partitions:
            assert (each.offset_lag, each.is_future_key) == (0, False)
            found[topic.name, each.partition_index] = each.partition_size
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_given_two_directories_when_described_then_each_says_what_it_holds(version: int):
    with KafkaBroker(data_dirs=("/data", "/more")) as broker:
        broker.create_topic("logs", 2)
        broker.create_topic("other")
        broker.produce("logs", batch(b"a"), partition=1)

        answer = broker.answer(DescribeLogDirsRequest(topics=None), version)

        assert (answer.error_code, answer.throttle_time_ms) == (0, 0)
        first, second = answer.results
        assert [(each.error_code, each.log_dir) for each in (first, second)] == [
            (0, "/data"), (0, "/more"),
        ]  # fmt: skip
        size = broker.partition("logs", 1).log.size_bytes
        assert size == len(batch(b"a"))
        assert sizes(first) == {("logs", 0): 0, ("other", 0): 0}
        assert sizes(second) == {("logs", 1): size}
        for each in (first, second):
            room = (each.total_bytes, each.usable_bytes)
            look = broker.manager.store.directories.present[0].guard.last
            assert look.total_bytes >= look.free_bytes > 0
            assert room == ((look.total_bytes, look.free_bytes) if version >= 4 else (-1, -1))
            assert not each.is_cordoned


@pytest.mark.parametrize("version", VERSIONS)
def test_given_partitions_when_they_are_asked_for_then_only_they_are_described(version: int):
    with KafkaBroker() as broker:
        broker.create_topic("logs", 3)
        broker.create_topic("other")
        asked = [
            DescribableLogDirTopic("logs", [0, 9]),
            DescribableLogDirTopic("logs", [2]),
            DescribableLogDirTopic("none", [0]),
        ]

        (some,) = broker.answer(DescribeLogDirsRequest(asked), version).results
        (none,) = broker.answer(DescribeLogDirsRequest([]), version).results

        assert sizes(some).keys() == {("logs", 0), ("logs", 2)}
        assert (none.error_code, none.topics) == (0, [])


@pytest.mark.parametrize("version", VERSIONS)
def test_given_a_directory_that_is_missing_when_described_then_it_says_so(
    tmp_path: Path, version: int
):
    disk, registry = FakeDisk(), tmp_path / "registry.sqlite"
    both = ("/data", "/more")
    with KafkaBroker(disk=disk, registry=registry, data_dirs=both) as broker:
        broker.create_topic("logs", 2)
    disk.rename(Path("/more"), Path("/elsewhere"))

    with KafkaBroker(
        disk=disk, registry=registry, data_dirs=both, allow_missing_dirs=("/more",)
    ) as broker:
        there, missing = broker.answer(DescribeLogDirsRequest(topics=None), version).results

        assert (there.error_code, list(sizes(there))) == (0, [("logs", 0)])
        assert (missing.error_code, missing.log_dir) == (ErrorCode.KAFKA_STORAGE_ERROR, "/more")
        assert (missing.topics, missing.total_bytes, missing.usable_bytes) == ([], -1, -1)
        assert broker.kafka_errors("describe_log_dirs") == {ErrorCode.KAFKA_STORAGE_ERROR: 1}


def test_given_a_directory_that_does_not_answer_when_described_then_it_says_so():
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        guard = broker.manager.store.directories.present[0].guard
        guard.note(guard.last._replace(error=OSError(errno.EIO, "Input/output error")))

        (result,) = broker.answer(DescribeLogDirsRequest(topics=None)).results

        assert (result.error_code, result.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
        guard.note(guard.look())


def test_given_a_topic_that_was_deleted_when_described_then_it_is_not_there():
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        broker.loop.run(broker.manager.delete_topic("logs"))

        (result,) = broker.answer(DescribeLogDirsRequest(topics=None)).results

        assert result.topics == []
