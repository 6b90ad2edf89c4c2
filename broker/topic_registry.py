"""TopicRegistry: which topics there are, known durably before any directory of theirs exists.

One SQLite file in the first data directory: topics, their ids, partition counts and settings; it is
also the place for what must later be as durable and as small: users, ACLs, quotas, producer id
blocks. A lost or empty registry is no lost data: start-up adopts what the data directories hold.

`synchronous=FULL` with `journal_mode=TRUNCATE`: a returned commit survives a power cut. (With the
default journal mode, DELETE, FULL does not sync the directory after the journal is unlinked, and
the commit could be rolled back: see https://www.sqlite.org/pragma.html#pragma_synchronous.)

Synchronous, and to be used from one thread only; SQLite's own check enforces that.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

import msgspec

from protocol.errors import (
    DataDirectoryError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

FILE_NAME: Final = "tidelog-registry.sqlite"
"""The name of the file in the first data directory; Kafka ignores plain files there."""

SCHEMA_VERSION: Final = 2
"""Kept in `PRAGMA user_version`; a newer one is refused, an older one is migrated step by step."""

IN_MEMORY: Final = Path(":memory:")
"""For tests: a registry that is gone when it is closed."""

_FAILED_SYNCS: Final = (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)

_SCHEMA: Final = """
CREATE TABLE topics (
    name TEXT PRIMARY KEY NOT NULL,
    topic_id BLOB NOT NULL UNIQUE CHECK (length(topic_id) = 16),
    partition_count INTEGER NOT NULL CHECK (partition_count >= 1),
    is_deleting INTEGER NOT NULL DEFAULT 0 CHECK (is_deleting IN (0, 1))
) WITHOUT ROWID;
CREATE TABLE topic_settings (
    topic_name TEXT NOT NULL REFERENCES topics (name) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (topic_name, name)
) WITHOUT ROWID;
CREATE TABLE deleted_topics (
    topic_id BLOB PRIMARY KEY NOT NULL CHECK (length(topic_id) = 16),
    name TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE data_directories (
    path TEXT PRIMARY KEY NOT NULL
) WITHOUT ROWID;
"""

_MIGRATIONS: Final = {
    1: "CREATE TABLE producer_ids (next_id INTEGER NOT NULL); INSERT INTO producer_ids VALUES (0);",
}
"""By the version that each of them leads out of."""


class TopicEntry(msgspec.Struct, frozen=True):
    """One topic as the registry knows it."""

    name: str
    topic_id: UUID
    partition_count: int
    settings: Mapping[str, str] = {}
    """Only what was set for this topic, by canonical name (see `topic_settings`)."""
    is_deleting: bool = False
    """The deletion was decided; its directories may or may not have been renamed yet."""


class TopicRegistry:
    """The registry file, open. Every change is durable when its method returns."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    def open(cls, path: Path) -> TopicRegistry:
        """Open the registry at `path`; made, with mode 0600, if there is none.

        Raises:
            DataDirectoryError: not a registry, damaged, locked, or of a newer schema.
        """
        try:
            if path != IN_MEMORY:
                _create_private(path)
            connection = sqlite3.connect(path, isolation_level=None, timeout=0)
        except (OSError, sqlite3.Error) as error:
            raise DataDirectoryError(f"cannot open the topic registry {path}: {error}") from error
        try:
            _prepare(connection, path)
        except sqlite3.Error as error:
            connection.close()
            hint = ": is another broker running?" if "locked" in str(error) else ""
            raise DataDirectoryError(
                f"cannot use the topic registry {path}: {error}{hint}"
            ) from error
        except DataDirectoryError:
            connection.close()
            raise
        return cls(connection)

    def topics(self) -> list[TopicEntry]:
        """Return all topics by name, those being deleted too."""
        settings: dict[str, dict[str, str]] = {}
        for topic, name, value in self._connection.execute(
            "SELECT topic_name, name, value FROM topic_settings ORDER BY topic_name, name"
        ):
            settings.setdefault(topic, {})[name] = value
        rows = self._connection.execute(
            "SELECT name, topic_id, partition_count, is_deleting FROM topics ORDER BY name"
        )
        return [
            TopicEntry(name, UUID(bytes=topic_id), count, settings.get(name, {}), bool(deleting))
            for name, topic_id, count, deleting in rows
        ]

    def deleted_topic_ids(self) -> set[UUID]:
        """Return the ids of topics deleted while a data directory of theirs was missing."""
        rows = self._connection.execute("SELECT topic_id FROM deleted_topics")
        return {UUID(bytes=topic_id) for (topic_id,) in rows}

    def data_directories(self) -> set[str]:
        """Return the data directories that were in use before, as they were named."""
        return {path for (path,) in self._connection.execute("SELECT path FROM data_directories")}

    def set_data_directories(self, paths: Iterable[str]) -> None:
        """Replace the data directories that are known to have been in use."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM data_directories")
            connection.executemany(
                "INSERT OR IGNORE INTO data_directories (path) VALUES (?)",
                [(path,) for path in paths],
            )

    def take_producer_ids(self, count: int, first_min: int) -> int:
        """Return the first of `count` producer ids in a row that nobody was ever given.

        Args:
            first_min: Where the first ones of all begin.
        """
        with self._transaction() as connection:
            (next_id,) = connection.execute("SELECT next_id FROM producer_ids").fetchone()
            first = int(next_id) or first_min
            connection.execute("UPDATE producer_ids SET next_id = ?", (first + count,))
        return first

    def create(self, entry: TopicEntry) -> None:
        """Add a topic.

        Raises:
            TopicAlreadyExistsError: the name or the id is taken, be it by one being deleted.
        """
        with self._transaction() as connection:
            try:
                connection.execute(
                    "INSERT INTO topics (name, topic_id, partition_count) VALUES (?, ?, ?)",
                    (entry.name, entry.topic_id.bytes, entry.partition_count),
                )
            except sqlite3.IntegrityError as error:
                raise TopicAlreadyExistsError(f"topic {entry.name} exists") from error
            _insert_settings(connection, entry.name, entry.settings)

    def set_partition_count(self, name: str, partition_count: int) -> None:
        """Change how many partitions a topic has.

        Raises:
            UnknownTopicOrPartitionError: no such topic.
        """
        with self._transaction() as connection:
            cursor = connection.execute(
                "UPDATE topics SET partition_count = ? WHERE name = ?", (partition_count, name)
            )
            _expect_one(cursor, name)

    def set_settings(self, name: str, settings: Mapping[str, str]) -> None:
        """Replace all settings of a topic.

        Raises:
            UnknownTopicOrPartitionError: no such topic.
        """
        with self._transaction() as connection:
            _expect_one(
                connection.execute("UPDATE topics SET name = name WHERE name = ?", (name,)), name
            )
            connection.execute("DELETE FROM topic_settings WHERE topic_name = ?", (name,))
            _insert_settings(connection, name, settings)

    def begin_delete(self, name: str) -> None:
        """Decide that a topic goes: from here on a restart finishes what was begun.

        Raises:
            UnknownTopicOrPartitionError: no such topic.
        """
        with self._transaction() as connection:
            cursor = connection.execute("UPDATE topics SET is_deleting = 1 WHERE name = ?", (name,))
            _expect_one(cursor, name)

    def finish_delete(self, name: str, *, remember: bool) -> None:
        """Forget a topic whose directories are renamed; its name is free again.

        Args:
            name: The topic; that there is none such is not an error (a repeated finish).
            remember: Keep the id, because a directory that is missing now may come back with
                partitions of this topic, and they must not be taken for a new one.
        """
        with self._transaction() as connection:
            if remember:
                connection.execute(
                    "INSERT OR IGNORE INTO deleted_topics (topic_id, name)"
                    " SELECT topic_id, name FROM topics WHERE name = ?",
                    (name,),
                )
            connection.execute("DELETE FROM topics WHERE name = ?", (name,))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise


def is_failed_sync(error: sqlite3.Error) -> bool:
    """Whether SQLite says that fsync failed: what it would have saved may be lost, a retry lies."""
    return getattr(error, "sqlite_errorcode", 0) in _FAILED_SYNCS


def _create_private(path: Path) -> None:
    # SQLite would make the file with the umask's mode; its journal takes the mode of the file.
    flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC
    os.close(os.open(path, flags, 0o600))
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = TRUNCATE")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise DataDirectoryError(
            f"the topic registry {path} has schema {version}; this version of Tidelog knows up to "
            f"{SCHEMA_VERSION}: start the newer version that wrote it"
        )
    if version == SCHEMA_VERSION:
        return
    changes = [_MIGRATIONS[old] for old in range(max(version, 1), SCHEMA_VERSION)]
    script = "\n".join(changes if version else [_SCHEMA, *changes])
    connection.executescript(
        f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )


def _insert_settings(
    connection: sqlite3.Connection, topic: str, settings: Mapping[str, str]
) -> None:
    connection.executemany(
        "INSERT INTO topic_settings (topic_name, name, value) VALUES (?, ?, ?)",
        [(topic, name, value) for name, value in settings.items()],
    )


def _expect_one(cursor: sqlite3.Cursor, name: str) -> None:
    if cursor.rowcount != 1:
        raise UnknownTopicOrPartitionError(f"there is no topic {name}")
