"""Reading a lake by its log, with files staged, moved and merged meanwhile."""

from __future__ import annotations

import errno
import itertools
import os

import pyarrow.dataset as ds
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow.fs import FSSpecHandler, LocalFileSystem, PyFileSystem, SubTreeFileSystem

from tests.lake.test_log import ENDS, FILE_BYTES, archive, compact
from tests.support.lakes import (
    TOPIC,
    ProcessDiedError,
    change_of,
    dying_store,
    listed,
    stage,
)
from tidelog.lake import reader as reader_module
from tidelog.lake.compaction import merge, plan_merges
from tidelog.lake.entry import entry_path
from tidelog.lake.errors import ConflictError, LakeError, UnsafeStoreError
from tidelog.lake.log import TopicLog
from tidelog.lake.reader import lake_topics, open_topic, read_lake, read_lake_table
from tidelog.lake.store import ArrowStore, LocalStore, locate_lake, open_store
from tidelog.lake.verification import verify_topic
from tidelog.segments.location import Location


def offsets(table):
    columns = table.select(["partition", "offset"]).to_pydict()
    return list(zip(columns["partition"], columns["offset"], strict=True))


ALL = [(partition, offset) for partition in (0, 1) for offset in range(ENDS[-1])]


@pytest.fixture
def memory():
    filesystem = MemoryFileSystem()
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]
    return PyFileSystem(FSSpecHandler(filesystem))


def test_given_a_lake_when_read_then_columns_and_filters_are_those_of_a_dataset(tmp_path):
    archive(LocalStore(tmp_path / TOPIC), "writer")

    condition = (ds.field("partition") == 1) & (ds.field("offset") >= 98)
    table = read_lake_table(tmp_path, TOPIC, columns=["value", "offset"], filter=condition)

    assert table.to_pydict() == {"value": [b"1-98", b"1-99"], "offset": [98, 99]}
    assert offsets(read_lake_table(tmp_path, TOPIC)) == ALL
    assert read_lake_table(tmp_path, TOPIC).to_batches()[0].num_columns == 8


@pytest.mark.parametrize("steps", [3, 4, 5], ids=["before any move", "first", "second"])
def test_given_a_writer_that_died_behind_its_commit_when_read_then_all_of_it_is_there(
    tmp_path, steps
):
    root = tmp_path / TOPIC
    pieces = [*stage(LocalStore(root), 0, 0, 10), *stage(LocalStore(root), 1, 0, 5)]
    with pytest.raises(ProcessDiedError):
        TopicLog(dying_store(root, steps), TOPIC).commit(change_of("one", pieces))
    before = sorted(path for path in root.rglob("*"))

    found = offsets(read_lake_table(tmp_path, TOPIC))

    assert found == [*((0, offset) for offset in range(10)), *((1, offset) for offset in range(5))]
    assert sorted(path for path in root.rglob("*")) == before  # a reader changes nothing


def test_given_files_merged_under_a_reader_when_read_then_it_begins_anew(tmp_path, monkeypatch):
    archive(LocalStore(tmp_path / TOPIC), "writer")
    real = reader_module.read_lake

    def overtaken(*arguments, **named):
        dataset = real(*arguments, **named)
        monkeypatch.setattr(reader_module, "read_lake", real)
        compact(LocalStore(tmp_path / TOPIC), "compaction")
        return dataset

    monkeypatch.setattr(reader_module, "read_lake", overtaken)

    assert offsets(read_lake_table(tmp_path, TOPIC)) == ALL
    assert read_lake(tmp_path, TOPIC).files == [
        str(tmp_path / TOPIC / f"data/partition={partition}/{0:020}-{100:020}.parquet")
        for partition in (0, 1)
    ]


def test_given_no_such_topic_when_read_then_it_is_said(tmp_path):
    with pytest.raises(LakeError, match="has no topic 'nothing'"):
        read_lake(tmp_path, "nothing")


