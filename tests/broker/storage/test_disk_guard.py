"""DiskGuard: appends end before the disk is full, and begin again by themselves."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import structlog

from broker.storage.disk_guard import RESERVE_PART, DiskGuard
from protocol.errors import StorageError
from tests.support.log_storage import ROOT, LogStorage, batch, records_of

TOTAL_BYTES = 100_000
RESERVE_BYTES = 1_000


class Bench:
    """A log, and a disk with as much free as the test says."""

    def __init__(self, reserve_bytes: int = RESERVE_BYTES) -> None:
        self.storage = LogStorage()
        self.storage.disk.space_bytes = TOTAL_BYTES
        self.context = self.storage.directory.context
        self.guard = DiskGuard(self.context, ROOT, self.storage.directory._lock, reserve_bytes)

    def see(self, free_bytes: int) -> bool:
        look = self.guard.look()
        assert look.total_bytes == TOTAL_BYTES
        return self.guard.note(look._replace(free_bytes=free_bytes))


def test_given_a_falling_level_when_below_the_reserve_then_appends_end_and_all_else_goes_on():
    bench = Bench()
    log = bench.storage.log
    bench.storage.append(b"a")
    bench.see(RESERVE_BYTES)
    bench.storage.append(b"b")

    bench.see(RESERVE_BYTES - 1)

    for append in (log.append, log.appender.append_plain):
        with pytest.raises(StorageError, match="/data is nearly full: 1000 bytes are kept free"):
            append(batch(b"c"))
    with pytest.raises(StorageError, match="nearly full"):
        log.appender.append_plain_run([batch(b"c")])
    assert bench.context.refused_appends == 3
    assert log.log_end_offset == 2
    log.flush()
    assert records_of(log.read(0, 1_000)) == [(0, b"a"), (1, b"b")]
    assert log.roll().base_offset == 2  # retention rolls what is due
    assert log.advance_log_start(1)
    bench.storage.directory.checkpoint()


def test_given_a_pause_when_space_comes_back_then_a_quarter_more_than_the_reserve_ends_it():
    bench = Bench()
    bench.see(RESERVE_BYTES - 1)

    resumed = [bench.see(free) for free in (RESERVE_BYTES, 1_249, 1_250, 1_250)]

    assert resumed == [False, False, True, False]
    assert not bench.guard.problem
    bench.storage.append(b"a")


def test_given_looks_that_find_the_same_when_noted_then_only_changes_are_logged():
    bench = Bench()

    with structlog.testing.capture_logs() as logged:
        for free in (5_000, 999, 998, 500, 1_100, 2_000, 2_001, 900, 899):
            bench.see(free)

    assert [entry["event"] for entry in logged] == [
        "appends are refused; fetching and deleting go on",
        "appends are taken again",
        "appends are refused; fetching and deleting go on",
    ]


def test_given_no_reserve_when_the_disk_is_full_then_only_the_disk_refuses():
    bench = Bench(reserve_bytes=0)

    bench.see(0)

    bench.storage.append(b"a")
    assert not bench.guard.problem


def test_given_a_small_disk_when_guarded_then_the_reserve_is_a_tenth_of_it():
    bench = Bench(reserve_bytes=1 << 40)
    bench.see(TOTAL_BYTES // RESERVE_PART)
    at_a_tenth = bench.guard.problem

    bench.see(TOTAL_BYTES // RESERVE_PART - 1)

    assert bench.guard.reserve_bytes == TOTAL_BYTES // RESERVE_PART
    assert (at_a_tenth, bool(bench.guard.problem)) == ("", True)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_given_a_directory_out_of_reach_when_looked_at_then_appends_wait_for_it(number: int):
    bench = Bench()
    bench.see(TOTAL_BYTES)
    look = bench.guard.look()._replace(error=OSError(number, "gone"))

    bench.guard.note(look)

    with pytest.raises(StorageError, match="/data cannot be reached: gone"):
        bench.storage.append(b"a")
    assert bench.guard.last.free_bytes == TOTAL_BYTES, "the last that was known"
    assert bench.see(TOTAL_BYTES)
    bench.storage.append(b"a")


def test_given_another_directory_in_its_place_when_looked_at_then_it_is_not_taken_for_it():
    bench = Bench()
    bench.storage.disk.rename(Path("/data"), Path("/elsewhere"))
    bench.storage.disk.make_directory(Path("/data"))

    look = bench.guard.look()

    assert look.error is not None
    assert look.error.errno == errno.ENOENT
