"""TopicLog: crashes at every step, two writers at a time, and the order of what is made durable."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.lakes import (
    TOPIC,
    HookedStore,
    ProcessDiedError,
    Turns,
    change_of,
    dying_store,
    listed,
    stage,
)
from tidelog.lake import log as log_module
from tidelog.lake.compaction import merge, plan_merges
from tidelog.lake.entry import Change, Gap
from tidelog.lake.errors import ConflictError, LakeDamagedError, LakeError
from tidelog.lake.log import TopicLog
from tidelog.lake.store import LocalStore, Store
from tidelog.lake.verification import verify_topic

ENDS = (40, 70, 100)
"""Up to where the archive below has each partition after each of its commits."""
ALL = [(partition, offset) for partition in (0, 1) for offset in range(ENDS[-1])]
FILE_BYTES = 1 << 20


@pytest.fixture
def without_fsync(monkeypatch):
    """A process that dies loses nothing that it wrote; and a disk takes its time for each sync."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def archive(store: Store, writer: str, ends: tuple[int, ...] = ENDS) -> None:
    """Archive two partitions up to the last of `ends`, going on from what is there."""
    log = TopicLog(store, TOPIC)
    log.recover()
    while (start := log.state.ends.get(0, 0)) < ends[-1]:
        end = min(end for end in ends if end > start)
        pieces = [
            piece
            for partition in (0, 1)
            for piece in stage(store, partition, start, end, writer=writer)
        ]
        try:
            log.commit(change_of(f"{writer}-{start}", pieces))
        except ConflictError:
            continue


def compact(store: Store, writer: str) -> None:
    log = TopicLog(store, TOPIC)
    log.recover()
    merges = plan_merges(log.state, FILE_BYTES)
    if merges:
        added = [merge(store, writer, each) for each in merges]
        removed = [file.path for each in merges for file in each.files]
        try:
            log.commit(change_of(writer, added, removed))
        except ConflictError:
            return


@pytest.mark.usefixtures("without_fsync")
def test_given_a_crash_before_any_step_when_run_again_then_each_record_is_listed_once(tmp_path):
    outcomes = Counter()
    for steps in itertools.count():
        root = tmp_path / str(steps) / TOPIC
        store = dying_store(root, steps)
        try:
            archive(store, "first")
            compact(store, "first-compaction")
        except ProcessDiedError as death:
            outcomes[str(death).split()[0]] += 1
        else:
            break
        after_death = listed(root)
        archive(LocalStore(root), "second")
        compact(LocalStore(root), "second-compaction")

        assert set(Counter(after_death).values()) <= {1}  # and none is torn, or `listed` raises
        assert listed(root) == ALL
        assert list(verify_topic(TopicLog(LocalStore(root), TOPIC), is_deep=True)) == []
    assert outcomes.keys() >= {"create", "write", "put", "after", "move", "remove"}


@pytest.mark.usefixtures("without_fsync")
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(schedule=st.lists(st.integers(0, 2), max_size=120), dead=st.sets(st.integers(0, 2)))
def test_given_writers_in_any_order_when_some_die_then_nothing_is_doubled_or_lost(schedule, dead):
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory, TOPIC)
        turns = Turns(
            [
                lambda hook: archive(HookedStore(root, hook), "a"),
                lambda hook: archive(HookedStore(root, hook), "b", (25, 85, 100)),
                lambda hook: compact(HookedStore(root, hook), "c"),
            ]
        )
        for writer in schedule:
            turns.step(writer)
            assert set(Counter(listed(root)).values()) <= {1}
        for writer in {0, 1, 2} - dead:
            while turns.step(writer):
                pass
        archive(LocalStore(root), "last")

        assert listed(root) == ALL
        turns.finish()  # those that were taken for dead wake up, and find themselves overtaken
        assert listed(root) == ALL


def test_given_a_writer_that_dies_behind_its_commit_when_another_commits_then_both_are_listed(
    tmp_path,
):
    alive = TopicLog(LocalStore(tmp_path), TOPIC)
    alive.recover()
    died = stage(LocalStore(tmp_path), 0, 0, 10, writer="dead")
    with pytest.raises(ProcessDiedError, match="after put"):
        TopicLog(dying_store(tmp_path, 3), TOPIC).commit(change_of("dead", died))

    alive.commit(change_of("alive", stage(alive.store, 1, 0, 5)))

    assert listed(tmp_path) == [*((0, n) for n in range(10)), *((1, n) for n in range(5))]


def test_given_a_writer_whose_file_is_merged_before_it_has_moved_it_when_it_goes_on_then_no_error(
    tmp_path,
):
    store = LocalStore(tmp_path)
    TopicLog(store, TOPIC).commit(change_of("one", stage(store, 0, 0, 5)))
    moves: list[str] = []

    def overtake(what: str) -> None:
        if what.startswith("move") and what.endswith("10.parquet"):
            moves.append(what)
            compact(store, "compaction")

    slow = HookedStore(tmp_path, overtake)
    TopicLog(slow, TOPIC).commit(change_of("two", stage(store, 0, 5, 10)))

    assert len(moves) == 1
    assert listed(tmp_path) == [(0, offset) for offset in range(10)]
    assert len(store.files("data")) == 1


