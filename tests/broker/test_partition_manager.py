"""PartitionManager: topics over starts, stops, crashes, deletions and missing directories."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from broker.storage.log_config import FlushPolicy
from broker.topic_registry import TopicRegistry
from protocol.error_codes import ErrorCode
from protocol.errors import (
    DataDirectoryError,
    StorageError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from protocol.native import requests
from tests.support.fake_disk import FakeDisk, SimulatedCrash
from tests.support.native_broker import CLOCK_START_MS, NativeBroker, batch, config_of

TWO = ("/data", "/other")


class Machine:
    """A disk and a registry that outlive brokers."""

    def __init__(self, registry: Path) -> None:
        self.disk, self.registry = FakeDisk(), registry

    def broker(self, **options: Any) -> NativeBroker:
        return NativeBroker(disk=self.disk, registry=self.registry, **options)

    def names(self, directory: str = "/data") -> list[str]:
        """Partition directories, those being deleted too."""
        names = self.disk.list_directory(Path(directory))
        return [name for name in names if self.disk.is_directory(Path(directory) / name)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "registry.sqlite")


# --- starts and stops -----------------------------------------------------------------------------


def test_given_topics_when_stopped_and_started_then_they_and_their_data_are_there(machine: Machine):
    with machine.broker() as broker:
        broker.create_topic("logs", 2, {"retention_ms": "5"})
        broker.produce("logs", batch(b"a", b"b"), partition=1)
        before = broker.manager.topics()

    with machine.broker() as broker:
        assert broker.manager.topics() == before
        assert before[0].settings == {"retention.ms": "5"}
        assert broker.partition("logs", 1).log.config.retention_ms == 5
        assert broker.partition("logs", 1).log.high_watermark == 2
        assert broker.partition("logs", 1).log.topic_id == before[0].topic_id


def test_given_a_clean_stop_when_looked_at_then_the_marker_is_there_and_a_start_removes_it(
    machine: Machine,
):
    marker = Path("/data/.kafka_cleanshutdown")
    with machine.broker() as broker:
        broker.create_topic("logs")
    stopped = machine.disk.exists(marker)

    with machine.broker():
        started = machine.disk.exists(marker)

    assert (stopped, started) == (True, False)


@pytest.mark.parametrize("seed", range(5))
def test_given_a_power_cut_after_a_creation_when_started_then_the_topic_is_there(
    machine: Machine, seed: int
):
    """Topics are known durably before their directories exist."""
    broker = machine.broker().open()
    broker.create_topic("logs", 3)
    created = broker.manager.topics()
    broker.kill()
    machine.disk.crash(Random(seed))

    with machine.broker() as broker:
        assert broker.manager.topics() == created
        assert [broker.produce("logs", batch(b"x"), partition=n).error for n in range(3)] == [0] * 3


@pytest.mark.parametrize("seed", range(5))
def test_given_a_power_cut_when_started_then_everything_acknowledged_by_all_is_there(
    machine: Machine, seed: int
):
    broker = machine.broker().open()
    broker.create_topic("logs")
    acknowledged = 0
    for n in range(5):
        acknowledged += broker.produce("logs", batch(b"%d" % n), acks=-1).error == 0
    broker.kill()
    machine.disk.crash(Random(seed))

    with machine.broker() as broker:
        assert acknowledged == 5
        assert broker.partition("logs").log.high_watermark == 5


def test_given_a_row_without_directories_when_started_then_they_are_made(machine: Machine):
    with machine.broker() as broker:
        broker.create_topic("logs", 2)
    machine.disk.rename(Path("/data/logs-1"), Path("/away"))

    with machine.broker() as broker:
        assert machine.names() == ["logs-0", "logs-1"]
        assert broker.partition("logs", 1).log.log_end_offset == 0


@pytest.mark.parametrize("clean", [True, False])
def test_given_durable_records_whose_directory_is_gone_when_started_then_it_is_never_empty(
    machine: Machine, clean: bool
):
    """Readers would be told "empty", and acknowledged offsets given to other records."""
    broker = machine.broker().open()
    broker.create_topic("logs", 2)
    for number in range(2):
        broker.produce("logs", batch(b"a", b"b"), partition=number, acks=-1)
    if clean:
        broker.close()
    else:
        broker.kill()
        machine.disk.kill()
    machine.disk.rename(Path("/data/logs-1"), Path("/away"))

    for _ in range(2):  # it stays known
        with machine.broker() as broker:
            assert broker.fetch("logs", 0, partition=1).error == ErrorCode.KAFKA_STORAGE_ERROR
            assert broker.partition("logs", 0).log.high_watermark == 2
            assert any("logs-1" in sentence for sentence in broker.manager.degraded())
    machine.disk.rename(Path("/away"), Path("/data/logs-1"))
    with machine.broker() as broker:
        assert broker.partition("logs", 1).log.high_watermark == 2


def test_given_a_directory_of_another_program_when_started_then_its_topics_are_adopted(
    machine: Machine, tmp_path: Path
):
    """A Kafka directory has no registry: what `partition.metadata` says is taken over."""
    with machine.broker() as broker:
        broker.create_topic("logs", 2)
        broker.produce("logs", batch(b"a"), partition=1)
        topic_id = broker.manager.topic("logs").topic_id
    machine.registry = tmp_path / "new.sqlite"

    for _ in range(2):  # adopting is done once, and stays
        with machine.broker() as broker:
            (entry,) = broker.manager.topics()
            assert (entry.name, entry.topic_id, entry.partition_count) == ("logs", topic_id, 2)
            assert broker.partition("logs", 1).log.high_watermark == 1


def test_given_a_partition_without_metadata_when_started_then_its_topic_gets_one_id(
    machine: Machine, tmp_path: Path
):
    with machine.broker() as broker:
        broker.create_topic("logs", 2)
    for number in range(2):
        machine.disk.unlink(Path(f"/data/logs-{number}/partition.metadata"))
    machine.registry = tmp_path / "new.sqlite"

    with machine.broker() as broker:
        ids = {broker.partition("logs", number).log.topic_id for number in range(2)}

        assert ids == {broker.manager.topic("logs").topic_id}


def test_given_a_second_broker_when_opened_then_it_is_refused(machine: Machine, tmp_path: Path):
    with machine.broker():
        second = NativeBroker(disk=machine.disk, registry=tmp_path / "second.sqlite")

        with pytest.raises(DataDirectoryError, match="in use"):
            second.open()

        second.loop.run(second.manager.close())  # closing what never opened is no error
        second.loop.close()


def test_given_a_log_that_cannot_be_read_when_started_then_the_others_are_served(machine: Machine):
    with machine.broker() as broker:
        broker.create_topic("logs", 2)
        broker.produce("logs", batch(b"a"), partition=1)
    machine.disk.fail(
        "open",
        OSError(errno.EIO, "Input/output error"),
        times=100,
        path_suffix="logs-0/" + "0" * 20 + ".log",
    )

    with machine.broker() as broker:
        codes = [broker.fetch("logs", 0, partition=number).error for number in range(2)]

        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
        assert len(broker.manager.degraded()) == 1
        machine.disk.kill()  # lets go of the faults
        broker.kill()


def test_given_settings_of_a_newer_version_when_started_then_the_topic_has_the_defaults(
    machine: Machine,
):
    with machine.broker() as broker:
        broker.create_topic("logs")
    registry = TopicRegistry.open(machine.registry)
    registry.set_settings("logs", {"from.the.future": "1", "retention.ms": "5"})
    registry.close()

    with machine.broker() as broker:
        assert broker.partition("logs").log.config == broker.config.topics.log_config()


# --- several directories --------------------------------------------------------------------------


def test_given_several_directories_when_partitions_are_made_then_the_least_used_gets_them(
    machine: Machine,
):
    with machine.broker(data_dirs=TWO) as broker:
        broker.create_topic("logs", 3)
        broker.create_topic("more", 1)

        assert machine.names("/data") == ["logs-0", "logs-2"]
        assert machine.names("/other") == ["logs-1", "more-0"]


def test_given_a_missing_directory_when_started_then_it_is_refused(machine: Machine):
    with machine.broker(data_dirs=TWO) as broker:
        broker.create_topic("logs", 2)
    machine.disk.rename(Path("/other"), Path("/away"))

    with pytest.raises(DataDirectoryError, match="/other was in use before and is missing"):
        machine.broker(data_dirs=TWO).open()

    machine.disk.make_directory(Path("/other"))  # a mount point with nothing mounted
    with pytest.raises(DataDirectoryError, match="/other was in use before and is empty"):
        machine.broker(data_dirs=TWO).open()


def test_given_a_directory_that_may_be_missing_when_started_then_its_partitions_are_never_empty(
    machine: Machine,
):
    with machine.broker(data_dirs=TWO) as broker:
        broker.create_topic("logs", 2)
        broker.produce("logs", batch(b"a"), partition=1)
    machine.disk.rename(Path("/other"), Path("/away"))

    with machine.broker(data_dirs=TWO, allow_missing_dirs=("/other",)) as broker:
        assert broker.fetch("logs", 0, partition=1).error == ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.fetch("logs", 0, partition=0).error == 0
        assert broker.manager.degraded() == ["data directory /other is missing"]
        broker.create_topic("new", 2)
        assert machine.names("/data") == ["logs-0", "new-0", "new-1"]

    machine.disk.rename(Path("/away"), Path("/other"))
    with machine.broker(data_dirs=TWO) as broker:
        assert broker.partition("logs", 1).log.high_watermark == 1
        assert not broker.manager.degraded()


def test_given_a_topic_deleted_meanwhile_when_its_directory_is_back_then_it_goes_too(
    machine: Machine,
):
    with machine.broker(data_dirs=TWO) as broker:
        broker.create_topic("logs", 2)
        broker.produce("logs", batch(b"old"), partition=1)
    machine.disk.rename(Path("/other"), Path("/away"))
    with machine.broker(data_dirs=TWO, allow_missing_dirs=("/other",)) as broker:
        assert broker.send(requests.encode_delete_topic("logs")).status == (0, "")
        broker.create_topic("logs", 2)
    machine.disk.rename(Path("/away"), Path("/other"))

    with machine.broker(data_dirs=TWO) as broker:
        assert broker.partition("logs", 1).log.log_end_offset == 0
        broker.loop.advance(1_000)
        assert machine.names("/other") == []


def test_given_the_first_directory_is_not_mounted_when_started_then_nothing_is_written_into_it(
    machine: Machine, tmp_path: Path
):
    with machine.broker(data_dirs=TWO) as broker:
        broker.create_topic("logs", 2)
    machine.disk.rename(Path("/data"), Path("/away"))
    machine.registry = tmp_path / "made anew.sqlite"

    with pytest.raises(DataDirectoryError, match="held the list of topics"):
        machine.broker(data_dirs=TWO, allow_missing_dirs=("/data",)).open()

    assert not machine.disk.exists(Path("/data"))
    assert not machine.registry.exists()


def test_given_a_directory_no_longer_named_when_its_partitions_are_missing_then_it_is_refused(
    machine: Machine,
):
    with machine.broker(data_dirs=TWO) as broker:
        broker.create_topic("logs", 2)

    with pytest.raises(DataDirectoryError, match="/other, in use before, is not configured"):
        machine.broker().open()

    machine.disk.rename(Path("/other/logs-1"), Path("/data/logs-1"))  # moved by hand: then it may
    with machine.broker() as broker:
        assert broker.partition("logs", 1).log.log_end_offset == 0


def test_given_a_new_directory_when_named_after_the_others_then_it_is_made(machine: Machine):
    with machine.broker() as broker:
        broker.create_topic("logs", 2)

    with machine.broker(data_dirs=("/data", "/other")) as broker:
        broker.create_topic("more", 2)

    assert machine.names("/other") == ["more-0", "more-1"]


def test_given_a_refused_start_when_tried_again_then_nothing_is_locked(machine: Machine):
    with machine.broker(data_dirs=TWO) as broker:
        broker.create_topic("logs", 2)
    refused = machine.broker()
    with pytest.raises(DataDirectoryError):
        refused.open()

    with machine.broker(data_dirs=TWO) as broker:
        assert broker.partition("logs", 1).log.log_end_offset == 0


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


# --- durability -----------------------------------------------------------------------------------


def test_given_a_failed_sync_when_it_ends_then_no_partition_answers_any_more(machine: Machine):
    with machine.broker(hold_flush=True) as broker:
        broker.create_topic("broken")
        broker.create_topic("sound")
        waiting = broker.produce("broken", batch(b"a"), acks=-1)
        machine.disk.fail("sync", OSError(errno.EIO, "Input/output error"))

        broker.flushes.follow()
        broker.loop.settle()

        assert waiting.produced.error == ErrorCode.KAFKA_STORAGE_ERROR
        assert [error.errno for error in broker.fatal] == [errno.EIO]
        for topic in ("broken", "sound"):
            assert broker.produce(topic, batch(b"b")).error == ErrorCode.KAFKA_STORAGE_ERROR
            assert broker.fetch(topic, 0).error == ErrorCode.KAFKA_STORAGE_ERROR
        creation = broker.send(requests.encode_create_topic("new", 1))
        assert creation.error == ErrorCode.KAFKA_STORAGE_ERROR


def test_given_a_failed_sync_when_closed_then_there_is_no_clean_marker(machine: Machine):
    broker = machine.broker().open()
    broker.create_topic("logs")
    machine.disk.fail("sync", OSError(errno.EIO, "Input/output error"), path_suffix=".log")
    broker.produce("logs", batch(b"a"))

    with pytest.raises(OSError, match="Input/output error"):
        broker.close()

    assert not machine.disk.exists(Path("/data/.kafka_cleanshutdown"))


def test_given_a_sync_of_durable_offsets_that_fails_when_it_is_due_then_it_is_fatal(
    machine: Machine,
):
    with machine.broker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a"), acks=-1)
        machine.disk.fail(
            "sync", OSError(errno.EIO, "Input/output error"), path_suffix="durable-offsets"
        )

        broker.loop.advance(2_000)

        assert len(broker.fatal) == 1


def test_given_policy_interval_when_its_time_comes_then_the_log_is_synced(machine: Machine):
    """R37: T ms after the first unflushed message, without a further append."""
    with machine.broker() as broker:
        broker.create_topic("logs", 1, {"flush.policy": "interval", "flush.ms": "3000"})
        assert broker.produce("logs", batch(b"a"), acks=-1).error == 0
        log = broker.partition("logs").log

        broker.loop.advance(2_900)
        early = log.durable_offset
        broker.loop.advance(200)

        assert log.config.flush_policy is FlushPolicy.INTERVAL
        assert (early, log.durable_offset) == (0, 1)


def test_given_policy_interval_when_enough_messages_came_then_the_log_is_synced(machine: Machine):
    """R37: after M messages of a partition."""
    with machine.broker() as broker:
        broker.create_topic("logs", 1, {"flush.policy": "interval", "flush.messages": "3"})
        log = broker.partition("logs").log
        durable = []
        for _ in range(4):
            broker.produce("logs", batch(b"a"))
            durable.append(log.durable_offset)

        assert durable == [0, 0, 3, 3]


def test_given_policy_os_when_stopped_then_everything_is_synced(machine: Machine):
    with machine.broker() as broker:
        broker.create_topic("logs", 1, {"flush.policy": "os"})
        broker.produce("logs", batch(b"a"))
    machine.disk.crash()

    with machine.broker() as broker:
        assert broker.partition("logs").log.high_watermark == 1


def test_given_a_second_when_it_has_passed_then_recovery_points_are_on_disk(machine: Machine):
    with machine.broker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a", b"b"), acks=-1)

        broker.loop.advance(1_500)

        checkpoint = machine.disk.read_file(Path("/data/recovery-point-offset-checkpoint"))
        assert b"logs 0 2" in checkpoint


def test_given_partitions_when_sampled_then_their_numbers_are_told(machine: Machine):
    with machine.broker() as broker:
        broker.create_topic("logs", 2)
        broker.produce("logs", batch(b"a", b"b"), partition=1, acks=-1)
        broker.fetch("logs", 0, partition=1)

        _, sample = broker.metrics.partition_samples()

        size = len(batch(b"a", b"b"))
        assert (sample.topic, sample.partition, sample.segment_count) == ("logs", 1, 1)
        assert (sample.high_watermark, sample.durable_offset, sample.log_end_offset) == (2, 2, 2)
        assert (sample.bytes_in, sample.messages_in, sample.bytes_out) == (size, 2, size)
        assert sample.size_bytes == size


def test_given_old_segments_when_their_time_comes_then_retention_runs_by_itself(machine: Machine):
    settings = {"segment.bytes": "100", "retention.ms": "60000", "file.delete.delay.ms": "1000"}
    with machine.broker(settings={"storage.retention_check_ms": 10_000}) as broker:
        broker.create_topic("logs", 1, settings)
        for _ in range(3):
            broker.produce("logs", batch(b"a", now_ms=CLOCK_START_MS), acks=-1)

        broker.loop.advance(80_000)

        assert broker.partition("logs").log.log_start_offset == 3
        segments = [n for n in machine.disk.list_directory(Path("/data/logs-0")) if ".log" in n]
        assert segments == ["00000000000000000003.log"]


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
