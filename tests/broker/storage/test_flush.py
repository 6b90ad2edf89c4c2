"""Flushing: when it is due (R37), what one flush makes durable and in which order, failure."""

from __future__ import annotations

import errno
import os
from itertools import pairwise
from uuid import UUID

import pytest

from broker.storage.flush import DUE_NOW, flush_due_at
from broker.storage.log_config import FlushPolicy, LogConfig
from broker.storage.partition_log import PartitionLog
from broker.storage.storage_options import StorageOptions
from protocol.errors import StorageError
from protocol.identifiers import TopicPartition
from tests.support.log_storage import SMALL_SEGMENTS, LogStorage, batch

BROKEN = OSError(errno.EIO, os.strerror(errno.EIO))


class Listener:
    """Remembers when it was told to flush, and what failed."""

    def __init__(self, log: PartitionLog) -> None:
        self.due: list[float | None] = []
        self.failures: list[OSError] = []
        log.listener = self

    def unflushed(self, log):
        self.due.append(log.flush_due_at)

    def high_watermark_moved(self, log):
        pass

    def log_failed(self, log, error):
        self.failures.append(error)


# --- when ---------------------------------------------------------------------------------------


def due_at(config: LogConfig, **changes) -> float | None:
    state = {
        "unflushed_bytes": 100,
        "unflushed_messages": 5,
        "unflushed_bytes_max": 1_000,
        "first_unflushed_at": 50.0,
        "has_sealed": False,
    }
    return flush_due_at(config, **(state | changes))


COMMIT = LogConfig()
INTERVAL = LogConfig(flush_policy=FlushPolicy.INTERVAL, flush_messages=10, flush_ms=2_000)
OS = LogConfig(flush_policy=FlushPolicy.OS, flush_messages=1, flush_ms=1)


def test_given_each_policy_when_some_is_unflushed_then_it_is_due_as_the_policy_says():
    """R37: after M messages, or T ms after the first unflushed one."""
    assert due_at(COMMIT) == DUE_NOW
    assert due_at(INTERVAL) == 52.0
    assert due_at(INTERVAL, unflushed_messages=9) == 52.0
    assert due_at(INTERVAL, unflushed_messages=10) == DUE_NOW
    assert due_at(LogConfig(flush_policy=FlushPolicy.INTERVAL)) is None
    assert due_at(OS) is None


@pytest.mark.parametrize("config", [COMMIT, INTERVAL, OS])
def test_given_any_policy_when_much_is_unflushed_or_a_segment_sealed_then_it_is_due_at_once(config):
    """R37: recovery stays bounded under every policy."""
    assert due_at(config, unflushed_bytes=1_001) == DUE_NOW
    assert due_at(config, unflushed_bytes=0, has_sealed=True) == DUE_NOW
    assert due_at(config, unflushed_bytes=0) is None


def test_given_policy_commit_when_appending_then_the_listener_is_told_once_a_flush():
    storage = LogStorage()
    listener = Listener(storage.log)

    storage.append(b"a")
    storage.append(b"b")
    task = storage.log.flush_task()
    storage.append(b"c")
    assert listener.due == [DUE_NOW]
    task.run()
    storage.log.flush_completed(task)

    assert listener.due == [DUE_NOW, DUE_NOW]
    storage.flush()
    assert listener.due == [DUE_NOW, DUE_NOW]
    assert storage.log.flush_due_at is None


def test_given_a_quiet_topic_when_the_interval_passes_then_it_is_due_without_a_further_append():
    """R37: the timer counts from the first unflushed message."""
    storage = LogStorage(INTERVAL)
    listener = Listener(storage.log)

    start = storage.clock.monotonic()
    storage.append(b"a")
    storage.clock.advance(ms=1_500)
    storage.append(b"b")

    assert listener.due == [start + 2.0]
    assert storage.log.flush_due_at == start + 2.0


def test_given_the_interval_when_m_messages_came_then_it_is_due_at_once():
    """R37"""
    storage = LogStorage(INTERVAL)
    listener = Listener(storage.log)

    storage.append(*[b"x"] * 9)
    storage.append(b"x")

    assert listener.due == [storage.clock.monotonic() + 2.0, DUE_NOW]


def test_given_the_interval_when_bytes_came_during_a_flush_then_they_are_due_in_their_turn():
    """R37"""
    storage = LogStorage(INTERVAL)
    storage.append(b"a")
    task = storage.log.flush_task()
    storage.append(b"b")
    taken_at = storage.clock.monotonic()
    storage.clock.advance(ms=500)

    task.run()
    storage.log.flush_completed(task)

    assert storage.log.flush_due_at == taken_at + 2.0


def test_given_policy_os_when_appending_then_only_much_and_a_roll_are_told():
    storage = LogStorage(OS, options=StorageOptions(unflushed_bytes_max=200))
    listener = Listener(storage.log)

    storage.append(b"a")
    storage.append(b"b")
    assert listener.due == []
    storage.append(b"c")
    assert listener.due == [DUE_NOW]
    storage.flush()
    storage.log.roll()

    assert listener.due == [DUE_NOW, DUE_NOW]


def test_given_a_roll_when_flushed_then_the_sealed_segment_and_its_indexes_are_durable():
    """R27: on roll the old segment is flushed."""
    storage = LogStorage(SMALL_SEGMENTS)
    for _ in range(5):
        storage.append(b"x")
    sealed, active = storage.log.segments

    storage.flush()

    for path in (sealed.path, sealed.offset_index.path, sealed.time_index.path, active.path):
        assert storage.disk.is_durable(path), path
    assert storage.log.durable_offset == 5