def test_given_an_object_store_when_written_and_compacted_then_the_same_comes_out(memory):
    location = Location(memory, "/lake")
    store = open_store(location.child(TOPIC))
    archive(store, "a")
    archive(store, "b")
    compact(store, "c")

    assert isinstance(store, ArrowStore)
    assert lake_topics(location) == [TOPIC]
    assert offsets(read_lake_table("/lake", TOPIC, filesystem=memory)) == ALL
    assert list(verify_topic(open_topic(location, TOPIC), is_deep=True)) == []
    assert [file.path for file in store.files("_staged")] == []


def test_given_a_url_when_located_then_the_file_system_is_one_that_tells_two_writers_apart(memory):
    location = locate_lake("memory://lake")

    store = open_store(location.child(TOPIC))

    assert store.put_if_absent("_log/0.json", b"a")
    assert not store.put_if_absent("_log/0.json", b"b")
    assert store.url("data") == f"memory://lake/{TOPIC}/data"


def test_given_an_object_store_when_two_put_the_same_then_one_is_first(memory):
    store = open_store(Location(memory, "/lake/topic"))

    assert store.put_if_absent("_log/0.json", b"a")
    assert not store.put_if_absent("_log/0.json", b"b")
    assert store.read("_log/0.json") == b"a"


class Overtaken(MemoryFileSystem):
    """A store in which another writer moves each file just before this one does."""

    def mv(self, path1, path2, **named):
        super().mv(path1, path2, **named)
        super().mv(path1, path2, **named)


def test_given_another_writer_that_moves_the_files_when_published_then_they_are_in_their_places(
    memory,
):
    location = Location(PyFileSystem(FSSpecHandler(Overtaken())), f"/lake/{TOPIC}")

    archive(open_store(location), "a")

    assert offsets(read_lake_table("/lake", TOPIC, filesystem=memory)) == ALL


class Remembering(MemoryFileSystem):
    """A store that remembers listings as s3fs does: what was not in one is not there."""

    cachable = False  # each has its own memory

    def ls(self, path, detail=True, **named):
        path = self._strip_protocol(path)
        if path not in self.dircache:
            self.dircache[path] = super().ls(path, detail=True)
        return self.dircache[path] if detail else [each["name"] for each in self.dircache[path]]

    def info(self, path, **named):
        path = self._strip_protocol(path)
        for known in self.dircache.get(self._parent(path), ()):
            if known["name"] == path:
                return known
        if self._parent(path) in self.dircache:
            raise FileNotFoundError(path)
        return super().info(path)

    find, isfile = AbstractFileSystem.find, AbstractFileSystem.isfile  # by `ls` and `info`

    def invalidate_cache(self, path=None):
        self.dircache.clear()


@pytest.mark.timeout(30)
def test_given_a_store_that_remembers_listings_when_another_writer_commits_then_it_is_seen(memory):
    one, other = (
        TopicLog(open_store(Location(PyFileSystem(FSSpecHandler(Remembering())), "/l/t")), TOPIC)
        for _ in range(2)
    )
    one.commit(change_of("first", stage(one.store, 0, 0, 10)))
    other.refresh()
    assert [file.path for file in other.store.files("_log")] == [entry_path(0)]
    one.commit(change_of("second", stage(one.store, 0, 10, 20)))

    assert [entry.sequence for entry in other.refresh()] == [1]
    with pytest.raises(ConflictError, match="goes up to offset 20"):
        other.commit(change_of("late", stage(other.store, 0, 10, 20, writer="other")))


class NoConditions(MemoryFileSystem):
    """A store of which nobody knows that it can create a file only where there is none."""

    protocol = "plain"


