"""Logs are made and deleted in steps; what waits for the file system's journal is a job."""

from __future__ import annotations

import errno
import os
from typing import Any
from uuid import UUID

import pytest

from broker.storage.log_config import LogConfig
from broker.storage.log_creation import LOGS_OPENED_PER_STEP, LOGS_PER_JOB, NewPartition
from protocol.errors import StorageError
from protocol.identifiers import TopicPartition
from tests.support.fake_disk import FakeDisk
from tests.support.log_storage import ROOT, LogStorage, batch, records_of

BROKEN = OSError(errno.EIO, os.strerror(errno.EIO))
COUNT = 50
CONFIG = LogConfig(segment_index_bytes=2_400)
MANY = [NewPartition(TopicPartition("many", n), UUID(int=5), CONFIG) for n in range(COUNT)]
NAMES = [each.topic_partition for each in MANY]


def changes_between_jobs(disk: FakeDisk, steps: Any) -> tuple[list[tuple[str, str]], int, int]:
    """Run steps; return what they changed on the disk themselves, their number, that of jobs."""
    changed: list[tuple[str, str]] = []
    count = jobs = 0
    failure: OSError | None = None
    while True:
        before = len(disk.changes())
        job = next(steps, "done") if failure is None else steps.throw(failure)
        failure = None
        changed += [(each.name, each.path.name) for each in disk.changes()[before:]]
        count += 1
        if job == "done":
            return changed, count, jobs
        if job is not None:
            jobs += 1
            try:
                job()
            except OSError as error:
                failure = error


def test_given_many_partitions_when_made_then_jobs_make_the_files_and_few_are_opened_a_step():
    storage = LogStorage()

    changed, steps, jobs = changes_between_jobs(storage.disk, storage.directory.create_steps(MANY))

    assert [name for _, name in changed if name != "durable-offsets"] == []
    assert steps >= COUNT / LOGS_OPENED_PER_STEP
    assert jobs >= COUNT / LOGS_PER_JOB + 1  # and the sync
    assert set(NAMES) <= set(storage.directory.logs)


def test_given_a_log_that_was_made_when_used_and_restarted_then_it_holds_its_records():
    storage = LogStorage()
    changes_between_jobs(storage.disk, storage.directory.create_steps(MANY[:1]))
    log = storage.directory.logs[NAMES[0]]

    for value in (b"a", b"b"):
        log.append(batch(value))
        log.flush()
    storage.crash()

    found = storage.directory.logs[NAMES[0]]
    assert records_of(found.read(0, 1 << 20)) == [(0, b"a"), (1, b"b")]
    assert found.topic_id == UUID(int=5)


def test_given_leftovers_of_a_crash_when_made_again_then_stale_indexes_are_not_believed():
    storage = LogStorage()
    directory = ROOT / str(NAMES[0])
    storage.disk.make_directory(directory)
    for name in ("00000000000000000000.index", "00000000000000000000.timeindex"):
        storage.disk.open(directory / name, create=True).write([b"\x01" * 2_400], 0)

    changes_between_jobs(storage.disk, storage.directory.create_steps(MANY[:1]))
    log = storage.directory.logs[NAMES[0]]

    assert log.active.offset_index.entries == log.active.time_index.entries == 0
    index = storage.disk.read_file(directory / "00000000000000000000.index")
    assert index == bytes(2_400)


def test_given_many_partitions_when_deleted_then_jobs_rename_them():
    storage = LogStorage()
    changes_between_jobs(storage.disk, storage.directory.create_steps(MANY))

    changed, steps, jobs = changes_between_jobs(storage.disk, storage.directory.delete_steps(NAMES))

    assert changed == []
    assert steps >= COUNT / 4
    assert jobs >= COUNT / LOGS_PER_JOB + 1
    assert not set(NAMES) & set(storage.directory.logs)


def test_given_a_rename_that_fails_when_deleting_many_then_those_before_it_are_gone():
    storage = LogStorage()
    changes_between_jobs(storage.disk, storage.directory.create_steps(MANY[:3]))
    storage.disk.fail("rename", BROKEN, after=1)

    with pytest.raises(StorageError):
        changes_between_jobs(storage.disk, storage.directory.delete_steps(NAMES[:3]))

    assert NAMES[0] not in storage.directory.logs
    assert [storage.directory.logs[each].is_closed for each in NAMES[1:3]] == [True, True]
