"""DiskWatch: looks at each disk from time to time, and never waits for one that hangs."""

from __future__ import annotations

import errno

import structlog

from broker.disk_watch import ANSWER_S, QUIET_S, DiskWatch
from broker.metrics import StorageMetrics
from tests.support.log_storage import LogStorage
from tests.support.manual_loop import HeldExecutor, ManualLoop

FREE = 1 << 30


class Bench:
    """One directory, watched; its free space is what the test says."""

    def __init__(self) -> None:
        self.loop, self.threads = ManualLoop(), HeldExecutor()
        self.storage = LogStorage()
        self.directory = self.storage.directory
        self.disk = self.storage.disk
        self.metrics = StorageMetrics()
        self.resumed: list[object] = []
        self.watch = DiskWatch(
            self.loop, self.threads, self.metrics, on_resumed=self.resumed.append
        )
        self.disk.space_bytes = 10 * FREE
        self.watch.start([self.directory])

    def fill(self, free_bytes: int) -> None:
        self.disk.space_bytes = None
        self.disk.free_bytes = lambda path: free_bytes  # type: ignore[method-assign]
        self.disk.total_bytes = lambda path: 10 * FREE  # type: ignore[method-assign]

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.watch.stop()
        self.loop.close()


def test_given_a_disk_that_fills_when_a_second_has_passed_then_appends_end_and_come_back():
    with Bench() as bench:
        bench.threads.follow()
        bench.fill(1_000)
        before = bench.watch.problems()
        bench.loop.advance(1_050)
        full = bench.watch.problems()
        paused = bench.metrics.directories()[0]

        bench.fill(FREE)
        bench.loop.advance(150)  # nearly full: looked at more often

        assert before == []
        assert "nearly full" in full[0]
        assert (paused.is_paused, paused.free_bytes) == (True, 1_000)
        assert bench.watch.problems() == []
        assert bench.resumed == [bench.directory]


def test_given_a_disk_that_hangs_when_it_has_been_waited_for_then_appends_end_until_it_answers():
    with Bench() as bench:
        bench.loop.advance(900 + int(ANSWER_S * 1_000))
        waiting = bench.watch.problems()
        bench.loop.advance(200)
        hung = bench.watch.problems()
        looks = bench.threads.submitted

        bench.threads.follow()
        bench.loop.settle()

        assert waiting == []
        assert "it does not answer" in hung[0]
        assert looks == 1, "a disk that hangs gets no second thread"
        assert bench.watch.problems() == []
        assert bench.resumed == [bench.directory]


def test_given_a_directory_that_went_away_when_it_is_back_then_appends_go_on():
    with Bench() as bench:
        bench.threads.follow()
        look = bench.directory.guard.look
        error = OSError(errno.ENOENT, "No such file or directory")
        bench.disk.free_bytes = _raising(error)  # type: ignore[method-assign]
        bench.loop.advance(1_050)
        gone = bench.watch.problems()

        bench.fill(FREE)
        bench.loop.advance(1_050)

        assert "cannot be reached: No such file or directory" in gone[0]
        assert bench.watch.problems() == []
        assert look().error is None


def test_given_appends_that_the_disk_refuses_when_looked_at_then_it_is_said_once_each_way():
    with Bench() as bench, structlog.testing.capture_logs() as logged:
        bench.threads.follow()
        for _ in range(3):
            bench.metrics.write_failures += 100
            bench.loop.advance(1_050)
        bench.loop.advance(int(QUIET_S * 1_000) + 1_100)

        events = [(entry["log_level"], entry["event"]) for entry in logged]

        assert [level for level, _ in events] == ["error", "info"]
        assert logged[0]["refused"] == 100


def test_given_a_stopped_watch_when_a_look_comes_back_then_nothing_follows():
    with Bench() as bench:
        bench.loop.advance(1_050)
        bench.fill(1_000)

        bench.watch.stop()
        bench.threads.follow()
        bench.loop.settle()
        bench.loop.advance(5_000)

        assert bench.threads.submitted == 1
        assert not bench.directory.context.pause


def _raising(error: OSError):
    def raise_it(path: object) -> int:
        raise error

    return raise_it
