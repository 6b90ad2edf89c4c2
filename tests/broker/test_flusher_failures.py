"""Flusher: what a failed sync means, and waiting for all that is under way."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from tests.support.flusher_bench import Bench


@pytest.fixture
def bench() -> Any:
    made = Bench()
    yield made
    made.loop.close()


def test_given_a_failed_sync_when_it_ends_then_it_is_fatal_once_and_final(bench: Bench):
    broken, sound = bench.log(), bench.log()
    broken.sync_error = OSError(errno.EIO, "Input/output error")
    broken.append()
    sound.append()
    bench.loop.settle()

    bench.disk.release()
    bench.loop.settle()
    sound.append()
    bench.loop.settle()

    assert bench.fatal == [broken.sync_error]
    assert sound.durable == 0  # synced or not: nothing is acknowledged after it
    assert not bench.disk.jobs  # no retry
    assert bench.metrics.failures == 1
    assert broken.failure is broken.sync_error


def test_given_no_space_when_synced_then_it_is_just_as_fatal(bench: Bench):
    log = bench.log()
    log.sync_error = OSError(errno.ENOSPC, "No space left on device")
    log.append()
    bench.loop.settle()

    bench.disk.release()
    bench.loop.settle()

    assert len(bench.fatal) == 1


def test_given_a_bug_in_a_task_when_it_ends_then_it_counts_as_a_failed_sync(bench: Bench):
    log = bench.log()
    log.sync_error = IndexError("a bug")  # type: ignore[assignment]
    log.append()
    bench.loop.settle()

    bench.disk.release()
    bench.loop.settle()

    assert [str(error) for error in bench.fatal] == ["IndexError: a bug"]


def test_given_unflushed_logs_when_all_are_flushed_then_it_waits_for_every_group(bench: Bench):
    under_way, timed = bench.log(), bench.log()
    under_way.append()
    bench.loop.settle()
    under_way.append()
    timed.append(due_at=bench.loop.time() + 1_000)

    flushing = bench.loop.create_task(
        bench.flusher.flush_all([under_way, timed])  # type: ignore[list-item]
    )
    bench.loop.settle()
    assert not flushing.done()
    while bench.disk.release():
        bench.loop.settle()

    assert flushing.done()
    assert flushing.exception() is None
    assert (under_way.durable, timed.durable) == (2, 1)


def test_given_a_failure_when_all_are_flushed_then_it_is_raised(bench: Bench):
    log = bench.log()
    log.sync_error = OSError(errno.EIO, "Input/output error")
    log.append()

    flushing = bench.loop.create_task(bench.flusher.flush_all([log]))  # type: ignore[list-item]
    bench.loop.settle()
    bench.disk.release()
    bench.loop.settle()

    assert flushing.exception() is log.sync_error
    again = bench.loop.create_task(bench.flusher.flush_all([log]))  # type: ignore[list-item]
    bench.loop.settle()
    assert again.exception() is log.sync_error


def test_given_nothing_unflushed_when_all_are_flushed_then_it_returns(bench: Bench):
    bench.loop.run(bench.flusher.flush_all([bench.log()]))  # type: ignore[list-item]

    assert not bench.groups


def test_given_a_group_under_way_when_a_log_is_forgotten_then_it_waits_for_the_end(bench: Bench):
    log, next_one = bench.log(), bench.log()
    log.append()
    bench.loop.settle()
    next_one.append()

    forgetting = bench.loop.create_task(bench.flusher.forget([log, next_one]))  # type: ignore[list-item]
    bench.loop.settle()
    waited = not forgetting.done()
    bench.disk.release()
    bench.loop.settle()

    assert waited
    assert forgetting.done()
    assert not bench.disk.jobs  # what was due is not flushed any more
    bench.loop.run(bench.flusher.forget([log]))  # type: ignore[list-item]
