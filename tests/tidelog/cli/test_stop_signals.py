"""Signals as something to ask about."""

import os
import signal

import pytest

from tidelog.cli.errors import ExitCode
from tidelog.cli.stop_signals import StoppedError, StopSignals


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)],
)
def test_given_a_signal_when_waiting_for_input_then_waiting_ends(pipe, number, code):
    with StopSignals() as signals:
        os.kill(os.getpid(), number)
        is_input = signals.wait_for_input(pipe[0])

    assert not is_input
    assert signals.requested is code


def test_given_input_when_waiting_for_it_then_it_can_be_read(pipe):
    with StopSignals() as signals:
        os.write(pipe[1], b"x")
        is_input = signals.wait_for_input(pipe[0])

    assert is_input
    assert signals.requested is None


def test_given_a_signal_when_waiting_for_a_time_then_waiting_ends():
    with StopSignals() as signals:
        waited = signals.wait(0.0)
        os.kill(os.getpid(), signal.SIGTERM)
        is_over = signals.wait(3_600.0)

    assert waited
    assert not is_over


def test_given_a_signal_when_a_second_one_comes_then_nothing_is_waited_for():
    with StopSignals() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(StoppedError):
            os.kill(os.getpid(), signal.SIGTERM)

    assert signals.requested is ExitCode.INTERRUPTED


def test_given_the_signals_when_left_then_handlers_are_as_before():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    with StopSignals():
        during = signal.getsignal(signal.SIGINT)

    assert during not in before
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_given_something_to_tell_when_a_signal_comes_then_it_is_told_once(capfd):
    with StopSignals("it takes a moment") as signals:
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(StoppedError):
            signal.raise_signal(signal.SIGTERM)

    assert capfd.readouterr().err == "tidelog: it takes a moment\n"
    assert signals.requested is ExitCode.TERMINATED
