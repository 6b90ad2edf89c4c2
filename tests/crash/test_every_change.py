"""A crash before each change of the disk, whatever the log is doing: the promises hold."""

from __future__ import annotations

import pytest

from tests.crash.forks import Crash, Ending, each_crash, each_crash_of_start
from tests.crash.scale import SEEDS
from tests.crash.stories import STORIES

CRASHES_PER_RECOVERY = 40
"""Of so many crashes one has its recovery crash at each change, too; more in `make crash`."""


@pytest.mark.parametrize("name", STORIES)
def test_given_no_crash_when_a_story_is_told_then_the_promises_hold(name):
    story = STORIES[name]
    world = story.world()

    story.tell(world)

    world.check()
    world.goes_on()


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("ending", Ending)
@pytest.mark.parametrize("name", STORIES)
def test_given_a_crash_before_each_change_when_started_then_the_promises_hold(name, ending, seed):
    story = STORIES[name]

    def look(left: Crash, _: object) -> None:
        world = left.start()
        world.check()
        if not left.seed % 10:
            world.goes_on()

    count = each_crash(story.tell, story.world(seed), ending, look, seed=1_000 * seed)

    assert count > 20


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("ending", [Ending.SOME_LOST, Ending.KILL])
@pytest.mark.parametrize("name", STORIES)
def test_given_a_crash_in_each_recovery_when_started_again_then_the_promises_hold(
    name, ending, seed
):
    story = STORIES[name]
    every = max(1, CRASHES_PER_RECOVERY // SEEDS)
    recoveries = 0

    def look(left: Crash, _: object) -> None:
        nonlocal recoveries
        if left.seed % every == 0:
            recoveries += each_crash_of_start(left, ending, check, seed=1_000 * left.seed)

    def check(again: Crash) -> None:
        again.start().check()

    each_crash(story.tell, story.world(seed), ending, look, seed=1_000 * seed)

    assert recoveries > 5
