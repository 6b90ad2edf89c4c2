"""Health: state, reason, and what is degraded."""

import pytest

from broker.health import PROBLEMS_SHOWN_MAX, Health, State


def test_given_a_start_when_it_recovers_then_the_progress_is_the_reason():
    health = Health()

    health.recovering("12 of 40 partitions")

    assert health.report() == {"status": "recovering", "reason": "12 of 40 partitions"}
    assert not health.is_ready


def test_given_a_ready_broker_when_late_progress_comes_then_it_stays_ready():
    health = Health()
    health.enter(State.READY)

    health.recovering("40 of 40 partitions")

    assert health.is_ready


@pytest.mark.parametrize("state", [State.READY, State.DRAINING, State.RECOVERING])
def test_given_a_failure_when_any_state_follows_then_it_stays_failed(state):
    health = Health()
    health.failed("the disk failed")

    health.enter(state)
    health.recovering("1 of 2")

    assert health.report() == {"status": "failed", "reason": "the disk failed"}


def test_given_problems_when_mended_then_only_the_others_are_told():
    health = Health()
    health.enter(State.READY)
    health.watch(lambda: ["t-0 has damaged bytes"])
    health.degraded("/a is full")
    health.degraded("/a is full")
    health.degraded("/b is full")

    before = health.problems()
    health.mended("/a is full")
    health.mended("never said")

    assert before == ["/a is full", "/b is full", "t-0 has damaged bytes"]
    assert health.report() == {
        "status": "ready",
        "degraded": ["/b is full", "t-0 has damaged bytes"],
    }


def test_given_thousands_of_problems_when_reported_then_the_answer_stays_short():
    health = Health()
    health.enter(State.READY)
    health.watch(lambda: [f"t-{number} cannot be used" for number in range(10_000)])

    told = health.report()["degraded"]

    assert len(told) == PROBLEMS_SHOWN_MAX + 1
    assert told[-1] == f"and {10_000 - PROBLEMS_SHOWN_MAX} more"
    assert len(health.problems()) == 10_000
