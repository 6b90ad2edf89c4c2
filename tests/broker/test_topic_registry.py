"""TopicRegistry: what it keeps, what it refuses, and that a returned change survives."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path
from uuid import UUID

import pytest

from broker.topic_registry import IN_MEMORY, SCHEMA_VERSION, TopicEntry, TopicRegistry
from protocol.errors import (
    DataDirectoryError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

LOGS = TopicEntry("logs", UUID(int=1), 4, {"retention.ms": "5"})
METRICS = TopicEntry("metrics", UUID(int=2), 1)


def test_given_topics_when_reopened_then_they_are_all_there(tmp_path: Path):
    path = tmp_path / "registry.sqlite"
    registry = TopicRegistry.open(path)
    registry.create(METRICS)
    registry.create(LOGS)
    registry.close()

    reopened = TopicRegistry.open(path)

    assert reopened.topics() == [LOGS, METRICS]
    reopened.close()


def test_given_a_commit_when_the_process_dies_then_the_topic_is_on_disk(tmp_path: Path):
    path = tmp_path / "registry.sqlite"
    registry = TopicRegistry.open(path)
    registry.create(LOGS)

    copy = tmp_path / "copy.sqlite"  # what the files hold without any close
    copy.write_bytes(path.read_bytes())
    found = TopicRegistry.open(copy)

    assert found.topics() == [LOGS]
    found.close()
    registry.close()


def test_given_a_registry_when_made_then_only_the_owner_may_read_it(tmp_path: Path):
    path = tmp_path / "registry.sqlite"

    TopicRegistry.open(path).close()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_given_synchronous_full_when_opened_then_sqlite_says_so(tmp_path: Path):
    registry = TopicRegistry.open(tmp_path / "registry.sqlite")

    connection = registry._connection
    synchronous = connection.execute("PRAGMA synchronous").fetchone()
    journal_mode = connection.execute("PRAGMA journal_mode").fetchone()

    assert (synchronous, journal_mode) == ((2,), ("truncate",))
    registry.close()


@pytest.mark.parametrize(
    "second", [TopicEntry("logs", UUID(int=9), 1), TopicEntry("other", LOGS.topic_id, 1)]
)
def test_given_a_taken_name_or_id_when_created_then_refused_and_unchanged(second: TopicEntry):
    registry = TopicRegistry.open(IN_MEMORY)
    registry.create(LOGS)

    with pytest.raises(TopicAlreadyExistsError):
        registry.create(second)

    assert registry.topics() == [LOGS]


def test_given_a_deletion_begun_when_listed_then_it_is_marked_and_holds_the_name():
    registry = TopicRegistry.open(IN_MEMORY)
    registry.create(LOGS)

    registry.begin_delete("logs")

    assert [(entry.name, entry.is_deleting) for entry in registry.topics()] == [("logs", True)]
    with pytest.raises(TopicAlreadyExistsError):
        registry.create(TopicEntry("logs", UUID(int=9), 1))


def test_given_a_deletion_finished_when_created_again_then_nothing_old_is_left():
    registry = TopicRegistry.open(IN_MEMORY)
    registry.create(LOGS)
    registry.begin_delete("logs")

    registry.finish_delete("logs", remember=False)
    registry.create(TopicEntry("logs", UUID(int=9), 1))

    assert registry.topics() == [TopicEntry("logs", UUID(int=9), 1)]
    assert registry.deleted_topic_ids() == set()


def test_given_a_directory_was_missing_when_deleted_then_the_id_is_remembered():
    registry = TopicRegistry.open(IN_MEMORY)
    registry.create(LOGS)

    registry.finish_delete("logs", remember=True)
    registry.finish_delete("logs", remember=True)  # repeating it changes nothing

    assert registry.deleted_topic_ids() == {LOGS.topic_id}
    assert registry.topics() == []


def test_given_a_topic_when_changed_then_counts_and_settings_are_replaced():
    registry = TopicRegistry.open(IN_MEMORY)
    registry.create(LOGS)

    registry.set_partition_count("logs", 7)
    registry.set_settings("logs", {"flush.policy": "os"})

    assert registry.topics() == [TopicEntry("logs", LOGS.topic_id, 7, {"flush.policy": "os"})]


def test_given_an_unknown_topic_when_changed_then_it_is_refused():
    registry = TopicRegistry.open(IN_MEMORY)

    for change in (
        lambda: registry.set_partition_count("logs", 7),
        lambda: registry.set_settings("logs", {}),
        lambda: registry.begin_delete("logs"),
    ):
        with pytest.raises(UnknownTopicOrPartitionError):
            change()


def test_given_data_directories_when_set_then_they_replace_those_before():
    registry = TopicRegistry.open(IN_MEMORY)

    registry.set_data_directories(["/a", "/b"])
    registry.set_data_directories(["/b", "/c"])

    assert registry.data_directories() == {"/b", "/c"}


def test_given_a_newer_schema_when_opened_then_it_is_refused_in_a_sentence(tmp_path: Path):
    path = tmp_path / "registry.sqlite"
    TopicRegistry.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()

    with pytest.raises(DataDirectoryError, match="newer version"):
        TopicRegistry.open(path)


def test_given_a_file_that_is_no_registry_when_opened_then_it_is_refused(tmp_path: Path):
    path = tmp_path / "registry.sqlite"
    path.write_bytes(b"not a database, but long enough to have a header" * 100)

    with pytest.raises(DataDirectoryError, match="cannot use"):
        TopicRegistry.open(path)


def test_given_an_open_registry_when_opened_again_then_the_second_is_refused(tmp_path: Path):
    path = tmp_path / "registry.sqlite"
    registry = TopicRegistry.open(path)
    registry.create(LOGS)

    with pytest.raises(DataDirectoryError):
        TopicRegistry.open(path)

    registry.close()
