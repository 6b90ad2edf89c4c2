"""Idleness: who is let alone, and who holds memory for nobody."""

from __future__ import annotations

from broker.network.answers import PendingResponse
from broker.network.connection import Connection
from broker.network.limits import ConnectionLimits
from tests.support.network import ConnectionUnderTest, framed

LIMITS = ConnectionLimits(idle_timeout_s=600, write_buffer_bytes_max=100)


def watched(connection: Connection, *, from_s: int, to_s: int) -> str | None:
    """Look at it each second, as a listener does, until it is overdue."""
    for now_s in range(from_s, to_s):
        reason = connection.overdue(now_s)
        if reason is not None:
            return reason
    return None


def test_given_a_client_that_waits_when_time_passes_then_it_may_be_silent_and_a_while_longer() -> (
    None
):
    pending = PendingResponse()
    under_test = ConnectionUnderTest(lambda body: pending, limits=LIMITS)
    under_test.receive(framed(b"join"))

    waiting = watched(under_test.connection, from_s=0, to_s=2_000)
    pending.complete(b"joined")
    under_test.loop.turn()

    assert waiting is None
    assert watched(under_test.connection, from_s=2_000, to_s=2_599) is None
    assert watched(under_test.connection, from_s=2_599, to_s=2_601) == "idle"


def test_given_a_client_that_takes_no_answer_when_others_wait_behind_it_then_it_is_ended() -> None:
    """Its answers, up to megabytes of each connection, would stay as long as the broker runs."""
    pending = PendingResponse()
    answers = iter([b"x" * 200, pending])
    under_test = ConnectionUnderTest(lambda body: next(answers), limits=LIMITS)
    under_test.transport.client_reads = False
    under_test.receive(framed(b"first"))
    under_test.connection.resume_writing()
    under_test.receive(framed(b"second"))
    under_test.connection.pause_writing()

    assert watched(under_test.connection, from_s=0, to_s=600) is None
    assert watched(under_test.connection, from_s=600, to_s=603) == "idle"


def test_given_a_slow_client_when_it_takes_some_of_an_answer_now_and_then_then_it_goes_on() -> None:
    under_test = ConnectionUnderTest(lambda body: b"x" * 1_000, limits=LIMITS)
    under_test.transport.client_reads = False
    under_test.receive(framed(b"fetch"))

    for minute in range(0, 3_000, 300):
        assert watched(under_test.connection, from_s=minute, to_s=minute + 300) is None
        under_test.transport.unsent_bytes -= 50
    assert watched(under_test.connection, from_s=3_000, to_s=3_700) == "idle"


def test_given_a_large_frame_that_was_only_announced_when_nothing_comes_then_it_is_ended() -> None:
    """By its size it would have 53 minutes, in which its memory counts as taken."""
    under_test = ConnectionUnderTest(lambda body: b"", limits=LIMITS)
    under_test.receive(framed(bytes(100 * 1024 * 1024))[:20_000])

    assert watched(under_test.connection, from_s=0, to_s=600) is None
    assert watched(under_test.connection, from_s=600, to_s=602) == "idle"


def test_given_a_client_that_asks_now_and_then_when_time_passes_then_it_is_never_idle() -> None:
    under_test = ConnectionUnderTest(lambda body: b"ok", limits=LIMITS)

    for begin_s in range(0, 3_000, 500):
        under_test.admission.now_s = begin_s
        under_test.receive(framed(b"heartbeat"))
        assert watched(under_test.connection, from_s=begin_s, to_s=begin_s + 500) is None
