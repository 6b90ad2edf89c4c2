"""Checkpoints: Kafka's three offset files, replaced atomically; all of them are hints."""

from __future__ import annotations

import errno
import os
from uuid import UUID

import pytest
import structlog

from broker.steps import run_to_end
from broker.storage.checkpoint import Checkpoints, read_offset_checkpoint
from broker.storage.housekeeping import Housekeeping, HousekeepingTask
from broker.storage.log_config import LogConfig
from broker.storage.log_directory import LOGS_NOTED_PER_STEP
from protocol.identifiers import TopicPartition
from tests.support.fake_disk import SimulatedCrash
from tests.support.log_storage import PARTITION, ROOT, LogStorage, batch

RECOVERY_POINTS = ROOT / "recovery-point-offset-checkpoint"
LOG_STARTS = ROOT / "log-start-offset-checkpoint"
HIGH_WATERMARKS = ROOT / "replication-offset-checkpoint"


def storage_with_logs(count: int) -> LogStorage:
    storage = LogStorage()
    config = LogConfig(segment_index_bytes=96)  # a fake disk keeps sparse bytes in memory
    run_to_end(
        storage.directory.create_steps(
            [(TopicPartition("many", n), UUID(int=7), config) for n in range(count)]
        )
    )
    return storage


def filled() -> LogStorage:
    storage = LogStorage()
    for value in (b"a", b"b", b"c"):
        storage.append(value)
    storage.flush()
    return storage


def test_given_logs_when_checkpointed_then_the_files_are_kafkas_and_durable():
    storage = filled()
    storage.append(b"d")

    storage.directory.checkpoint()

    assert storage.disk.read_file(RECOVERY_POINTS) == b"0\n1\ntide 0 3\n"
    assert storage.disk.read_file(HIGH_WATERMARKS) == b"0\n1\ntide 0 3\n"
    assert storage.disk.read_file(LOG_STARTS) == b"0\n0\n"
    assert all(storage.disk.is_durable(path) for path in (RECOVERY_POINTS, LOG_STARTS))


def test_given_a_log_start_inside_a_segment_when_checkpointed_then_it_is_written_down():
    """As Kafka: a log start at a segment's base offset need not be."""
    storage = filled()
    storage.log.advance_log_start(2)

    storage.directory.checkpoint()
    log = storage.crash()

    assert storage.disk.read_file(LOG_STARTS) == b"0\n1\ntide 0 2\n"
    assert log.log_start_offset == 2
    assert storage.records() == [(2, b"c")]


def test_given_nothing_new_when_checkpointed_then_nothing_is_written():
    storage = filled()
    storage.directory.checkpoint()
    storage.disk.operations.clear()

    storage.directory.checkpoint()

    assert storage.disk.changes() == []


def test_given_a_snapshot_when_the_logs_go_on_then_it_says_what_was_true_when_it_was_taken():
    """The event loop never waits: the snapshot is written by a thread, later."""
    storage = filled()
    task = storage.directory.checkpoint_task()
    storage.append(b"d")
    storage.flush()

    task.run()

    assert read_offset_checkpoint(storage.disk, RECOVERY_POINTS) == {PARTITION: 3}


@pytest.mark.parametrize("changes", range(16))
def test_given_a_crash_at_any_step_when_read_then_the_old_or_the_new_one(changes):
    storage = filled()
    storage.directory.checkpoint()
    storage.append(b"d")
    storage.flush()
    storage.disk.crash_after(changes)
    try:
        storage.directory.checkpoint()
    except SimulatedCrash:
        pass

    storage.disk.crash()

    assert read_offset_checkpoint(storage.disk, RECOVERY_POINTS)[PARTITION] in {3, 4}
    storage.open()
    assert storage.log.log_end_offset == 4


