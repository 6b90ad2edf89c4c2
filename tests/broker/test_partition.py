"""Partition: who waits for the high watermark is answered in order, once, and in time."""

from __future__ import annotations

from typing import Any

import pytest

from broker.partition import DEADLINE_TICK_S, CommitDeadlines, Partition
from protocol.error_codes import ErrorCode
from protocol.identifiers import TopicPartition
from tests.support.manual_loop import ManualLoop


class FakeLog:
    topic_partition = TopicPartition("logs", 3)
    high_watermark = 0


class FakeFlusher:
    def __init__(self) -> None:
        self.woken: list[Any] = []
        self.failures: list[OSError] = []

    def wake(self, log: Any) -> None:
        self.woken.append(log)

    def fail(self, error: OSError) -> None:
        self.failures.append(error)


class Bench:
    def __init__(self) -> None:
        self.loop = ManualLoop()
        self.log, self.flusher = FakeLog(), FakeFlusher()
        self.deadlines = CommitDeadlines(self.loop, self.loop.clock)
        self.partition = Partition(
            self.log,  # type: ignore[arg-type]
            self.flusher,  # type: ignore[arg-type]
            self.deadlines,
            self.loop.call_soon,
        )
        self.answers: list[tuple[str, ErrorCode]] = []

    def wait(self, name: str, end_offset: int, timeout_s: float = 1_000.0) -> None:
        self.partition.when_committed(
            end_offset,
            self.loop.time() + timeout_s,
            lambda error: self.answers.append((name, error)),
        )

    def move_high_watermark(self, offset: int) -> None:
        self.log.high_watermark = offset
        self.partition.high_watermark_moved(self.log)  # type: ignore[arg-type]


class Poll:
    def __init__(self) -> None:
        self.wakes = 0

    def wake(self, partition: Partition) -> None:
        self.wakes += 1


@pytest.fixture
def bench() -> Any:
    made = Bench()
    yield made
    made.loop.close()


def test_given_produces_when_the_high_watermark_passes_some_then_those_are_answered(bench: Bench):
    for name, end_offset in (("a", 1), ("b", 3), ("c", 4)):
        bench.wait(name, end_offset)

    bench.move_high_watermark(3)

    assert bench.answers == [("a", ErrorCode.NONE), ("b", ErrorCode.NONE)]


def test_given_a_repetition_when_it_waits_then_it_is_answered_with_those_of_its_offset(
    bench: Bench,
):
    """An idempotent producer's batch may be sent again before the first one is committed."""
    for name, end_offset in (("a", 1), ("b", 3), ("c", 4), ("b again", 3), ("a again", 1)):
        bench.wait(name, end_offset)

    bench.move_high_watermark(1)
    assert [name for name, _ in bench.answers] == ["a", "a again"]
    bench.move_high_watermark(3)

    assert [name for name, _ in bench.answers] == ["a", "a again", "b", "b again"]


def test_given_a_high_watermark_inside_a_batch_when_moved_then_its_produce_waits(bench: Bench):
    bench.wait("a", 10)

    bench.move_high_watermark(9)

    assert bench.answers == []


def test_given_a_deadline_when_it_passes_then_only_that_produce_times_out(bench: Bench):
    bench.wait("slow", 1, timeout_s=1_000.0)
    bench.wait("fast", 2, timeout_s=0.2)

    bench.loop.advance(199)
    early = list(bench.answers)
    bench.loop.advance(1 + int(DEADLINE_TICK_S * 1_000))
    bench.move_high_watermark(2)

    assert early == []
    assert bench.answers == [("fast", ErrorCode.REQUEST_TIMED_OUT), ("slow", ErrorCode.NONE)]


def test_given_nobody_waits_when_time_passes_then_no_timer_is_left(bench: Bench):
    bench.wait("a", 1)
    bench.move_high_watermark(1)
    bench.loop.advance(200)

    assert bench.deadlines._timer is None


def test_given_the_log_fails_when_told_then_all_waiting_ends_with_56_and_the_broker_too(
    bench: Bench,
):
    poll = Poll()
    bench.wait("a", 1)
    bench.wait("b", 2)
    bench.partition.add_fetch_waiter(poll)
    error = OSError("Input/output error")

    bench.partition.log_failed(bench.log, error)  # type: ignore[arg-type]
    bench.move_high_watermark(2)

    assert bench.answers == [
        ("a", ErrorCode.KAFKA_STORAGE_ERROR),
        ("b", ErrorCode.KAFKA_STORAGE_ERROR),
    ]
    assert poll.wakes >= 1
    assert bench.flusher.failures == [error]


def test_given_many_moves_in_a_turn_when_it_ends_then_a_poll_looks_once(bench: Bench):
    poll = Poll()
    bench.partition.add_fetch_waiter(poll)

    for offset in range(1, 10):
        bench.move_high_watermark(offset)
    during = poll.wakes
    bench.loop.settle()

    assert (during, poll.wakes) == (0, 1)


def test_given_a_removed_poll_when_the_high_watermark_moves_then_it_is_left_alone(bench: Bench):
    poll = Poll()
    bench.partition.add_fetch_waiter(poll)

    bench.partition.remove_fetch_waiter(poll)
    bench.partition.remove_fetch_waiter(poll)
    bench.move_high_watermark(1)
    bench.loop.settle()

    assert poll.wakes == 0
    assert not bench.partition.has_waiters


def test_given_unflushed_bytes_when_told_then_the_flusher_is_woken(bench: Bench):
    bench.partition.unflushed(bench.log)  # type: ignore[arg-type]

    assert bench.flusher.woken == [bench.log]
