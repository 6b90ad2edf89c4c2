"""Every call to the disk fails once, or writes less than it was given: the promises hold.

A broker that meets such an error either goes on, or ends there and the next one starts. Both are
held against the oracle: first as it stands, then after a crash.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from functools import cache

import pytest

from protocol.errors import TidelogError
from tests.crash.forks import Ending, crash_of
from tests.crash.oracle import ViolationError
from tests.crash.scale import SEEDS
from tests.crash.stories import STORIES

CALLS = (
    "write",
    "sync",
    "sync_directory",
    "rename",
    "unlink",
    "truncate",
    "create",
    "open",
    "read",
)
EVERY = {"read": 9, "open": 5}
"""Of calls of these kinds, one of so many fails; in `make crash` each."""
ENDINGS = (Ending.ALL_LOST, Ending.SOME_LOST, Ending.KILL)


@cache
def calls_of(name: str) -> Counter[str]:
    """How many calls of each kind a story makes."""
    world = STORIES[name].world()
    world.storage.disk.operations.clear()
    STORIES[name].tell(world)
    return Counter(operation.name for operation in world.storage.disk.operations)


def tell_with_fault(name: str, put_in, number: int) -> None:
    """Tell a story until it ends or the fault ends it; then crash, start, and check."""
    story = STORIES[name]
    world = story.world()
    put_in(world.storage.disk)
    try:
        story.tell(world)
    except ViolationError:
        raise
    except (OSError, TidelogError, AssertionError):
        pass  # AssertionError: the story's own, of a log that had refused something before
    if world.log.refusal and world.log.follows_log_end:  # a sync failed, and took what it covers
        world.oracle.cuts(world.log.durable_offset)
    left = crash_of(world, ENDINGS[number % len(ENDINGS)], number)
    try:
        after = left.start()
        after.check()
        after.goes_on()
    except AssertionError as error:
        error.add_note(f"call {number}")
        raise


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", STORIES)
def test_given_each_call_failing_once_when_started_again_then_the_promises_hold(name, call, number):
    error = OSError(number, os.strerror(number))
    step = EVERY.get(call, 3) if SEEDS == 1 else 1
    for after in range(number % step, calls_of(name)[call], step):
        tell_with_fault(name, lambda disk, after=after: disk.fail(call, error, after=after), after)


@pytest.mark.parametrize("size", [1, 13])
@pytest.mark.parametrize("name", STORIES)
def test_given_each_write_being_short_when_told_to_the_end_then_the_promises_hold(name, size):
    for after in range(0, calls_of(name)["write"], 2 if SEEDS == 1 else 1):
        tell_with_fault(
            name, lambda disk, after=after: disk.short_write(after=after, size=size), after
        )