def test_given_a_store_without_conditions_when_committed_then_refused_unless_one_writes():
    location = Location(PyFileSystem(FSSpecHandler(NoConditions())), f"/unsafe/lake/{TOPIC}")

    with pytest.raises(UnsafeStoreError, match="two writers"):
        archive(open_store(location), "a")
    archive(open_store(location, is_single_writer=True), "a")

    assert offsets(read_lake_table("/unsafe/lake", TOPIC, filesystem=location.filesystem)) == ALL


def test_given_a_mount_without_hard_links_when_committed_then_refused_unless_one_writes(
    tmp_path, monkeypatch
):
    def link(source, target):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    location = Location(LocalFileSystem(), str(tmp_path / TOPIC))

    with pytest.raises(UnsafeStoreError, match="has no hard links"):
        archive(open_store(location), "a")
    store = open_store(location, is_single_writer=True)
    archive(store, "a")

    assert offsets(read_lake_table(tmp_path, TOPIC)) == ALL
    assert not store.put_if_absent(entry_path(0), b"other")
    assert [file.path for file in store.files("_log") if "draft" in file.path] == []


def test_given_a_subtree_of_this_machine_when_opened_then_it_is_synced_like_any_other(tmp_path):
    subtree = SubTreeFileSystem(str(tmp_path), LocalFileSystem())

    store = open_store(Location(subtree, "lake/topic"))

    assert isinstance(store, LocalStore)
    assert store.root == tmp_path / "lake" / "topic"


def test_given_large_and_small_files_when_merges_are_planned_then_only_small_neighbours(tmp_path):
    store = LocalStore(tmp_path / TOPIC)
    log = TopicLog(store, TOPIC)
    cuts = [0, 10, 20, 2_000, 2_010, 2_020, 2_030]
    pieces = [
        piece for start, end in itertools.pairwise(cuts) for piece in stage(store, 0, start, end)
    ]
    log.commit(change_of("one", pieces))
    sizes = [piece.size_bytes for piece in pieces]
    assert max(sizes) == sizes[2]

    merges = plan_merges(log.state, 2 * sizes[2])
    pairs_only = plan_merges(log.state, 3 * max(sizes[3:]) - 1)
    more = plan_merges(log.state, 2 * sizes[2], files_min=3)

    assert [[file.start_offset for file in each.files] for each in merges] == [
        [0, 10], [2_000, 2_010, 2_020],
    ]  # fmt: skip
    assert [len(each.files) for each in pairs_only] == [2, 2]
    assert [len(each.files) for each in more] == [3]


def test_given_a_merge_that_was_overtaken_when_committed_then_the_files_stay(tmp_path):
    store = LocalStore(tmp_path / TOPIC)
    archive(store, "writer")
    log = TopicLog(store, TOPIC)
    log.refresh()
    (first, second) = plan_merges(log.state, FILE_BYTES)
    made = merge(store, "late", first)
    compact(store, "compaction")

    with pytest.raises(LakeError, match="in the lake no more"):
        log.commit(change_of("late", [made], [file.path for file in first.files]))

    assert listed(tmp_path / TOPIC) == ALL
    assert second.size_bytes > 0


def test_given_damage_when_verified_then_each_fault_is_named(tmp_path):
    root = tmp_path / TOPIC
    archive(LocalStore(root), "writer")
    files = sorted((root / "data" / "partition=0").iterdir())
    other = sorted((root / "data" / "partition=1").iterdir())
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:-1])
    data = bytearray(files[2].read_bytes())
    data[40] ^= 1
    files[2].write_bytes(data)
    (root / "data" / "partition=1" / "stray.parquet").write_bytes(other[0].read_bytes())

    faults = list(verify_topic(TopicLog(LocalStore(root), TOPIC), is_deep=True))

    assert {fault.path.rpartition("/")[2]: fault.text.partition(";")[0] for fault in faults} == {
        "stray.parquet": "is in no commit: who lists the directory takes it for data",
        files[0].name: "is committed, and it is not there",
        files[1].name: f"has {files[1].stat().st_size} bytes",
        files[2].name: "has another SHA-256 than was committed",
    }
