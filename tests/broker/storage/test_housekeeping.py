"""Housekeeping: what is due when; the loop decides, a thread waits for the disk."""

from __future__ import annotations

import errno
import itertools
import os

import msgspec
import pytest

from broker.clock import ManualClock
from broker.steps import run_to_end
from broker.storage.deletion import CLOSED_SEGMENTS_MAX
from broker.storage.durable_offsets import read_durable_offsets
from broker.storage.housekeeping import SEGMENTS_PER_TURN, Housekeeping
from broker.storage.segment import LogSegment
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
    run_to_end(
        storage.directory.create_steps(
            [(TopicPartition("many", number), TOPIC_ID, RETAINING) for number in range(120)]
        )
    )
    for log in storage.directory.logs.values():
        if log.log_end_offset == 0:
            log.append(batch(b"x"))
            log.flush()
    storage.clock.advance(ms=2_000)

    remaining = []
    has_more = True
    while has_more:
        has_more = housekeeping.turn(now(storage))
        logs = storage.directory.logs.values()
        remaining.append(sum(log.log_start_offset == 0 for log in logs))

    deleted = [before - after for before, after in itertools.pairwise([121, *remaining])]
    assert sum(deleted) == 121
    assert max(deleted) <= SEGMENTS_PER_TURN
    assert len(deleted) > 121 // SEGMENTS_PER_TURN


def test_given_a_log_of_many_segments_when_they_are_due_then_they_go_in_turns():
    """R38, R39: neither deleting nor renaming thousands of files holds up the loop."""
    storage = LogStorage(RETAINING)
    for _ in range(400):
        storage.append(b"x")
    storage.flush()
    housekeeping = Housekeeping(storage.directory)
    storage.clock.advance(ms=2_000)

    counts = [len(storage.log.segments)]
    while housekeeping.turn(now(storage)):
        counts.append(len(storage.log.segments))
        housekeeping.check_soon(storage.log)  # asking twice does no harm
    assert counts[0] == 100
    assert storage.log.segments.base_offsets == (400,)
    assert max(a - b for a, b in itertools.pairwise(counts)) <= SEGMENTS_PER_TURN

    task = housekeeping.due(now(storage))
    assert task is not None
    task.run()
    housekeeping.done()
    renamed = [0]
    while renamed[-1] < 100:
        housekeeping.turn(now(storage))
        renamed.append(sum(name.endswith(".log.deleted") for name in storage.names()))
    assert max(b - a for a, b in itertools.pairwise(renamed)) <= SEGMENTS_PER_TURN

    storage.clock.advance(ms=storage.config.file_delete_delay_ms)
    left = [100]
    while left[-1]:
        housekeeping.run_due(now(storage))
        left.append(sum(name.endswith(".log.deleted") for name in storage.names()))
    assert max(a - b for a, b in itertools.pairwise(left)) <= CLOSED_SEGMENTS_MAX


class SlowClock(ManualClock):
    """A clock by which a millisecond passes each time that it is asked."""

    def monotonic(self) -> float:
        self.advance(ms=1)
        return super().monotonic()


def test_given_a_slow_machine_when_a_turn_has_taken_its_time_then_it_ends():
    storage, housekeeping = started()
    storage.directory.context.clock = SlowClock(storage.clock.now_ms() + 2_000)
    storage.directory.create_log(TopicPartition("more", 0), TOPIC_ID, RETAINING)

    assert housekeeping.turn(now(storage) + 1)

    assert storage.log.log_start_offset == 4  # one segment took all the time that a turn has
    has_more = [housekeeping.turn(now(storage) + 1) for _ in range(4)]
    assert storage.log.log_start_offset == 9
    assert not has_more[-1]


def test_given_a_log_to_be_looked_at_soon_when_it_is_then_before_the_next_round():
    """What delete-records frees goes at once, not up to five minutes later."""
    storage, housekeeping = started(SMALL_SEGMENTS)
    housekeeping.run_due(now(storage))
    storage.log.advance_log_start(8)
    housekeeping.run_due(now(storage))
    assert len(storage.log.segments) == 3

    housekeeping.check_soon(storage.log)
    housekeeping.run_due(now(storage))

    assert storage.log.segments.base_offsets == (8,)


def test_given_somebody_who_waits_when_the_offsets_are_checkpointed_then_it_is_said_whether():
    storage, housekeeping = started()
    said: list[bool] = []
    storage.log.advance_log_start(5)
    housekeeping.checkpoint_soon(said.append)
    task = housekeeping.due(now(storage))
    assert task is not None
    storage.log.advance_log_start(6)
    housekeeping.checkpoint_soon(said.append)  # this one is of the next task
    assert said == []

    task.run()
    housekeeping.done()
    assert said == [True]
    assert b"tide 0 5" in storage.disk.read_file(ROOT / "log-start-offset-checkpoint")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    storage.disk.fail("write", full, path_suffix="checkpoint.tmp")
    housekeeping.run_due(now(storage))
    assert said == [True, False]

    housekeeping.checkpoint_soon(said.append)
    housekeeping.give_up()
    assert said == [True, False, False]


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


def test_given_segments_that_nobody_has_looked_at_when_a_round_begins_then_few_are_in_a_turn(
    monkeypatch,
):
    """Each has its files opened and its end read: some milliseconds, where its index is sparse."""
    storage = LogStorage(RETAINING)
    for _ in range(80):
        storage.append(b"x")
    storage.flush()
    storage.restart()
    housekeeping = Housekeeping(storage.directory)
    storage.clock.advance(ms=2_000)
    look, looks = LogSegment.largest_timestamp, 0

    def slow(segment: LogSegment) -> int:
        nonlocal looks
        looks += 1
        storage.clock.advance(ms=5)
        return look(segment)

    monkeypatch.setattr(LogSegment, "largest_timestamp", slow)
    counts = [0]
    while housekeeping.turn(now(storage)):
        counts.append(looks)

    assert storage.log.segments.base_offsets == (80,)
    assert max(b - a for a, b in itertools.pairwise(counts)) <= 2
