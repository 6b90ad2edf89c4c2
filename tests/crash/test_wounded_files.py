"""Bit flips, zeroed and duplicated pages, truncation of any file: no wrong record, none lost.

Each time one file of a directory is wounded, or a log and a hint beside it, after a clean stop or
a kill, and the next broker starts on it. An acknowledged record may be reported as damaged only if
its own batch was hit. Hints alone: `test_wounded_hints`, with every answer compared.
"""

from __future__ import annotations

import fnmatch
from random import Random

import msgspec
import pytest

from broker.clock import ManualClock
from protocol.errors import DataDirectoryError
from tests.crash.oracle import Oracle, Wound
from tests.crash.scale import SCALE
from tests.crash.world import DELETING, World
from tests.crash.wounds import WOUNDS, wound_file
from tests.support.fake_disk import FakeDisk
from tests.support.log_storage import PARTITION, ROOT

SEEDS = 40 * SCALE
"""Of each kind of wound to a log and way to stop: 320 in all."""
HINT_SEEDS = 8 * SCALE
CONFIG = msgspec.structs.replace(DELETING, segment_bytes=700)
HINTS = (
    "*.index",
    "*.timeindex",
    "*.snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "durable-offsets",
)


class Stopped:
    """A used data directory whose broker has ended; to be wounded again and again."""

    def __init__(self, *, is_clean: bool) -> None:
        world = World(CONFIG, seed=7)
        world.append(14)
        world.flush()
        world.housekeep()
        world.delete_records(2)
        world.append(14)
        world.flush()
        world.housekeep()
        if is_clean:
            world.stop()
        self._disk, self._oracle = world.storage.disk, world.oracle
        self._now_ms = world.storage.clock.now_ms()

    def copy(self) -> tuple[FakeDisk, Oracle]:
        """Return a disk to be wounded, and who knows what was on it."""
        disk = self._disk.fork(ManualClock(self._now_ms))
        disk.kill()
        return disk, self._oracle.copy()

    def start(self, disk: FakeDisk, oracle: Oracle) -> World:
        """Start a broker on it."""
        return World(CONFIG, disk=disk, clock=ManualClock(self._now_ms), oracle=oracle)


def wound_one(disk: FakeDisk, pattern: str, wound: str, random: Random) -> Wound:
    """Wound one of the files that match, of those that hold anything."""
    paths = [
        directory / name
        for directory in (ROOT, ROOT / str(PARTITION))
        for name, size in sorted(disk.file_sizes(directory).items())
        if size and fnmatch.fnmatch(name, pattern)
    ]
    return wound_file(disk, random.choice(paths), wound, random)


def check_wounded(stopped: Stopped, patterns: list[str], wound: str, random: Random) -> None:
    """Wound files, start, look; stop, start and look again: the first look has changed nothing."""
    disk, oracle = stopped.copy()
    hits = [wound_one(disk, each, wound, random) for each in patterns]

    def is_of_a_hit(found: Wound) -> bool:
        return any(
            hit.first_offset <= found.first_offset and found.next_offset <= hit.next_offset
            for hit in hits
        )

    world = stopped.start(disk, oracle)
    oracle.check(world.view(), is_of_a_hit)
    world.append(2)
    world.flush()
    world.stop()
    world.start()
    oracle.check(world.view(), is_of_a_hit)


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean stop", "kill"])
@pytest.mark.parametrize("wound", WOUNDS)
def test_given_a_wounded_log_when_started_then_only_what_was_hit_is_missing(wound, is_clean):
    stopped = Stopped(is_clean=is_clean)
    for seed in range(SEEDS):
        try:
            check_wounded(stopped, ["*.log"], wound, Random(seed))
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean stop", "kill"])
@pytest.mark.parametrize("wound", WOUNDS)
@pytest.mark.parametrize("hint", HINTS)
def test_given_a_wounded_hint_and_a_wounded_log_when_started_then_only_what_was_hit_is_missing(
    hint, wound, is_clean
):
    stopped = Stopped(is_clean=is_clean)
    for seed in range(HINT_SEEDS):
        try:
            check_wounded(stopped, ["*.log", hint][seed % 2 :], wound, Random(seed))
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("wound", WOUNDS)
def test_given_a_wounded_meta_properties_when_started_then_it_serves_or_refuses_in_words(wound):
    stopped = Stopped(is_clean=True)
    refused = 0
    for seed in range(SEEDS):
        disk, oracle = stopped.copy()
        wound_one(disk, "meta.properties", wound, Random(seed))
        try:
            world = stopped.start(disk, oracle)
        except DataDirectoryError:  # in words, and nothing else
            refused += 1
            continue
        world.check()

    assert refused or wound == "duplicated page", "no wound was ever noticed"


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean stop", "kill"])
def test_given_a_sealed_log_cut_between_batches_when_read_then_what_is_missing_is_reported(
    is_clean,
):
    stopped = Stopped(is_clean=is_clean)
    disk, oracle = stopped.copy()
    directory = ROOT / str(PARTITION)
    name = sorted(each for each in disk.list_directory(directory) if each.endswith(".log"))[1]
    file = disk.open(directory / name)
    file.truncate(0)
    file.sync()

    oracle.check(stopped.start(disk, oracle).view(), lambda _: True)
