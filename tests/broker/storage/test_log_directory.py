"""LogDirectory: start and stop of a data directory, its partitions, what is refused."""

from __future__ import annotations

import errno
import os
from random import Random
from uuid import UUID

import msgspec
import pytest

from broker.clock import ManualClock
from broker.steps import run_to_end
from broker.storage.log_config import LogConfig
from broker.storage.log_directory import LogDirectory
from protocol.errors import DataDirectoryError, StorageError, TopicAlreadyExistsError
from protocol.identifiers import TopicPartition
from protocol.stored import meta_properties
from protocol.stored.kafka_uuid import encode_uuid
from tests.support.fake_disk import FakeDisk, SimulatedCrash
from tests.support.log_storage import PARTITION, ROOT, TOPIC_ID, LogStorage, batch

BROKEN = OSError(errno.EIO, os.strerror(errno.EIO))
OTHER = TopicPartition("other", 3)


def opened(disk: FakeDisk, **options) -> LogDirectory:
    return LogDirectory.open(disk, ROOT, ManualClock(), lambda topic: LogConfig(), **options)


def write(disk: FakeDisk, name: str, data: bytes) -> None:
    file = disk.open(ROOT / name, create=True)
    file.truncate(0)
    file.write([data], 0)
    file.close()


# --- what is refused ------------------------------------------------------------------------------


def test_given_a_missing_directory_when_opened_then_it_is_refused_unless_it_is_to_be_made():
    disk = FakeDisk()

    with pytest.raises(DataDirectoryError, match="is missing"):
        opened(disk)

    assert opened(disk, create=True).logs == {}


def test_given_a_directory_in_use_when_opened_then_a_second_broker_is_refused():
    disk = FakeDisk()
    directory = opened(disk, create=True)

    with pytest.raises(DataDirectoryError, match="in use"):
        opened(disk)

    directory.close()
    opened(disk).close()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("tidelog.data.format.version=2", "use a newer Tidelog"),
        ("node.id=7", "belongs to node 7"),
        ("cluster.id=other", "belongs to cluster other"),
        ("version=x", "not readable"),
    ],
)
def test_given_a_directory_of_another_kind_when_opened_then_it_is_refused_in_a_sentence(
    line, problem
):
    disk = FakeDisk()
    opened(disk, create=True, cluster_id="ours").close()
    key, _, value = line.partition("=")
    properties = meta_properties.decode(disk.read_file(ROOT / "meta.properties"))
    write(disk, "meta.properties", meta_properties.encode(properties.with_entry(key, value)))

    with pytest.raises(DataDirectoryError, match=problem):
        opened(disk, cluster_id="ours")

    assert disk.locked == set()


def test_given_a_kafka_directory_when_opened_then_it_is_adopted_and_its_ids_are_kept():
    disk = FakeDisk()
    disk.make_directory(ROOT)
    disk.sync_directory(ROOT.parent)
    kafkas = f"version=1\nnode.id=1\ncluster.id=theirs\ndirectory.id={encode_uuid(TOPIC_ID)}\n"
    write(disk, "meta.properties", kafkas.encode())

    directory = opened(disk)
    disk.crash()
    stored = meta_properties.decode(disk.read_file(ROOT / "meta.properties"))

    assert directory.properties.cluster_id == stored.cluster_id == "theirs"
    assert (stored.directory_id, stored.data_format_version) == (TOPIC_ID, 1)


# --- start and stop -------------------------------------------------------------------------------


def test_given_a_clean_marker_when_started_then_it_is_gone_durably_before_a_log_is_touched():
    """A crash while loading must be an unclean stop (KAFKA-10471)."""
    storage = LogStorage()
    storage.append(b"a")
    storage.directory.close()
    storage.disk.operations.clear()

    storage.open()

    names = [(each.name, each.path.name) for each in storage.disk.operations]
    unlinked = names.index(("unlink", ".kafka_cleanshutdown"))
    assert names[unlinked + 1] == ("sync_directory", "data")
    assert all(path != PARTITION.topic for _, path in names[:unlinked])
    assert ("open", "00000000000000000000.log") not in names[:unlinked]


def test_given_a_stop_when_it_is_clean_then_the_marker_comes_last():
    storage = LogStorage()
    storage.append(b"a")
    storage.disk.operations.clear()

    storage.directory.close()

    written = [each.path.name for each in storage.disk.changes() if each.name == "rename"]
    assert written[-1] == ".kafka_cleanshutdown"
    assert "recovery-point-offset-checkpoint" in written[:-1]
    assert storage.disk.is_durable(ROOT / ".kafka_cleanshutdown")
    assert storage.disk.open_files == 0
    assert storage.disk.locked == set()


def test_given_a_sync_that_fails_when_stopping_then_there_is_no_clean_marker():
    storage = LogStorage()
    storage.append(b"a")
    storage.disk.fail("sync", BROKEN)

    with pytest.raises(OSError, match="Input/output"):
        storage.directory.close()

    assert not storage.disk.exists(ROOT / ".kafka_cleanshutdown")
    assert storage.disk.locked == set()


def test_given_a_stop_without_saving_when_started_then_it_was_an_unclean_one():
    storage = LogStorage()
    storage.append(b"a")

    storage.directory.close(clean=False)
    storage.restarted()

    assert not storage.directory.summary.is_clean
    assert storage.records() == [(0, b"a")]