def test_given_the_same_change_when_committed_again_then_it_is_there_once(tmp_path):
    store = LocalStore(tmp_path)
    change = change_of("change", stage(store, 0, 0, 10))
    other = TopicLog(store, TOPIC)
    other.refresh()

    first = TopicLog(store, TOPIC).commit(change)
    second = other.commit(change)

    assert second == first
    assert len(other.entries()) == 1


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [(0, 10, "goes up to offset 10"), (11, 20, "do not go on"), (5, 15, "do not go on")],
)
def test_given_a_range_that_does_not_go_on_when_committed_then_nothing_changes(
    tmp_path, start, end, message
):
    store = LocalStore(tmp_path)
    log = TopicLog(store, TOPIC)
    log.commit(change_of("one", stage(store, 0, 0, 10)))

    with pytest.raises(ConflictError, match=message):
        log.commit(change_of("two", stage(store, 0, start, end)))

    assert len(log.entries()) == 1


@pytest.mark.parametrize("end", [9, 10])
def test_given_a_range_of_nothing_when_committed_then_it_is_refused(tmp_path, end):
    store = LocalStore(tmp_path)
    log = TopicLog(store, TOPIC)
    log.commit(change_of("one", stage(store, 0, 0, 10)))
    nothing = Gap(partition=0, start_offset=10, end_offset=end, reason="empty")

    with pytest.raises(ConflictError):
        log.commit(change_of("two", [nothing]))


def test_given_a_staged_file_that_is_cut_when_committed_then_it_is_refused(tmp_path):
    store = LocalStore(tmp_path)
    (file,) = stage(store, 0, 0, 10)
    os.truncate(tmp_path / file.staged, 20)

    with pytest.raises(LakeError, match="has 20 bytes"):
        TopicLog(store, TOPIC).commit(change_of("one", [file]))

    assert TopicLog(store, TOPIC).entries() == []


def test_given_more_commits_than_a_snapshot_spans_when_opened_then_few_are_read(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(log_module, "SNAPSHOT_EVERY", 4)
    log = TopicLog(LocalStore(tmp_path), TOPIC)
    for start in range(10):
        log.commit(change_of(f"{start}", stage(log.store, 0, start, start + 1)))

    opened = TopicLog(LocalStore(tmp_path), TOPIC)
    read = opened.refresh()

    assert [entry.sequence for entry in read] == [8, 9]
    assert opened.state == log.state


def test_given_a_log_of_another_topic_when_opened_then_it_is_refused(tmp_path):
    store = LocalStore(tmp_path)
    TopicLog(store, TOPIC).commit(change_of("one", stage(store, 0, 0, 10)))

    with pytest.raises(LakeDamagedError, match="'web-logs'"):
        TopicLog(store, "other").refresh()


def test_given_a_commit_when_made_then_each_step_is_durable_before_the_next(tmp_path, monkeypatch):
    steps = traced(monkeypatch, tmp_path)
    store = LocalStore(tmp_path)

    TopicLog(store, TOPIC).commit(change_of("one", stage(store, 3, 0, 10)))

    assert [step for step in steps if "draft" not in step] == [
        "sync .",  # _staged is there
        "sync _staged",
        "sync _staged/writer/3-0.parquet",
        "sync _staged/writer",
        "sync .",  # _log is there
        "sync _log",
        "link _log/00000000000000000000.json",
        "sync _log",
        "sync _log",
        "sync .",  # data is there
        "sync data",
        "rename data/partition=3/00000000000000000000-00000000000000000010.parquet",
        "sync data/partition=3",
    ]
    assert steps.index("sync _log/draft") < steps.index("link _log/00000000000000000000.json")


def traced(monkeypatch: pytest.MonkeyPatch, root: Path) -> list[str]:
    """Return a list to which each sync, link and rename below `root` is added."""
    steps: list[str] = []

    def short(path: str | Path) -> str:
        name = os.path.relpath(path, root)
        if name.endswith(".draft"):
            return "_log/draft"
        stem, dash, last = name.rpartition("-")
        return f"{stem}.parquet" if dash and len(last) == len(".parquet") + 32 else name

    def tracing(what: str, real: Callable[..., None], path_of: Callable[..., str]) -> object:
        def call(*arguments: object) -> None:
            steps.append(f"{what} {short(path_of(*arguments))}")
            real(*arguments)

        return call

    monkeypatch.setattr(
        os, "fsync", tracing("sync", os.fsync, lambda fd: os.readlink(f"/proc/self/fd/{fd}"))
    )
    monkeypatch.setattr(os, "link", tracing("link", os.link, lambda source, target: target))
    rename = tracing("rename", Path.rename, lambda source, target: target)
    monkeypatch.setattr(Path, "rename", rename)
    return steps


def test_given_a_gap_when_committed_then_the_partition_goes_on_behind_it(tmp_path):
    store = LocalStore(tmp_path)
    log = TopicLog(store, TOPIC)
    gap = Gap(partition=0, start_offset=10, end_offset=25, reason="lost")
    log.commit(change_of("one", [*stage(store, 0, 0, 10), gap, *stage(store, 0, 25, 30)]))

    log.commit(
        Change(id="two", gaps=(Gap(partition=0, start_offset=30, end_offset=31, reason="empty"),))
    )

    assert log.state.ends == {0: 31}
    assert log.state.gaps[0] == gap
    assert list(verify_topic(log)) == []
