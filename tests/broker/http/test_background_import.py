"""Imports beside a loop that serves clients."""

import gc
import importlib
import sys
from itertools import pairwise

import pytest

from broker.http import background_import
from broker.http.background_import import (
    BREAK_S,
    STRETCH_S,
    SWITCH_INTERVAL_S,
    breaks,
    import_in_background,
    import_with_breaks,
)

PYTHONS_OWN_S = 0.005


@pytest.fixture
def importing(monkeypatch):
    """Imports that note how the interpreter is set: (switch interval, collects, is traced)."""
    seen = []

    def import_module(name):
        seen.append((sys.getswitchinterval(), gc.isenabled(), sys.gettrace() is not None))
        if name == "missing":
            raise ImportError(name)
        return sys

    monkeypatch.setattr(importlib, "import_module", import_module)
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(PYTHONS_OWN_S)
    yield seen
    sys.setswitchinterval(before_s)


@pytest.fixture
def no_tracing():
    """Coverage and debuggers trace too."""
    before = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(before)


async def test_given_a_loop_when_a_module_is_imported_then_the_loop_goes_first(importing):
    module = await import_in_background("any")

    assert module is sys
    assert importing == [(pytest.approx(SWITCH_INTERVAL_S), False, True)]
    assert (sys.getswitchinterval(), gc.isenabled()) == (pytest.approx(PYTHONS_OWN_S), True)


async def test_given_an_import_that_fails_when_over_then_the_interpreter_is_as_before(importing):
    with pytest.raises(ImportError):
        await import_in_background("missing")

    assert len(importing) == 1
    assert (sys.getswitchinterval(), gc.isenabled()) == (pytest.approx(PYTHONS_OWN_S), True)


async def test_given_a_program_that_does_not_collect_when_over_then_it_still_does_not(importing):
    gc.disable()
    try:
        await import_in_background("any")

        assert not gc.isenabled()
    finally:
        gc.enable()


async def test_given_an_import_when_it_runs_then_another_one_has_to_wait(monkeypatch):
    others_wait = []
    lock = background_import._one_at_a_time
    monkeypatch.setattr(importlib, "import_module", lambda _: others_wait.append(lock.locked()))

    await import_in_background("any")

    assert others_wait == [True]
    assert not lock.locked()


def test_given_a_thread_when_its_import_is_over_then_it_is_not_traced(importing, no_tracing):
    import_with_breaks("any")

    assert importing[0][2]
    assert sys.gettrace() is None


def test_given_a_debugger_when_a_module_is_imported_then_it_goes_on_tracing(importing, no_tracing):
    def debugger(frame, event, argument):
        return None

    sys.settrace(debugger)
    import_with_breaks("any")

    assert sys.gettrace() is debugger


def test_given_a_long_import_when_functions_are_called_then_each_stretch_ends_in_a_break():
    now_s, pauses = 100.0, []
    trace = breaks(lambda: now_s, pauses.append)
    taken_after = []

    for call in range(50):
        now_s += STRETCH_S / 10
        trace(None, "call", None)
        if len(pauses) > len(taken_after):
            taken_after.append(call)

    assert len(pauses) in (4, 5)
    assert set(pauses) == {BREAK_S}
    between = [later - earlier for earlier, later in pairwise(taken_after)]
    assert all(10 <= calls <= 11 for calls in between)


def test_given_one_call_that_took_long_when_it_is_over_then_one_break_is_enough():
    now_s, pauses = 100.0, []
    trace = breaks(lambda: now_s, pauses.append)

    now_s += 100 * STRETCH_S
    trace(None, "call", None)
    trace(None, "call", None)

    assert pauses == [BREAK_S]
