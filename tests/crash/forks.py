"""Crashes at every change of a disk: before the 1st, the 2nd, ... the last of a story.

The story is told once. Before each change it is forked: a copy of the disk suffers the crash, the
next broker starts on that, and its oracle knows what was known at that moment.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from random import Random
from typing import TypeAlias

from broker.clock import ManualClock
from broker.storage.log_config import FlushPolicy, LogConfig
from tests.crash.oracle import Oracle
from tests.crash.world import World
from tests.support.fake_disk import FakeDisk, Operation

Story: TypeAlias = Callable[[World], None]


class Ending(Enum):
    """What a crash leaves."""

    ALL_LOST = "power cut, all unsynced lost"
    SOME_LOST = "power cut, unsynced lost, torn or kept by chance"
    KILL = "kill -9"


class Crash:
    """A disk as a crash has left it, and what was promised before."""

    def __init__(
        self, disk: FakeDisk, clock: ManualClock, oracle: Oracle, config: LogConfig, seed: int
    ) -> None:
        self.disk, self.clock, self.oracle = disk, clock, oracle
        self.config, self.seed = config, seed

    def start(self) -> World:
        """Start the next broker."""
        return World(self.config, self.seed, disk=self.disk, clock=self.clock, oracle=self.oracle)

    def crash(self, ending: Ending, random: Random) -> None:
        """End whoever is on the disk."""
        if ending is Ending.KILL:
            self.disk.kill()
        else:
            self.disk.crash(None if ending is Ending.ALL_LOST else random)


def crash_of(world: World, ending: Ending, seed: int) -> Crash:
    """Return what a crash at this moment leaves of a world, which goes on."""
    disk, clock, oracle = world.fork()
    config = world.storage.config
    if ending is not Ending.KILL and config.flush_policy is not FlushPolicy.COMMIT:
        oracle.cuts(world.log.durable_offset)
    left = Crash(disk, clock, oracle, config, seed)
    left.crash(ending, Random(seed))
    return left


def each_crash(
    tell: Story,
    world: World,
    ending: Ending,
    look: Callable[[Crash, Operation], None],
    *,
    seed: int = 0,
) -> int:
    """Tell a story; let `look` see what a crash before each change leaves. Return how many.

    `look` raises where a promise is broken: then that, and the change, is what is raised here.
    """
    count = 0

    def before(operation: Operation) -> None:
        nonlocal count
        count += 1
        try:
            look(crash_of(world, ending, seed + count), operation)
        except Exception as error:
            name = f"{operation.name} of {operation.path}"
            error.add_note(f"{ending.value} before change {count}, {name}, seed {seed + count}")
            raise

    world.storage.disk.before_change = before
    try:
        tell(world)
    finally:
        world.storage.disk.before_change = None
    return count


def each_crash_of_start(
    left: Crash, ending: Ending, look: Callable[[Crash], None], *, seed: int
) -> int:
    """Start on what a crash has left, with another crash before each change of that start."""
    count = 0

    def before(operation: Operation) -> None:
        nonlocal count
        count += 1
        clock = ManualClock(left.clock.now_ms())
        again = Crash(left.disk.fork(clock), clock, left.oracle.copy(), left.config, seed + count)
        again.crash(ending, Random(seed + count))
        look(again)

    left.disk.before_change = before
    try:
        left.start()
    finally:
        left.disk.before_change = None
    return count
