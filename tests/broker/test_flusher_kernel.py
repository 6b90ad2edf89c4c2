"""Flusher: what the kernel syncs by itself, and what is left to threads."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from tests.support.flusher_bench import Bench, FakeKernel


@pytest.fixture
def kernel() -> FakeKernel:
    return FakeKernel()


@pytest.fixture
def bench(kernel: FakeKernel) -> Iterator[Bench]:
    made = Bench(kernel=kernel)
    yield made
    made.loop.close()


def test_given_single_files_when_flushed_then_the_kernel_does_it_without_a_thread(
    bench: Bench, kernel: FakeKernel
):
    logs = [bench.log(descriptor=number) for number in (5, 6)]
    for log in logs:
        log.append()
    bench.loop.settle()
    before = [log.durable for log in logs]

    kernel.end()
    bench.loop.settle()

    assert (before, [log.durable for log in logs]) == ([0, 0], [1, 1])
    assert kernel.rounds == [[5, 6]]
    assert bench.groups == [logs]
    assert bench.disk.submitted == 0


def test_given_logs_with_more_to_do_when_flushed_then_the_group_waits_for_both(
    bench: Bench, kernel: FakeKernel
):
    simple, new = bench.log(descriptor=5), bench.log()
    simple.append()
    new.append()
    bench.loop.settle()

    kernel.end()
    bench.loop.settle()
    in_between = (simple.durable, new.durable)
    bench.disk.release()
    bench.loop.settle()

    assert in_between == (0, 0)
    assert (simple.durable, new.durable) == (1, 1)
    assert (simple.syncs, simple.kernel_syncs) == (0, 1)
    assert (new.syncs, new.kernel_syncs) == (1, 0)


def test_given_threads_that_end_first_when_flushed_then_the_group_waits_for_the_kernel(
    bench: Bench, kernel: FakeKernel
):
    simple, new = bench.log(descriptor=5), bench.log()
    simple.append()
    new.append()
    bench.loop.settle()

    bench.disk.release()
    bench.loop.settle()
    in_between = (simple.durable, new.durable)
    kernel.end()
    bench.loop.settle()

    assert (in_between, simple.durable, new.durable) == ((0, 0), 1, 1)


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_given_a_kernel_that_takes_fewer_when_flushed_then_threads_do_the_others(taken: int):
    kernel = FakeKernel(syncs_max=taken)
    bench = Bench(kernel=kernel)
    logs = [bench.log(descriptor=number) for number in range(3)]
    for log in logs:
        log.append()
    bench.loop.settle()

    bench.disk.release()
    if taken:
        kernel.end()
    bench.loop.settle()

    assert [log.durable for log in logs] == [1, 1, 1]
    assert [log.kernel_syncs for log in logs] == [1] * taken + [0] * (3 - taken)
    assert [log.syncs for log in logs] == [0] * taken + [1] * (3 - taken)
    bench.loop.close()


def test_given_appends_meanwhile_when_the_kernel_is_done_then_the_next_group_takes_them(
    bench: Bench, kernel: FakeKernel
):
    first, second = bench.log(descriptor=5), bench.log(descriptor=6)
    first.append()
    bench.loop.settle()
    first.append()
    second.append()
    bench.loop.settle()

    kernel.end()
    bench.loop.settle()
    in_between = (first.durable, second.durable)
    kernel.end()
    bench.loop.settle()

    assert in_between == (1, 0)
    assert (first.durable, second.durable) == (2, 1)
    assert kernel.rounds == [[5], [6, 5]]


def test_given_a_sync_that_failed_in_the_kernel_when_it_ends_then_it_is_fatal_and_final(
    bench: Bench, kernel: FakeKernel
):
    logs = [bench.log(descriptor=5), bench.log()]
    for log in logs:
        log.append()
    bench.loop.settle()
    error = OSError(errno.EIO, "Input/output error")

    kernel.end(error)
    bench.disk.release()
    bench.loop.settle()
    logs[0].append()
    bench.loop.settle()

    assert bench.fatal == [error]
    assert [log.durable for log in logs] == [0, 0]
    assert [log.failure for log in logs] == [error, error]
    assert len(kernel.rounds) == 1  # no retry


def test_given_a_group_in_the_kernel_when_a_log_is_forgotten_then_it_waits_for_the_group(
    bench: Bench, kernel: FakeKernel
):
    log = bench.log(descriptor=5)
    log.append()
    bench.loop.settle()
    forgetting = bench.loop.create_task(bench.flusher.forget([log]))  # type: ignore[list-item]
    bench.loop.settle()
    was_done = forgetting.done()

    kernel.end()
    bench.loop.settle()

    assert (was_done, forgetting.done()) == (False, True)
