"""A clean stop: what waits for the disk does so in threads, in parallel, and not log by log."""

from __future__ import annotations

import asyncio
import errno
from uuid import UUID

import pytest

from broker.clean_stop import flush_and_seal
from broker.flusher import Flusher
from broker.metrics import FlushMetrics
from broker.steps import Steps, run_to_end
from broker.storage.directory_closing import LOGS_CLOSED_PER_STEP
from broker.storage.partition_log import PartitionLog
from protocol.identifiers import TopicPartition
from tests.support.log_storage import SMALL_SEGMENTS, LogStorage, batch
from tests.support.manual_loop import InlineExecutor, ManualLoop

LOGS = 60


def storage_with_logs() -> LogStorage:
    """Many logs, each of some segments, all appended to and flushed."""
    storage = LogStorage(SMALL_SEGMENTS)
    run_to_end(
        storage.directory.create_steps(
            [(TopicPartition("many", n), UUID(int=7), SMALL_SEGMENTS) for n in range(LOGS)]
        )
    )
    for log in storage.directory.logs.values():
        for _ in range(9):
            log.append(batch(b"v"))
        log.flush()
    return storage


def run_counting_waits(storage: LogStorage, steps: Steps[None]) -> tuple[int, int]:
    """Run steps and jobs; return how often the steps themselves waited for the disk; the steps."""
    waits = count = 0
    disk = storage.disk
    while True:
        before = len(disk.operations)
        try:
            job = next(steps)
        except StopIteration:
            return waits, count
        finally:
            names = [operation.name for operation in disk.operations[before:]]
            waits += sum(name in ("sync", "sync_directory") for name in names)
        count += 1
        if job is not None:
            job()


def test_given_many_logs_when_prepared_and_flushed_then_closing_waits_for_no_disk():
    storage = storage_with_logs()
    for log in storage.directory.logs.values():
        log.prepare_close()
        log.flush()  # as the flusher does, for many at once in its threads

    waits, steps = run_counting_waits(storage, storage.directory.close_steps())

    assert waits == 0
    assert steps > LOGS // LOGS_CLOSED_PER_STEP, "the loop goes on in between"
    assert LOGS_CLOSED_PER_STEP <= 8, "a tenth of a millisecond each"
    storage.disk.crash()
    directory = storage.open()
    assert directory.summary.is_clean
    assert directory.summary.checked_bytes == 0
    assert {log.log_end_offset for log in directory.logs.values()} == {9}


def test_given_many_logs_when_sealed_then_two_at_most_in_a_turn(monkeypatch):
    """Each opens three files and makes one."""
    storage, loop = storage_with_logs(), ManualLoop()
    flusher = Flusher(
        loop, loop.clock, InlineExecutor(), metrics=FlushMetrics(), on_fatal=pytest.fail
    )
    turns: list[int] = []
    seal, turn = PartitionLog.prepare_close, [0]

    def noted(log: PartitionLog) -> None:
        turns.append(turn[0])
        seal(log)

    async def watched() -> None:
        sealing = loop.create_task(flush_and_seal(flusher, [*storage.directory.logs.values()]))
        while not sealing.done():
            turn[0] += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(PartitionLog, "prepare_close", noted)
    loop.run(watched())
    loop.close()

    assert len(turns) == LOGS + 1
    assert max(turns.count(each) for each in turns) <= 2


def test_given_logs_that_nobody_touched_when_closed_then_no_file_is_opened_for_it():
    storage = storage_with_logs()
    storage.restart()
    storage.disk.operations.clear()

    run_to_end(storage.directory.close_steps())

    opened = {each.path for each in storage.disk.operations if each.name == "open"}
    assert not [path for path in opened if path.suffix == ".log"]


def test_given_bytes_of_a_failed_append_when_closed_then_they_are_cut_off():
    """R11: the file is trimmed to the set's size."""
    storage = LogStorage()
    storage.append(b"a")
    storage.flush()
    path = storage.log.active.path
    size = storage.disk.file_size(path)
    storage.disk.short_write(size=30)
    no_space = OSError(errno.ENOSPC, "No space left on device")
    storage.disk.fail("write", no_space, after=1)
    storage.disk.fail("truncate", OSError(errno.EIO, "Input/output error"), path_suffix=".log")
    with pytest.raises(Exception, match="No space"):
        storage.append(b"b")
    left_behind = storage.disk.file_size(path)

    storage.directory.close()

    assert (left_behind, storage.disk.file_size(path)) == (size + 30, size)
