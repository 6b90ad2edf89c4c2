"""Flusher: groups, their order and due times."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from broker.flusher import GROUP_CLOCK_LOGS, GROUP_LOGS_MAX, Flusher
from broker.metrics import FlushMetrics
from tests.support.flusher_bench import Bench, FakeLog
from tests.support.manual_loop import ManualLoop


@pytest.fixture
def bench() -> Any:
    made = Bench()
    yield made
    made.loop.close()


def test_given_appends_in_one_turn_when_flushed_then_they_are_one_group(bench: Bench):
    logs = [bench.log() for _ in range(3)]
    for log in logs:
        log.append()
        log.append()
    bench.loop.settle()

    bench.disk.release()
    bench.loop.settle()

    assert bench.groups == [logs]
    assert [log.durable for log in logs] == [2, 2, 2]
    assert (bench.metrics.groups, bench.metrics.files) == (1, 3)


def test_given_one_log_when_flushed_then_one_job_does_it(bench: Bench):
    bench.log().append()

    bench.loop.settle()

    assert bench.disk.submitted == 1


def test_given_more_logs_than_threads_when_flushed_then_all_are_synced_by_so_many_jobs():
    bench = Bench(threads_max=4)
    logs = [bench.log() for _ in range(10)]
    for log in logs:
        log.append()
    bench.loop.settle()

    jobs = bench.disk.release()
    bench.loop.settle()

    assert jobs == 4
    assert [log.syncs for log in logs] == [1] * 10
    bench.loop.close()


def test_given_more_logs_than_a_group_takes_when_flushed_then_the_next_group_takes_the_rest(
    bench: Bench,
):
    logs = [bench.log() for _ in range(GROUP_LOGS_MAX + 3)]
    for log in logs:
        log.append()
    flushing = bench.loop.create_task(bench.flusher.flush_all(logs))  # type: ignore[arg-type]
    bench.loop.settle()

    bench.disk.release()
    bench.loop.settle()
    was_done = flushing.done()
    bench.disk.release()
    bench.loop.settle()

    assert bench.groups == [logs[:GROUP_LOGS_MAX], logs[GROUP_LOGS_MAX:]]
    assert (was_done, flushing.done()) == (False, True)


def test_given_logs_that_take_their_time_when_a_group_starts_then_it_takes_few_of_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    """Files that have to be opened first: hundreds of them took a tenth of a second."""
    logs = [bench.log() for _ in range(100)]
    take = FakeLog.flush_task

    def slow(log: FakeLog) -> Any:
        bench.loop.clock.advance(ms=1)
        return take(log)

    monkeypatch.setattr(FakeLog, "flush_task", slow)
    for log in logs:
        log.append()
    bench.disk.follow()

    bench.loop.settle()

    assert [each for group in bench.groups for each in group] == logs
    assert max(map(len, bench.groups)) <= GROUP_CLOCK_LOGS


def test_given_logs_with_nothing_to_flush_first_when_flushed_then_those_behind_are_too(
    bench: Bench,
):
    idle, behind = [bench.log() for _ in range(GROUP_LOGS_MAX)], bench.log()
    behind.written = 1
    flushing = bench.loop.create_task(bench.flusher.flush_all([*idle, behind]))  # type: ignore[list-item]
    bench.disk.follow()

    bench.loop.settle()

    assert flushing.done()
    assert behind.durable == 1


def test_given_a_group_under_way_when_appended_then_nothing_joins_it(bench: Bench):
    first, second = bench.log(), bench.log()
    first.append()
    bench.loop.settle()

    first.append()
    second.append()
    bench.loop.settle()

    assert len(bench.disk.jobs) == 1  # no second group beside the first
    bench.disk.release()
    bench.loop.settle()
    assert (first.durable, second.durable) == (1, 0)
    bench.disk.release()
    bench.loop.settle()
    assert (first.durable, second.durable) == (2, 1)


def test_given_a_group_ends_when_the_next_starts_then_one_loop_turn_lies_between(bench: Bench):
    answered, other = bench.log(), bench.log()
    answered.append()
    bench.loop.settle()
    other.append()
    bench.disk.release()

    bench.loop.turn()  # the end of the group: whoever waited is answered now
    answered.append()  # and sends again
    assert not bench.disk.jobs
    bench.loop.turn()
    bench.disk.release()
    bench.loop.settle()

    assert bench.groups[1] == [other, answered]


def test_given_a_time_when_it_comes_then_the_log_is_flushed_without_an_append(bench: Bench):
    """R37: the timer fires without a further append, so a quiet topic is flushed too."""
    log = bench.log()
    log.append(due_at=bench.loop.time() + 0.5)

    bench.loop.advance(499)
    early = len(bench.disk.jobs)
    bench.loop.advance(2)
    bench.disk.release()
    bench.loop.settle()

    assert early == 0
    assert log.durable == 1


def test_given_a_nearer_time_when_told_then_the_timer_follows(bench: Bench):
    late, soon = bench.log(), bench.log()
    late.append(due_at=bench.loop.time() + 10)
    soon.append(due_at=bench.loop.time() + 1)

    bench.loop.advance(1_001)
    bench.disk.release()
    bench.loop.settle()

    assert (late.durable, soon.durable) == (0, 1)


def test_given_a_log_that_became_due_later_when_its_time_comes_then_it_is_asked_again(bench: Bench):
    log = bench.log()
    log.append(due_at=bench.loop.time() + 1)
    log.flush_due_at = bench.loop.time() + 2  # flushed for another reason, and written to

    bench.loop.advance(1_999)
    early = len(bench.disk.jobs)
    bench.loop.advance(2)
    bench.disk.release()
    bench.loop.settle()

    assert (early, log.durable) == (0, 1)


def test_given_many_timed_logs_when_told_then_each_costs_the_same(bench: Bench):
    """R37: with thousands of quiet logs the loop has other things to do than to count them."""
    now_s = bench.loop.time()
    asked: list[FakeLog] = []

    class CountingLog(FakeLog):
        @property
        def flush_due_at(self) -> float | None:
            asked.append(self)
            return self.__dict__["due_at"]  # type: ignore[no-any-return]

        @flush_due_at.setter
        def flush_due_at(self, due_at: float | None) -> None:
            self.__dict__["due_at"] = due_at

    logs = [CountingLog(bench.flusher) for _ in range(100)]
    for number, log in enumerate(logs):
        log.append(due_at=now_s + 1 + number / 100)
    bench.disk.follow()
    bench.loop.advance(2_001)

    assert [log.durable for log in logs] == [1] * 100
    assert len(asked) <= 3 * len(logs)


def test_given_a_log_without_due_time_when_told_then_nothing_is_flushed(bench: Bench):
    bench.log().append(due_at=None)

    bench.loop.advance(100_000)

    assert not bench.disk.jobs


def test_given_writeback_due_when_woken_then_it_runs_beside_the_loop(bench: Bench):
    started: list[tuple[int, int]] = []

    class File:
        path = "x"

        def start_writeback(self, position: int, size: int) -> None:
            started.append((position, size))
            raise OSError(errno.EIO, "a hint may fail")

    log = bench.log()
    log.writeback = (File(), 5, 7)
    log.append(due_at=None)
    bench.loop.settle()
    before = list(started)

    bench.disk.release()

    assert (before, started) == ([], [(5, 7)])


def test_given_real_threads_when_many_logs_are_flushed_then_each_is_synced_once():
    loop = ManualLoop()
    metrics = FlushMetrics()
    with ThreadPoolExecutor(8) as threads:
        flusher = Flusher(loop, loop.clock, threads, metrics=metrics, on_fatal=lambda error: None)
        logs = [FakeLog(flusher) for _ in range(100)]
        for log in logs:
            log.append()

        loop.run_until_complete(flusher.flush_all(logs))  # type: ignore[arg-type]

    assert [log.durable for log in logs] == [1] * 100
    assert [log.syncs for log in logs] == [1] * 100
    loop.close()
