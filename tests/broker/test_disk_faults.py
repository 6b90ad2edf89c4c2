"""What a broker does while a disk is full, gone, or gives errors; and that it goes on by itself."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import pytest

from broker.storage.disk_guard import RESERVE_PART
from protocol.error_codes import ErrorCode
from protocol.errors import StorageError
from protocol.native import requests
from tests.support.native_broker import NativeBroker, batch

REFUSED = ErrorCode.KAFKA_STORAGE_ERROR
TWO = ("/data", "/other")
TOTAL_BYTES = 1_000_000
RESERVE_BYTES = TOTAL_BYTES // RESERVE_PART


def set_free(broker: NativeBroker, free_bytes: int, directory: str = "/data") -> None:
    """Let a directory's disk say that so much is free."""
    disk = broker.disk
    before = disk.free_bytes
    disk.total_bytes = lambda path: TOTAL_BYTES  # type: ignore[method-assign]
    disk.free_bytes = (  # type: ignore[method-assign]
        lambda path: free_bytes if path == Path(directory) else min(before(path), TOTAL_BYTES)
    )
    broker.loop.advance(1_100)


def place(broker: NativeBroker, topic: str) -> str:
    """Return the data directory that holds a topic's partition."""
    return str(broker.partition(topic).log.directory.parent)


# --- nearly full ----------------------------------------------------------------------------------


def test_given_a_nearly_full_disk_when_used_then_only_producing_is_refused_until_there_is_room():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.create_topic("old")
        broker.produce("logs", batch(b"a"), acks=-1)
        set_free(broker, RESERVE_BYTES - 1)

        refused = [broker.produce("logs", batch(b"b"), acks=acks).error for acks in (-1, 1)]
        assert refused == [REFUSED, REFUSED]
        assert broker.produce("new", batch(b"b")).error == REFUSED, "nor are topics made"
        assert broker.send(requests.encode_create_topic("new", 1)).error == REFUSED
        broker.produce("logs", batch(b"b"), acks=0)
        assert broker.connection.closed == [("produce_failed", "KAFKA_STORAGE_ERROR")]
        assert broker.fetch("logs", 0).fetched.error == 0
        assert broker.send(requests.encode_delete_topic("old")).status == (0, "")
        assert len(broker.manager.degraded()) == 1
        assert "/data is nearly full" in broker.manager.degraded()[0]
        (sample,) = broker.metrics.storage.directories()
        assert sample.is_paused
        assert sample.refused_appends == 3
        assert broker.metrics.storage.write_failures == 0, "the disk itself refused nothing"
        broker.loop.advance(5_000)  # checkpoints and the rest go on
        assert not broker.fatal

        set_free(broker, 2 * RESERVE_BYTES)

        assert broker.produce("logs", batch(b"c"), acks=-1).produced.base_offset == 1
        assert broker.manager.degraded() == []


def test_given_two_directories_when_one_is_nearly_full_then_the_other_takes_all_new_partitions():
    with NativeBroker(data_dirs=TWO) as broker:
        broker.create_topic("first")
        broker.create_topic("second")
        assert [place(broker, topic) for topic in ("first", "second")] == list(TWO)
        set_free(broker, RESERVE_BYTES - 1)

        assert broker.produce("first", batch(b"a")).error == REFUSED
        assert broker.produce("second", batch(b"a"), acks=-1).error == 0
        for number in range(3):
            broker.create_topic(f"new-{number}")

        assert {place(broker, f"new-{number}") for number in range(3)} == {"/other"}


def test_given_a_broker_that_stops_nearly_full_when_started_again_then_it_was_a_clean_stop():
    broker = NativeBroker().open()
    broker.create_topic("logs")
    broker.produce("logs", batch(b"a"))
    set_free(broker, 0)
    broker.close()

    with NativeBroker(disk=broker.disk) as again:
        (directory,) = again.manager.store.directories.present
        assert directory.summary.is_clean
        assert again.produce("logs", batch(b"b")).error == REFUSED, "from the first request on"


# --- full -----------------------------------------------------------------------------------------


def test_given_a_full_disk_when_a_topic_is_created_then_it_is_refused_and_the_broker_lives():
    """ENOSPC of a write is no failed sync."""
    with NativeBroker(settings={"storage.disk_reserve_bytes": 0}) as broker:
        broker.create_topic("logs")
        no_space = OSError(errno.ENOSPC, "No space left on device")
        for suffix in ("durable-offsets", "partition.metadata", ".log"):
            operation = "create" if suffix == ".log" else "write"
            broker.disk.fail(operation, no_space, path_suffix=suffix)
            refused = broker.send(requests.encode_create_topic("new", 2))

            assert refused.error == REFUSED, suffix
            assert not broker.fatal, suffix
            assert broker.send(requests.encode_topics(["new"])).topics[1][0].error != 0
        names = broker.disk.list_directory(Path("/data"))
        assert not [name for name in names if name.startswith("new-") and "delete" not in name]
        assert broker.produce("logs", batch(b"a"), acks=-1).error == 0
        broker.create_topic("new", 2)


