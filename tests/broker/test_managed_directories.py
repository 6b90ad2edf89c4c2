"""PartitionManager: several data directories, new, missing and back again."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from protocol.errors import (
    DataDirectoryError,
)
from protocol.native import requests
from tests.support.broker_machine import Machine
from tests.support.native_broker import batch

TWO = ("/data", "/other")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "registry.sqlite")


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