def test_given_a_full_disk_when_checkpointing_then_the_old_one_holds_and_the_next_one_is_written():
    storage = filled()
    storage.directory.checkpoint()
    storage.append(b"d")
    storage.flush()
    storage.disk.fail("write", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    with pytest.raises(OSError, match="No space"):
        storage.directory.checkpoint()
    assert read_offset_checkpoint(storage.disk, RECOVERY_POINTS) == {PARTITION: 3}
    storage.directory.checkpoint()

    assert read_offset_checkpoint(storage.disk, RECOVERY_POINTS) == {PARTITION: 4}


@pytest.mark.parametrize("operation", ["write", "sync", "truncate"])
def test_given_a_full_disk_when_checkpointing_then_no_half_file_is_left_behind(operation):
    storage = filled()
    before = storage.disk.list_directory(ROOT)
    no_space = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    storage.disk.fail(operation, no_space, path_suffix="checkpoint.tmp")

    with pytest.raises(OSError, match="No space"):
        storage.directory.checkpoint()

    assert storage.disk.list_directory(ROOT) == before


def test_given_a_garbled_file_when_read_then_it_says_nothing():
    storage = filled()
    storage.directory.checkpoint()
    file = storage.disk.open(RECOVERY_POINTS)
    file.write([b"?"], 0)

    assert read_offset_checkpoint(storage.disk, RECOVERY_POINTS) == {}
    assert read_offset_checkpoint(storage.disk, ROOT / "missing") == {}


def test_given_many_logs_when_few_have_moved_then_only_those_are_visited():
    storage = storage_with_logs(300)
    storage.directory.checkpoint()
    checkpoints = storage.directory.checkpoints
    noted: list[str] = []
    note = checkpoints.note
    moved = [TopicPartition("many", number) for number in (7, 250)]
    for topic_partition in moved:
        log = storage.directory.logs[topic_partition]
        log.append(batch(b"v"))
        log.flush()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoints, "note", lambda _, log: noted.append(log.topic_partition))
        storage.directory.checkpoint_task()
    for topic_partition in moved:
        note(storage.directory.logs[topic_partition])
    storage.directory.checkpoint()

    assert sorted(noted) == moved
    assert checkpoints.written[RECOVERY_POINTS.name][moved[0]] == 1
    assert len(checkpoints.read(RECOVERY_POINTS.name)) == 301


def test_given_thousands_of_logs_that_moved_when_a_checkpoint_is_due_then_turns_stay_short():
    storage = storage_with_logs(3 * LOGS_NOTED_PER_STEP)
    housekeeping = Housekeeping(storage.directory)
    while housekeeping.turn(0.0):
        pass
    for log in storage.directory.logs.values():
        storage.directory.context.touched[log] = None
    storage.clock.advance(ms=2_000)
    now = storage.clock.monotonic()

    turns = 0
    tasks = []
    while not tasks:
        has_more = housekeeping.turn(now)
        turns += 1
        task = housekeeping.due(now)
        if task is not None and task.checkpoint is not None:
            tasks.append(task)
        assert has_more or tasks

    assert turns == 4
    assert not storage.directory.context.touched


def test_given_a_deleted_log_when_checkpointed_then_the_files_say_nothing_of_it():
    storage = storage_with_logs(3)
    storage.directory.checkpoint()

    storage.directory.delete_log(TopicPartition("many", 1))
    storage.directory.checkpoint()

    left = storage.directory.checkpoints.read(RECOVERY_POINTS.name)
    assert sorted(left) == [TopicPartition("many", 0), TopicPartition("many", 2), PARTITION]


def test_given_another_directory_in_its_place_when_checkpointed_then_it_is_left_alone():
    """An unmounted disk leaves an empty directory: what is written there is lost from sight."""
    storage = filled()
    storage.disk.rename(ROOT, ROOT.with_name("unmounted"))
    storage.disk.make_directory(ROOT)

    with pytest.raises(FileNotFoundError):
        storage.directory.checkpoint_task().run()

    assert storage.disk.list_directory(ROOT) == []


def test_given_checkpoints_that_fail_each_time_when_logged_then_each_reason_is_said_once():
    storage = filled()
    no_space = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    storage.disk.fail("write", no_space, path_suffix="checkpoint.tmp", times=3)

    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            storage.clock.advance(ms=1_100)
            Housekeeping(storage.directory)
            task = HousekeepingTask(None, None, storage.directory.checkpoint_task())
            task.run()

    assert [entry["event"] for entry in logged] == ["checkpoints not written; tried again"]
