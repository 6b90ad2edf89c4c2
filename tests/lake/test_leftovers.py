"""Leftovers: what a dead run has staged goes after a day; what another one stages stays."""

from __future__ import annotations

import os
import time

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem

from tests.support.lakes import TOPIC, change_of, stage
from tidelog.lake.leftovers import LEFTOVER_AGE_S, remove_leftovers
from tidelog.lake.log import TopicLog
from tidelog.lake.store import ArrowStore, LocalStore, Store
from tidelog.segments.location import Location

DAY_S = LEFTOVER_AGE_S


class TellsNoAge(MemoryFileSystem):
    """A store that says of no file when it was written."""

    def modified(self, path: str) -> float:
        raise NotImplementedError


def memory(kind: type[MemoryFileSystem], name: str) -> ArrowStore:
    filesystem = PyFileSystem(FSSpecHandler(kind()))
    return ArrowStore(Location(filesystem, f"/{name}/{TOPIC}"))


def staged(store: Store) -> list[str]:
    return [file.path for file in store.files("_staged")]


@pytest.fixture(params=["directory", "object store"])
def store(request, tmp_path):
    if request.param == "directory":
        return LocalStore(tmp_path / TOPIC)
    return memory(MemoryFileSystem, tmp_path.name)


def test_given_staged_files_when_a_day_has_passed_then_they_are_removed_and_no_sooner(store):
    log = TopicLog(store, TOPIC)
    log.commit(change_of("one", stage(store, 0, 0, 10)))
    stage(store, 0, 10, 20, writer="dead")
    now_s = time.time()

    removed = [remove_leftovers(log, now_s), remove_leftovers(log, now_s + DAY_S + 60)]

    assert removed == [0, 1]
    assert staged(store) == []
    assert len(store.files("data")) == 1


def test_given_a_last_commit_that_is_not_published_when_removed_then_its_files_stay(tmp_path):
    store = LocalStore(tmp_path / TOPIC)
    (file,) = stage(store, 0, 0, 10)
    log = TopicLog(store, TOPIC)
    log.commit(change_of("one", [file]))
    store.move(file.path, file.staged)  # as if its writer had died behind the commit
    os.utime(store.root / file.staged, (0, 0))

    assert remove_leftovers(TopicLog(store, TOPIC), time.time()) == 0
    assert staged(store) == [file.staged]


def test_given_a_store_that_tells_no_age_when_removed_then_another_writers_files_stay(tmp_path):
    store = memory(TellsNoAge, tmp_path.name)
    files = stage(store, 0, 0, 10, writer="other")

    assert remove_leftovers(TopicLog(store, TOPIC), time.time() + 10 * DAY_S) == 0
    assert staged(store) == [file.staged for file in files]
