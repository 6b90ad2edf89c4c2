"""How late timers fire, and the sign of life."""

import pytest

from broker.loop_watch import LoopWatch
from broker.metrics import LatencyHistogram
from tests.support.manual_loop import ManualLoop


@pytest.fixture
def loop():
    loop = ManualLoop()
    yield loop
    loop.close()


def test_given_a_turning_loop_when_watched_then_the_lag_is_next_to_nothing(loop):
    lag = LatencyHistogram()
    LoopWatch(loop, lag).start()

    loop.advance(1_000)

    assert lag.count >= 9
    assert lag.seconds_sum < 0.01 * lag.count


def test_given_a_busy_loop_when_watched_then_the_lag_is_seen(loop):
    lag = LatencyHistogram()
    LoopWatch(loop, lag).start()

    loop.clock.advance(ms=2_100)  # something ran for two seconds and did not let the loop turn
    loop.turn()

    assert lag.count == 1
    assert lag.seconds_sum == pytest.approx(2.0, abs=0.01)


def test_given_a_watchdog_when_watched_then_signs_come_at_its_interval(loop):
    signs = []
    watch = LoopWatch(
        loop, LatencyHistogram(), sign_of_life=lambda: signs.append(1), sign_interval_s=10.0
    )
    watch.start()

    loop.advance(35_000)

    assert len(signs) == 4


def test_given_a_watch_when_stopped_then_it_fires_no_more(loop):
    lag = LatencyHistogram()
    watch = LoopWatch(loop, lag)
    watch.start()
    watch.stop()

    loop.advance(1_000)

    assert lag.count == 0
