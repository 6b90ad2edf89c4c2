"""PartitionManager: topics and their data over starts, stops and crashes."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from broker.topic_registry import TopicRegistry
from protocol.error_codes import ErrorCode
from protocol.errors import (
    DataDirectoryError,
)
from tests.support.broker_machine import Machine
from tests.support.native_broker import NativeBroker, batch


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