def test_given_damaged_small_files_when_started_then_nothing_is_lost_and_nothing_refused():
    """Checkpoints, epochs and durable offsets are hints (KAFKA-1758)."""
    storage = LogStorage()
    storage.append(b"a")
    storage.flush()
    storage.directory.checkpoint()
    for name in (
        "recovery-point-offset-checkpoint", "replication-offset-checkpoint",
        "log-start-offset-checkpoint", "durable-offsets", "tide-0/leader-epoch-checkpoint",
        "tide-0/partition.metadata",
    ):  # fmt: skip
        write(storage.disk, name, b"garbage")

    log = storage.kill()

    assert log.topic_id == TOPIC_ID
    assert storage.records() == [(0, b"a")]
    assert storage.append(b"b") == 1


def test_given_a_partition_the_disk_cannot_read_when_started_then_only_that_one_is_missing():
    storage = LogStorage()
    storage.directory.create_log(OTHER, UUID(int=9), storage.config)
    storage.append(b"a")
    storage.flush()
    storage.directory.checkpoint()
    storage.disk.kill()
    storage.disk.fail("read", BROKEN, path_suffix="tide-0/00000000000000000000.log")

    storage.open()

    assert list(storage.directory.unavailable) == [PARTITION]
    assert list(storage.directory.logs) == [OTHER]
    with pytest.raises(TopicAlreadyExistsError):
        storage.directory.create_log(PARTITION, TOPIC_ID, storage.config)
    storage.restart()
    assert storage.records() == [(0, b"a")]


def test_given_strange_directories_when_started_then_they_are_left_alone():
    storage = LogStorage()
    for name in ("lost+found", "__cluster_metadata-0", "tide-1." + "0" * 32 + "-future"):
        storage.disk.make_directory(ROOT / name)

    storage.kill()

    assert list(storage.directory.logs) == [PARTITION]
    assert storage.disk.is_directory(ROOT / "lost+found")


# --- partitions -----------------------------------------------------------------------------------


def test_given_a_new_partition_when_made_then_its_slot_is_durable_before_anything_is_appended():
    """Else a torn tail of its first bytes would pass for damage."""
    storage = LogStorage()

    assert storage.disk.is_durable(ROOT / "durable-offsets")

    for value in (b"a", b"b", b"c"):
        storage.append(value)
    for seed in range(20):
        storage.crash(Random(seed))
        assert not storage.log.damage


def test_given_many_partitions_when_made_at_once_then_one_sync_is_enough():
    storage = LogStorage()
    storage.disk.operations.clear()

    run_to_end(
        storage.directory.create_steps(
            [(TopicPartition("many", number), UUID(int=5), LogConfig()) for number in range(50)]
        )
    )

    assert [each.path.name for each in storage.disk.changes() if each.name == "sync"] == [
        "durable-offsets"
    ]


@pytest.mark.parametrize("changes", range(16))
def test_given_a_crash_while_a_partition_is_made_when_started_then_it_can_be_made_again(changes):
    storage = LogStorage()
    storage.append(b"a")
    storage.flush()
    storage.disk.crash_after(changes)
    try:
        storage.directory.create_log(OTHER, UUID(int=9), storage.config)
    except SimulatedCrash:
        pass

    storage.crash(Random(changes))
    if OTHER not in storage.directory.logs:
        storage.directory.create_log(OTHER, UUID(int=9), storage.config)
    log = storage.directory.logs[OTHER]
    log.append(batch(b"x"))
    log.flush()

    assert log.high_watermark == 1
    assert storage.records() == [(0, b"a")]


def test_given_a_deleted_partition_when_made_again_then_it_is_another_one():
    """Renamed away and synced; the same name may be used at once, under another id."""
    storage = LogStorage()
    storage.append(b"old")
    task = storage.log.flush_task()

    storage.directory.delete_log(PARTITION)
    storage.directory.create_log(PARTITION, UUID(int=2), storage.config)
    storage.append(b"new")
    task.run()
    storage.flush()

    assert storage.records() == [(0, b"new")]
    doomed = [name for name in storage.disk.list_directory(ROOT) if name.endswith("-delete")]
    assert len(doomed) == 1
    storage.crash()
    assert storage.log.topic_id == UUID(int=2)
    assert storage.records() == [(0, b"new")]


def test_given_a_deleted_partition_when_unlinked_now_or_after_a_crash_then_its_files_are_gone():
    """Start-up finishes deletions."""
    for crash in (False, True):
        storage = LogStorage()
        storage.append(b"old")
        storage.flush()
        storage.directory.delete_log(PARTITION)
        if crash:
            storage.disk.crash()
            storage.open()

        task = storage.directory.unlink_task(0)
        assert task is not None
        task.run()

        assert not [name for name in storage.disk.list_directory(ROOT) if "tide" in name]
        assert PARTITION not in storage.directory.logs


def test_given_a_rename_that_fails_when_deleting_then_error_56():
    storage = LogStorage()
    storage.disk.fail("rename", BROKEN)

    with pytest.raises(StorageError):
        storage.directory.delete_log(PARTITION)


def test_given_a_partition_without_an_id_when_started_then_it_gets_its_topics():
    """Kafka before 2.8 wrote no partition.metadata."""
    storage = LogStorage()
    storage.append(b"a")
    storage.directory.close()
    storage.disk.unlink(storage.path / "partition.metadata")

    log = storage.restarted()

    assert log.topic_id == TOPIC_ID
    assert storage.disk.is_durable(storage.path / "partition.metadata")


def test_given_deleted_files_of_a_topic_when_many_are_open_then_none_leaks():
    storage = LogStorage(msgspec.structs.replace(LogConfig(), segment_bytes=200))
    for _ in range(10):
        storage.append(b"x")
    open_before = storage.disk.open_files

    storage.directory.delete_log(PARTITION)

    assert open_before > 2
    assert storage.disk.open_files == 1  # the durable offsets
