"""TopicLog: the commits of one topic of a lake, and their order.

    task     writes `_staged/<any>.parquet`, durably; nobody takes that for data
    writer   creates `_log/<next>.json`, only if nobody has         <- the commit
    writer   deletes what a merged file stands for, durably; moves it, as any file that the commit
             adds, from `_staged` to its place under `data`, durably

Nothing comes under `data` that is not committed, so what an aborted run leaves is seen by nobody,
and who lists `data` finds no record twice and no torn file at any time. A writer that dies behind
the commit has its files moved by the next one: before anybody commits n + 1, all of n is in its
place. So only the files of the last commit can still be in `_staged`, and readers of the log look
for them there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec

from tidelog.lake.entry import LOG, Change, DataFile, Entry, decode_entry, encode, entry_path
from tidelog.lake.errors import LakeDamagedError, LakeError
from tidelog.lake.state import State
from tidelog.lake.store import Store

__all__ = ["TopicLog", "location_of"]

SNAPSHOT_SUFFIX: Final = ".state.json"
SNAPSHOT_EVERY: Final = 64
"""Commits; who opens a lake reads the last snapshot and so many commits at most."""


class TopicLog:
    """The log of `<lake>/<topic>`, as far as it was read."""

    def __init__(
        self,
        store: Store,
        topic: str,
        *,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Args:
        store: Its root is the topic's directory.
        """
        self.store, self.topic = store, topic
        self.state = State()
        self.last: Entry | None = None
        self._clock_ms = clock_ms
        self._is_loaded = False

    def refresh(self) -> list[Entry]:
        """Read what was committed since; return it. Changes nothing in the lake."""
        if not self._is_loaded:
            self._load_snapshot()
        found = []
        while (entry := self._entry(self.state.sequence + 1)) is not None:
            self.state.apply(entry)
            self.last = entry
            found.append(entry)
        return found

    def recover(self) -> None:
        """Read the log to its end and put the files of its last commit in their places."""
        self.refresh()
        if self.last is not None:
            self._publish(self.last)

    def commit(self, change: Change) -> Entry:
        """Commit a change and publish it; return what is in the log then.

        A change whose id another try has committed since this log was read last is not committed
        again.

        Raises:
            ConflictError: another writer was faster. Nothing was changed.
            LakeError: a staged file is not there, or has another size. Nothing was changed.
        """
        while True:
            for entry in self.refresh():
                if entry.change.id == change.id:
                    self._publish(entry)
                    return entry
            if self.last is not None:
                self._publish(self.last)
            self.state.check(change)
            self._check_staged(change)
            entry = Entry(
                sequence=self.state.sequence + 1,
                topic=self.topic,
                committed_ms=self._clock_ms(),
                change=change,
            )
            if self.store.put_if_absent(entry_path(entry.sequence), encode(entry)):
                self.state.apply(entry)
                self.last = entry
                self._publish(entry)
                self._save_snapshot()
                return entry

    def entries(self, first: int = 0) -> list[Entry]:
        """Return the commits from a sequence on."""
        found = []
        while (entry := self._entry(first)) is not None:
            found.append(entry)
            first += 1
        return found

    def _entry(self, sequence: int) -> Entry | None:
        path = entry_path(sequence)
        try:
            data = self.store.read(path)
        except FileNotFoundError:
            return None
        entry = decode_entry(data, path)
        if (entry.sequence, entry.topic) != (sequence, self.topic):
            raise LakeDamagedError(
                f"{path} is commit {entry.sequence} of topic {entry.topic!r}, "
                f"not {sequence} of {self.topic!r}"
            )
        return entry

    def _check_staged(self, change: Change) -> None:
        for file in change.add:
            size = self.store.size(file.staged)
            if size != file.size_bytes:
                raise LakeError(f"{file.staged} has {size} bytes; {file.size_bytes} were written")

    def _publish(self, entry: Entry) -> None:
        """Do what a commit says; what of it is done already is left alone.

        Of each merged file what it stands for is deleted first: who lists the directory meanwhile
        misses its records, and that for a moment, but never has one twice.
        """
        change, store = entry.change, self.store
        store.sync([entry_path(entry.sequence)])  # another writer may have created it just now
        for file in sorted(change.add, key=lambda file: (file.partition, file.start_offset)):
            replaced = [path for path in change.remove if file.covers(path)]
            for path in replaced:
                store.remove(path)
            store.sync(replaced)
            if store.move(file.staged, file.path) or store.size(file.path) is not None:
                continue
            if self._entry(entry.sequence + 1) is None:  # else a compaction has removed it since
                raise LakeDamagedError(f"{file.path} is committed, and it is not there")
        store.sync([file.path for file in change.add])

    def _load_snapshot(self) -> None:
        paths = [file.path for file in self.store.files(LOG) if file.path.endswith(SNAPSHOT_SUFFIX)]
        if paths:
            try:
                self.state = msgspec.json.decode(self.store.read(max(paths)), type=State)
            except msgspec.DecodeError as error:
                raise LakeDamagedError(f"{max(paths)} is no snapshot: {error}") from error
            self.last = self._entry(self.state.sequence)
        self._is_loaded = True

    def _save_snapshot(self) -> None:
        if (self.state.sequence + 1) % SNAPSHOT_EVERY == 0:
            path = entry_path(self.state.sequence).removesuffix(".json") + SNAPSHOT_SUFFIX
            self.store.put_if_absent(path, encode(self.state))


def location_of(log: TopicLog, file: DataFile) -> str:
    """Return the path of a live file, relative to the topic's directory: staged or in its place."""
    is_last = log.last is not None and file in log.last.change.add
    if is_last and log.store.size(file.path) is None:
        return file.staged
    return file.path
