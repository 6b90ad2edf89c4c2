"""Controls that must fail: an engine with one fault put in, which the same crashes must find.

Each fault breaks one rule that durability stands on. A control passes when the oracle has found a
broken promise; were it not to, the other tests here would not find such a fault either.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from broker.storage import checkpoint, durable_offsets
from broker.storage.disk import Disk, write_whole
from broker.storage.durable_offsets import DurableOffsets
from broker.storage.file_flush import FileFlush
from broker.storage.flush import FlushTask
from broker.storage.log_config import LogConfig
from broker.storage.partition_log import PartitionLog
from broker.storage.segment_check import SegmentCheck
from broker.storage.segment_lookup import SegmentLookup
from tests.crash.forks import Crash, Ending, each_crash
from tests.crash.oracle import ViolationError, Wound
from tests.crash.stories import STORIES
from tests.crash.test_wounded_files import Stopped, wound_one

SEEDS_MAX = 10


def crashes(story: str, ending: Ending = Ending.ALL_LOST) -> Callable[[int], None]:
    """Crash before each change of a story."""

    def look(left: Crash, _: object) -> None:
        left.start().check()

    def run(seed: int) -> None:
        each_crash(STORIES[story].tell, STORIES[story].world(seed), ending, look, seed=seed)

    return run


def wounds(pattern: str, wound: str, *, is_clean: bool) -> Callable[[int], None]:
    """Wound files of a kind, a dozen times."""

    def run(seed: int) -> None:
        stopped = Stopped(is_clean=is_clean)
        for number in range(12 * seed, 12 * seed + 12):
            disk, oracle = stopped.copy()
            hit = wound_one(disk, pattern, wound, Random(number))

            def allowed(each: Wound, hit: Wound = hit) -> bool:
                return each.first_offset >= hit.first_offset and each.next_offset <= hit.next_offset

            oracle.check(stopped.start(disk, oracle).view(), allowed)

    return run


# --- the faults -------------------------------------------------------------------------------


def flusher_that_does_not_sync(patch: pytest.MonkeyPatch) -> None:
    def sync(self: FileFlush) -> None:
        self._succeeded = True

    patch.setattr(FileFlush, "sync", sync)


def acknowledgement_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    update_config = PartitionLog.update_config

    def update(self: PartitionLog, config: LogConfig) -> None:
        update_config(self, config)
        self.follows_log_end = True  # the high watermark moves with each append

    patch.setattr(PartitionLog, "update_config", update)


def no_sync_of_directories(patch: pytest.MonkeyPatch) -> None:
    def run(self: FlushTask) -> None:
        for flush in self.flushes:
            flush.sync()
        for file in self.files:
            file.sync()
        self.has_run = True

    patch.setattr(FlushTask, "run", run)


def log_starts_without_a_sync(patch: pytest.MonkeyPatch) -> None:
    def replace(disk: Disk, path: Path, data: bytes) -> None:
        temporary = path.with_name(path.name + ".tmp")
        file = disk.open(temporary, create=True)
        file.truncate(0)
        write_whole(file, [data], 0)
        file.close()
        disk.rename(temporary, path)
        disk.sync_directory(path.parent)

    patch.setattr(checkpoint, "replace_file", replace)
    patch.setattr(durable_offsets, "replace_file", replace)
    # A log start has a second copy, in this file, which alone would keep the promise.
    patch.setattr(DurableOffsets, "sync", lambda _: None)


def recovery_that_trusts_indexes(patch: pytest.MonkeyPatch) -> None:
    for name in ("_is_offset_entry_right", "_is_time_entry_right"):
        patch.setattr(SegmentLookup, name, lambda *_: True)


def reader_that_skips_the_crc(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentCheck, "check", lambda self, offset, found, size, **_: size)
    patch.setattr(SegmentCheck, "span_steps", lambda *_: iter(()))


CONTROLS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[[int], None]]] = {
    "a flusher that does not sync": (flusher_that_does_not_sync, crashes("append")),
    "acknowledgement before the sync": (acknowledgement_before_the_sync, crashes("append")),
    "no sync of directories": (no_sync_of_directories, crashes("append")),
    "checkpoints renamed before their sync": (
        log_starts_without_a_sync,
        crashes("retention"),
    ),
    "recovery that trusts offset indexes": (
        recovery_that_trusts_indexes,
        wounds("*.index", "flipped bit", is_clean=False),
    ),
    "recovery that trusts time indexes": (
        recovery_that_trusts_indexes,
        wounds("*.timeindex", "flipped bit", is_clean=False),
    ),
    "a clean start that trusts indexes": (
        recovery_that_trusts_indexes,
        wounds("*.index", "flipped bit", is_clean=True),
    ),
    "a reader that skips the CRC": (
        reader_that_skips_the_crc,
        wounds("*.log", "flipped bit", is_clean=True),
    ),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_given_an_engine_with_this_fault_when_it_crashes_then_a_broken_promise_is_found(
    name, monkeypatch
):
    put_in, attempt = CONTROLS[name]
    put_in(monkeypatch)
    for seed in range(SEEDS_MAX):
        try:
            attempt(seed)
        except ViolationError:
            return

    pytest.fail(f"nobody has noticed: {name}")


@pytest.mark.parametrize("name", CONTROLS)
def test_given_the_engine_as_it_is_when_it_crashes_likewise_then_every_promise_holds(name):
    _, attempt = CONTROLS[name]

    attempt(0)