def test_given_a_registry_that_is_full_when_topics_change_then_nothing_has_changed():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        registry = broker.manager.store._registry
        connection = registry._connection
        registry._connection = _FullDatabase(connection)  # type: ignore[assignment]

        assert broker.send(requests.encode_create_topic("new", 1)).error == REFUSED
        assert broker.send(requests.encode_delete_topic("logs")).error == REFUSED
        assert broker.produce("logs", batch(b"a"), acks=-1).error == 0
        assert not broker.fatal

        registry._connection = connection
        broker.create_topic("new")


def test_given_a_registry_whose_sync_fails_when_a_topic_changes_then_the_process_ends():
    """A failed fsync is final, SQLite's too: a commit that is tried again may succeed over loss."""
    with NativeBroker() as broker:
        broker.create_topic("logs")
        registry = broker.manager.store._registry
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        failing = _FullDatabase(registry._connection, error)
        registry._connection = failing  # type: ignore[assignment]

        assert broker.send(requests.encode_delete_topic("logs")).error == REFUSED

        assert len(broker.fatal) == 1
        assert broker.produce("logs", batch(b"a")).error == REFUSED


class _FullDatabase:
    """A connection whose commits fail: the disk is full, if nothing else is said."""

    def __init__(self, connection: sqlite3.Connection, error: sqlite3.Error | None = None) -> None:
        self._connection = connection
        self._error = error or sqlite3.OperationalError("database or disk is full")

    def execute(self, sql: str, *parameters: object) -> object:
        if sql == "COMMIT":
            raise self._error
        return self._connection.execute(sql, *parameters)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


# --- gone -----------------------------------------------------------------------------------------


def test_given_a_directory_that_was_unmounted_when_used_then_the_others_go_on_until_it_is_back():
    with NativeBroker(data_dirs=TWO) as broker:
        broker.create_topic("here")
        broker.create_topic("away")
        assert place(broker, "away") == "/other"
        broker.produce("away", batch(b"a"), acks=-1)
        broker.disk.rename(Path("/other"), Path("/unmounted"))
        broker.disk.make_directory(Path("/other"))
        log = broker.partition("away").log
        log.unflushed.add_directory(log.directory)  # as after a roll

        waiting = broker.produce("away", batch(b"b"), acks=-1)
        assert waiting.error == REFUSED, "it is not durable, and may not be for long"
        assert not broker.fatal, "no sync has failed"
        broker.loop.advance(1_100)
        assert broker.produce("away", batch(b"c")).error == REFUSED
        assert broker.produce("here", batch(b"a"), acks=-1).error == 0
        assert broker.fetch("here", 0).fetched.error == 0
        broker.create_topic("new")
        assert place(broker, "new") == "/data"
        (problem,) = broker.manager.degraded()
        assert problem.startswith("data directory /other cannot be reached")
        assert broker.disk.list_directory(Path("/other")) == [], "nothing is made beside the data"

        broker.disk.remove_directory(Path("/other"))
        broker.disk.rename(Path("/unmounted"), Path("/other"))
        broker.loop.advance(1_100)

        assert broker.manager.degraded() == []
        assert log.durable_offset == log.high_watermark == 2
        assert broker.produce("away", batch(b"d"), acks=-1).produced.base_offset == 2


def test_given_a_directory_that_is_away_at_the_stop_when_stopped_then_the_others_stop_cleanly():
    broker = NativeBroker(data_dirs=TWO).open()
    broker.create_topic("here")
    broker.create_topic("away")
    for topic in ("here", "away"):
        broker.produce(topic, batch(b"a"), acks=-1)
    broker.disk.rename(Path("/other"), Path("/unmounted"))

    with pytest.raises((OSError, StorageError)):
        broker.close()

    assert broker.disk.exists(Path("/data/.kafka_cleanshutdown"))
    assert not broker.disk.exists(Path("/unmounted/.kafka_cleanshutdown"))


# --- read errors ----------------------------------------------------------------------------------


def test_given_a_bad_sector_when_fetched_then_only_that_partition_answers_an_error():
    with NativeBroker() as broker:
        broker.create_topic("logs", 2)
        for number in (0, 1):
            broker.produce("logs", batch(b"v"), partition=number, acks=-1)
        bad = OSError(errno.EIO, "Input/output error")
        broker.disk.fail("read", bad, path_suffix="logs-0/00000000000000000000.log", times=100)

        error, answers = broker.send(
            requests.encode_multi_fetch(
                1_000, 1, 0, 2, [("logs", 0, 0, 1_000), ("logs", 1, 0, 1_000)]
            )
        ).multi_fetched

        assert error == 0
        assert [answer.error for answer in answers] == [REFUSED, 0]
        assert broker.produce("logs", batch(b"w"), acks=-1).error == 0, "appending reads nothing"
        assert not broker.fatal
        assert broker.connection.closed == []


# --- housekeeping ---------------------------------------------------------------------------------


def test_given_a_bug_in_one_directorys_housekeeping_when_due_then_the_other_is_kept():
    with NativeBroker(data_dirs=TWO) as broker:
        broker.create_topic("first")
        broker.create_topic("second")
        for topic in ("first", "second"):
            broker.produce(topic, batch(b"a"), acks=-1)
        broken, sound = broker.manager.store.directories.present

        def fail() -> None:
            raise RuntimeError("a bug")

        broken.checkpoint_task = fail  # type: ignore[assignment, method-assign]
        broker.loop.advance(3_000)

        written = broker.disk.read_file(sound.path / "recovery-point-offset-checkpoint")
        assert b"second 0 1" in written
        del broken.checkpoint_task
