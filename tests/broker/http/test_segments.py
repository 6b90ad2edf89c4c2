"""/v1/topics/{topic}/segments, over a real socket, of a broker without disk or time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp
import pytest

from broker.health import Health
from broker.http.metrics_export import Exporter
from broker.http.server import HttpServer
from broker.metrics import Metrics
from broker.network.listening import bind_all
from broker.partition_manager import PartitionManager
from broker.segment_explanations import SEGMENTS_PER_STEP, topic_explanation
from broker.steps import run_to_end
from protocol.errors import UnknownTopicOrPartitionError
from tests.support.native_broker import CLOCK_START_MS, NativeBroker, batch

SETTINGS = {"segment.bytes": "150", "retention.ms": "60000"}
"""Two small batches to a segment."""


@pytest.fixture
def broker():
    with NativeBroker() as running:
        running.create_topic("logs", 2, SETTINGS)
        for number in range(6):
            running.produce("logs", batch(b"%d" % number), partition=1, acks=-1)
        yield running


def ask(broker: NativeBroker, manager: Callable[[], PartitionManager | None], path: str):
    """The status and the JSON of one request."""

    async def asked():
        exporter = Exporter(Metrics(), Health(), version="0", topics_max=1, partitions_max=1)
        server = HttpServer(Health(), exporter, manager, broker.clock)
        sockets = bind_all("127.0.0.1", 0, "http.port")
        await server.start(sockets)
        try:
            port = sockets[0].getsockname()[1]
            async with (
                aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
                session.get(path) as answer,
            ):
                return answer.status, await answer.json()
        finally:
            await server.stop()

    return asyncio.run(asked())


def test_given_a_topic_when_asked_for_then_every_segment_of_it_is_explained(broker):
    status, body = ask(broker, lambda: broker.manager, "/v1/topics/logs/segments")

    assert status == 200
    assert (body["topic"], body["cleanup_policy"], body["retention_ms"]) == (
        "logs",
        "delete",
        60_000,
    )
    first, second = body["partitions"]
    assert [each["reason"] for each in first["segments"]] == ["active and empty"]
    assert [(each["base_offset"], each["end_offset"]) for each in second["segments"]] == [
        (0, 2),
        (2, 4),
        (4, 6),
    ]
    assert {each["due_at_ms"] for each in second["segments"]} == {CLOCK_START_MS + 60_001}
    assert (second["log_start_offset"], second["high_watermark"]) == (0, 6)
    assert second["size_bytes"] == broker.partition("logs", 1).log.size_bytes


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("nowhere/segments", 404, "there is no topic nowhere"),
        ("logs/segments?partition=2", 404, "topic logs has no partition 2"),
        ("logs/segments?partition=x", 400, "partition must be a number"),
        ("logs/segments?partition=99999999999999999999", 400, "partition must be a number"),
        ("..%2Flogs/segments", 404, "there is no topic ../logs"),
    ],
)
def test_given_what_is_not_there_when_asked_for_then_it_is_said(broker, path, status, said):
    assert ask(broker, lambda: broker.manager, f"/v1/topics/{path}") == (status, {"error": said})


def test_given_one_partition_when_asked_for_then_it_alone_is_explained(broker):
    _, body = ask(broker, lambda: broker.manager, "/v1/topics/logs/segments?partition=1")

    assert [each["partition"] for each in body["partitions"]] == [1]


def test_given_a_broker_that_is_starting_when_asked_then_503(broker):
    assert ask(broker, lambda: None, "/v1/topics/logs/segments")[0] == 503


def test_given_many_segments_when_explained_then_the_loop_goes_on_in_between(broker):
    for number in range(100):
        broker.produce("logs", batch(b"%d" % number), partition=1, acks=-1)

    steps = list(topic_explanation(broker.manager, broker.clock, "logs", [1]))

    assert len(steps) > len(broker.partition("logs", 1).log.segments) // SEGMENTS_PER_STEP


def test_given_a_topic_deleted_in_between_when_explained_then_its_partitions_say_so(broker):
    steps = topic_explanation(broker.manager, broker.clock, "logs")
    next(steps)
    broker.loop.run(broker.manager.delete_topic("logs"))

    found = run_to_end(steps)

    assert "there is no topic logs" in (found.partitions[1].error or "")
    with pytest.raises(UnknownTopicOrPartitionError):
        next(topic_explanation(broker.manager, broker.clock, "logs"))


def test_given_a_partition_that_cannot_be_read_when_explained_then_the_others_are(broker):
    broker.manager.partitions_by_topic[b"logs"][0] = None

    _, body = ask(broker, lambda: broker.manager, "/v1/topics/logs/segments")

    assert "cannot be used now" in body["partitions"][0]["error"]
    assert len(body["partitions"][1]["segments"]) == 3