def test_given_many_bytes_when_asked_for_write_back_then_each_byte_is_named_once():
    storage = LogStorage(OS, options=StorageOptions(writeback_bytes=150))
    listener = Listener(storage.log)
    ranges = []

    for _ in range(7):
        storage.append(b"x")
        if (due := storage.log.writeback_due()) is not None:
            file, position, size = due
            file.start_writeback(position, size)
            ranges.append((position, position + size))

    assert len(listener.due) == len(ranges) == 2
    assert ranges[0][0] == 0
    assert all(before[1] == after[0] for before, after in pairwise(ranges))


def test_given_policy_commit_when_asked_for_write_back_then_the_syncs_do_it_all():
    storage = LogStorage(options=StorageOptions(writeback_bytes=150))

    named = []
    for _ in range(7):
        storage.append(b"x")
        named.append(storage.log.writeback_due())

    assert named == [None] * 7


# --- what and in which order ---------------------------------------------------------------------


def test_given_a_new_partition_when_first_flushed_then_files_first_then_their_directories():
    """A file whose name is lost is lost: entries are synced with the first batch."""
    storage = LogStorage()
    storage.append(b"a")
    storage.disk.operations.clear()

    storage.log.flush()

    names = [(each.name, each.path.name) for each in storage.disk.changes()]
    assert names == [
        ("sync", "00000000000000000000.log"),
        ("sync", "partition.metadata"),
        ("sync", "leader-epoch-checkpoint"),
        ("sync_directory", "tide-0"),
        ("sync_directory", "data"),
    ]
    storage.append(b"b")
    storage.disk.operations.clear()
    storage.log.flush()
    assert [each.name for each in storage.disk.changes()] == ["sync"]


def test_given_a_task_that_is_out_when_another_is_asked_for_then_none():
    storage = LogStorage()
    storage.append(b"a")
    task = storage.log.flush_task()
    storage.append(b"b")

    assert storage.log.flush_task() is None
    task.run()
    storage.log.flush_completed(task)

    again = storage.log.flush_task()
    assert again is not None
    assert (again.end.message_offset, again.size_bytes) == (2, len(batch(b"b")))


def test_given_nothing_unflushed_when_a_task_is_asked_for_then_none():
    storage = LogStorage()
    storage.append(b"a")
    storage.flush()

    assert storage.log.flush_task() is None
    assert storage.log.unflushed_bytes == 0


@pytest.mark.parametrize("operation", ["sync", "sync_directory"])
def test_given_a_sync_that_fails_when_flushing_then_nothing_counts_and_nothing_more_is_accepted(
    operation,
):
    """A failed fsync is final: no retry, no acknowledgement, no further append."""
    storage = LogStorage()
    listener = Listener(storage.log)
    storage.append(b"a")
    storage.disk.fail(operation, BROKEN)
    task = storage.log.flush_task()

    with pytest.raises(OSError, match="Input/output"):
        task.run()
    storage.log.flush_failed(task, BROKEN)

    assert listener.failures == [BROKEN]
    assert (storage.log.durable_offset, storage.log.high_watermark) == (0, 0)
    assert storage.log.flush_task() is None
    with pytest.raises(StorageError, match="has failed"):
        storage.append(b"b")
    storage.log.close()  # saves nothing, and raises nothing
    assert storage.crash() is not None
    assert storage.records() == []


def test_given_a_failed_sync_when_the_log_was_committed_before_then_that_stays_readable():
    storage = LogStorage()
    storage.append(b"a")
    storage.flush()
    storage.append(b"b")
    storage.disk.fail("sync", BROKEN)

    with pytest.raises(OSError, match="Input/output"):
        storage.log.flush()

    assert storage.records() == [(0, b"a")]


def test_given_many_logs_when_flushed_then_the_descriptor_that_wrote_is_the_one_that_syncs():
    """A file with unflushed bytes is pinned, however few files may be open."""
    storage = LogStorage(options=StorageOptions(open_files_max=1))
    storage.append(b"a")
    storage.disk.operations.clear()
    for _ in range(3):
        storage.directory.context.handles.get(storage.path / "partition.metadata")

    task = storage.log.flush_task()
    task.flushes[0].sync()

    log_opens = [
        each
        for each in storage.disk.operations
        if each.name == "open" and each.path == storage.log.active.path
    ]
    assert log_opens == []


def test_given_too_few_descriptors_when_flushing_then_small_files_wait_and_the_log_does_not():
    """None of them holds a record; they are synced by the next flush."""
    storage = LogStorage()
    storage.append(b"a")
    storage.disk.open_files_max = storage.disk.open_files
    storage.directory.context.handles.open_files_max = 1

    storage.log.flush()
    assert storage.log.high_watermark == 1
    storage.disk.open_files_max = None
    storage.append(b"b")
    storage.log.flush()

    assert storage.disk.is_durable(storage.path / "partition.metadata")


# --- few descriptors ----------------------------------------------------------------------------


@pytest.mark.parametrize("config", [OS, INTERVAL])
def test_given_more_held_files_than_the_bound_when_appended_then_each_is_flushed(config):
    """Policies that may not flush for hours must not hold a descriptor per partition so long."""
    storage = LogStorage(config, options=StorageOptions(open_files_max=2))
    directory = storage.directory
    logs = [storage.log] + [
        directory.create_log(TopicPartition("more", number), UUID(int=7), config)
        for number in range(4)
    ]
    listeners = [Listener(log) for log in logs]

    for log in logs:
        log.append(batch(b"a"))

    assert [DUE_NOW in listener.due for listener in listeners] == [False] * 2 + [True] * 3
    for log in logs:
        log.flush()
    assert [log.durable_offset for log in logs] == [1] * 5
