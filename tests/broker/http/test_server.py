"""/metrics, /healthz and /readyz over real sockets."""

import aiohttp
import pytest

from broker.health import Health, State
from broker.http.metrics_export import CONTENT_TYPE, Exporter
from broker.http.server import HttpServer
from broker.metrics import Metrics
from broker.network.listening import bind_all


@pytest.fixture
async def served():
    health = Health()
    exporter = Exporter(Metrics(), health, version="0", topics_max=1, partitions_max=1)
    server = HttpServer(health, exporter)
    sockets = bind_all("localhost", 0, "http.port")
    await server.start(sockets)
    port = sockets[0].getsockname()[1]
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        yield health, session
    await server.stop()


async def test_given_a_turning_loop_when_asked_for_life_then_it_is_200(served):
    _, session = served

    async with session.get("/healthz") as answer:
        body = await answer.json()

    assert (answer.status, body) == (200, {"status": "alive"})


@pytest.mark.parametrize("state", [s for s in State if s is not State.READY])
async def test_given_no_readiness_when_asked_then_it_is_503_with_the_reason(served, state):
    health, session = served
    health.enter(state, "because")

    async with session.get("/readyz") as answer:
        body = await answer.json()

    assert (answer.status, body) == (503, {"status": str(state), "reason": "because"})


async def test_given_readiness_when_asked_then_it_is_200(served):
    health, session = served
    health.enter(State.READY)

    async with session.get("/readyz") as answer:
        body = await answer.json()

    assert (answer.status, body) == (200, {"status": "ready"})


async def test_given_something_broken_when_asked_then_it_is_200_and_degraded(served):
    health, session = served
    health.enter(State.READY)
    health.watch(lambda: ["data directory /b is missing"])

    async with session.get("/readyz") as answer:
        body = await answer.json()

    assert answer.status == 200
    assert body == {"status": "ready", "degraded": ["data directory /b is missing"]}


async def test_given_a_failure_when_a_later_state_comes_then_it_stays_failed(served):
    health, session = served
    health.enter(State.FAILED, "fsync failed")
    health.enter(State.READY)

    async with session.get("/readyz") as answer:
        body = await answer.json()

    assert (answer.status, body["reason"]) == (503, "fsync failed")


async def test_given_a_scrape_when_asked_then_it_is_prometheus_text(served):
    _, session = served

    async with session.get("/metrics") as answer:
        text = await answer.text()

    assert answer.status == 200
    assert answer.headers["Content-Type"] == CONTENT_TYPE
    assert "tidelog_build_info{" in text
