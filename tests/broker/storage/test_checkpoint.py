"""Checkpoints: Kafka's three offset files, replaced atomically; all of them are hints."""

from __future__ import annotations

import errno
import os

import pytest

from broker.storage.checkpoint import read_offset_checkpoint
from tests.support.fake_disk import SimulatedCrash
from tests.support.log_storage import PARTITION, ROOT, LogStorage

RECOVERY_POINTS = ROOT / "recovery-point-offset-checkpoint"
LOG_STARTS = ROOT / "log-start-offset-checkpoint"
HIGH_WATERMARKS = ROOT / "replication-offset-checkpoint"


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


def test_given_a_garbled_file_when_read_then_it_says_nothing():
    storage = filled()
    storage.directory.checkpoint()
    file = storage.disk.open(RECOVERY_POINTS)
    file.write([b"?"], 0)

    assert read_offset_checkpoint(storage.disk, RECOVERY_POINTS) == {}
    assert read_offset_checkpoint(storage.disk, ROOT / "missing") == {}
