"""Housekeeping: what is due when; the loop decides, a thread waits for the disk."""

from __future__ import annotations

import errno
import os

import msgspec
import pytest

from broker.storage.durable_offsets import read_durable_offsets
from broker.storage.housekeeping import Housekeeping
from broker.storage.storage_options import StorageOptions
from protocol.identifiers import TopicPartition
from tests.support.log_storage import ROOT, SMALL_SEGMENTS, TOPIC_ID, LogStorage, batch

RETAINING = msgspec.structs.replace(SMALL_SEGMENTS, retention_ms=1_000)


def started(config=RETAINING) -> tuple[LogStorage, Housekeeping]:
    storage = LogStorage(config)
    for _ in range(9):
        storage.append(b"x")
    storage.flush()
    return storage, Housekeeping(storage.directory)


def now(storage: LogStorage) -> float:
    return storage.clock.monotonic()


def test_given_a_second_when_due_then_checkpoints_are_written_and_durable_offsets_synced():
    storage, housekeeping = started()
    storage.directory.context.is_checkpoint_due = False
    assert housekeeping.due(now(storage)) is None

    storage.clock.advance(ms=1_000)
    housekeeping.run_due(now(storage))
    storage.disk.crash()

    assert b"tide 0 9" in storage.disk.read_file(ROOT / "recovery-point-offset-checkpoint")
    assert read_durable_offsets(storage.disk, ROOT / "durable-offsets") == {(TOPIC_ID, 0): 9}


def test_given_a_roll_when_its_flush_is_over_then_a_checkpoint_is_due_at_once():
    """The recovery point is checkpointed at each roll: recovery stays bounded."""
    storage, housekeeping = started()
    housekeeping.run_due(now(storage))
    storage.log.roll()
    assert housekeeping.due(now(storage)) is None

    storage.flush()

    assert housekeeping.due(now(storage)) is not None


def test_given_many_bytes_when_flushed_then_a_checkpoint_is_due_at_once():
    """Every second or 64 MiB."""
    storage = LogStorage(options=StorageOptions(unflushed_bytes_max=150))
    housekeeping = Housekeeping(storage.directory)
    housekeeping.run_due(now(storage))
    storage.append(b"x")
    storage.flush()
    housekeeping.run_due(now(storage))  # the new partition's files
    for _ in range(2):
        storage.append(b"x")
        storage.flush()
    assert housekeeping.due(now(storage)) is None

    storage.append(b"x")
    storage.flush()

    assert housekeeping.due(now(storage)) is not None


def test_given_a_task_that_is_out_when_asked_again_then_none_until_it_is_done():
    storage, housekeeping = started()
    storage.clock.advance(ms=1_000)
    task = housekeeping.due(now(storage))
    assert task is not None
    storage.clock.advance(ms=1_000)

    assert housekeeping.due(now(storage)) is None
    task.run()
    housekeeping.done()

    assert housekeeping.due(now(storage)) is not None


def test_given_retention_check_ms_when_it_has_passed_then_old_segments_go():
    """R38: every `retention_check_ms`; R39: unlinked after the delay."""
    storage, housekeeping = started()
    housekeeping.run_due(now(storage))
    storage.clock.advance(ms=2_000)
    housekeeping.run_due(now(storage))
    assert len(storage.log.segments) == 3

    storage.clock.advance(ms=298_000)
    housekeeping.run_due(now(storage))
    assert storage.log.segments.base_offsets == (9,)
    assert [name for name in storage.names() if name.endswith(".deleted")]
    storage.clock.advance(ms=60_000)
    housekeeping.run_due(now(storage))

    assert not [name for name in storage.names() if name.endswith(".deleted")]


def test_given_many_logs_when_retention_is_due_then_it_is_done_in_turns():
    storage, housekeeping = started()
    storage.directory.create_logs(
        [(TopicPartition("many", number), TOPIC_ID, RETAINING) for number in range(120)]
    )
    for log in storage.directory.logs.values():
        if log.log_end_offset == 0:
            log.append(batch(b"x"))
            log.flush()
    storage.clock.advance(ms=2_000)

    remaining = []
    for _ in range(4):
        housekeeping.run_due(now(storage))
        logs = storage.directory.logs.values()
        remaining.append(sum(log.log_start_offset == 0 for log in logs))

    assert remaining == [71, 21, 0, 0]


def test_given_a_full_disk_when_checkpointing_then_the_next_round_makes_up_for_it():
    storage, housekeeping = started()
    storage.clock.advance(ms=1_000)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    storage.disk.fail("write", full, path_suffix="checkpoint.tmp")

    housekeeping.run_due(now(storage))
    storage.clock.advance(ms=1_000)
    housekeeping.run_due(now(storage))

    assert b"tide 0 9" in storage.disk.read_file(ROOT / "recovery-point-offset-checkpoint")


def test_given_a_sync_of_the_durable_offsets_that_fails_when_run_then_the_caller_learns_it():
    storage, housekeeping = started()
    storage.clock.advance(ms=1_000)
    broken = OSError(errno.EIO, os.strerror(errno.EIO))
    storage.disk.fail("sync", broken, path_suffix="durable-offsets")

    with pytest.raises(OSError, match="Input/output"):
        housekeeping.run_due(now(storage))


def test_given_deleted_segments_when_they_are_gone_then_their_log_is_looked_at_no_more():
    """R39: of thousands of logs only those with something to unlink are asked for it."""
    storage, housekeeping = started()
    deleting = storage.directory.context.deleting
    assert not deleting
    storage.clock.advance(ms=10_000)
    storage.log.delete_old_segments(storage.clock.now_ms())
    waited = len(deleting)

    for _ in range(2):  # checkpointed and renamed, then unlinked
        storage.clock.advance(ms=storage.config.file_delete_delay_ms)
        housekeeping.run_due(now(storage))

    assert waited == 1
    assert not deleting
    assert not [name for name in storage.names() if name.endswith(".deleted")]
