"""HTTP that is loaded beside a loop that serves clients."""

import gc
import importlib
import sys

import aiohttp
import pytest

from broker.config import HttpConfig
from broker.health import Health
from broker.http.lazy import SWITCH_INTERVAL_S, LazyHttp
from broker.metrics import Metrics

PYTHONS_OWN_S = 0.005


@pytest.fixture
def importing(monkeypatch):
    """How the interpreter is set while the server's module is being imported: (interval, gc)."""
    seen = []

    def import_module(name):
        seen.append((sys.getswitchinterval(), gc.isenabled()))
        if name == fails[0]:
            raise ImportError(name)
        return importlib.__import__(name, fromlist=["HttpServer"])

    fails = [None]
    monkeypatch.setattr(importlib, "import_module", import_module)
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(PYTHONS_OWN_S)
    yield seen, fails
    sys.setswitchinterval(interval_s)


@pytest.fixture
async def http():
    http = LazyHttp(HttpConfig(host="127.0.0.1", port=0), Health(), Metrics())
    http.bind()
    yield http
    await http.stop()


async def test_given_a_loop_when_http_is_loaded_then_the_loop_gets_the_lock_soon(importing, http):
    seen, _ = importing

    await http.start_soon()

    assert seen == [(pytest.approx(SWITCH_INTERVAL_S), False)]
    assert (sys.getswitchinterval(), gc.isenabled()) == (pytest.approx(PYTHONS_OWN_S), True)
    async with aiohttp.request("GET", f"http://{http.addresses[0]}/healthz") as answer:
        assert answer.status == 200


async def test_given_an_import_that_fails_when_over_then_the_interpreter_is_as_before(
    importing, http
):
    seen, fails = importing
    fails[0] = "broker.http.server"

    with pytest.raises(ImportError):
        await http.start_soon()

    assert len(seen) == 1
    assert (sys.getswitchinterval(), gc.isenabled()) == (pytest.approx(PYTHONS_OWN_S), True)


async def test_given_a_program_that_does_not_collect_when_loaded_then_it_still_does_not(
    importing, http
):
    gc.disable()
    try:
        await http.start_soon()

        assert not gc.isenabled()
    finally:
        gc.enable()
