"""PartitionManager: what is synced when, and what a failed sync ends."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker.storage.log_config import FlushPolicy
from protocol.error_codes import ErrorCode
from protocol.native import requests
from tests.support.broker_machine import Machine
from tests.support.native_broker import CLOCK_START_MS, batch


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "registry.sqlite")


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
