"""The broker put together, inside this process and on asyncio's own loop."""

import asyncio
import json
import socket
import struct

import aiohttp
import pytest

from broker import composition
from broker.composition import Broker
from broker.config_sources import Source, load
from broker.exit_codes import ExitCode, StartError
from broker.health import State
from broker.offline import verify_directory
from broker.partition_manager import PartitionManager
from protocol.native.responses import decode_message_set_send, decode_produce_response
from tests.support.raw_client import fetch_request, produce_request

CLEAN_MARKER = ".kafka_cleanshutdown"


def configuration(directory, *settings):
    ports = [f"{key}=0" for key in ("listeners.native_port", "listeners.kafka_port", "http.port")]
    defaults = [*ports, f"storage.data_dirs={directory / 'data'}"]
    return load(settings=[*defaults, *settings])


async def request(broker, *requests, answers=1):
    """Send requests on one connection and return the first answers, as frames."""
    port = int(broker.addresses["native"][0].rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for one in requests:
        writer.write(one if isinstance(one, bytes) else b"".join(bytes(part) for part in one))
    frames = []
    for _ in range(answers):
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        frames.append(await reader.readexactly(size))
    writer.close()
    return frames


async def test_given_a_broker_when_stopped_then_its_directory_is_clean_and_sound(tmp_path):
    async with Broker(configuration(tmp_path)) as broker:
        (answer,) = await request(broker, produce_request("logs", b"a", b"b"))

    assert decode_produce_response(answer).error == 0
    assert (tmp_path / "data" / CLEAN_MARKER).exists()
    findings = list(verify_directory(tmp_path / "data", decode_records=True))
    assert [problem for finding in findings for problem in finding.problems] == []
    assert sum(finding.record_count for finding in findings) == 2


async def test_given_a_running_broker_when_a_second_one_starts_then_it_is_refused(tmp_path):
    async with Broker(configuration(tmp_path)):
        with pytest.raises(StartError, match="is in use by") as caught:
            await Broker(configuration(tmp_path)).start()

    assert caught.value.exit_code is ExitCode.DATA_DIRECTORY


async def test_given_a_port_in_use_when_started_then_the_directory_is_given_back(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=r"listeners\.native_port") as caught:
            await Broker(configuration(tmp_path, f"listeners.native_port={port}")).start()

    async with Broker(configuration(tmp_path)) as broker:
        assert broker.health.is_ready
    assert caught.value.exit_code is ExitCode.LISTEN


async def test_given_an_unused_directory_when_named_missing_then_the_start_says_degraded(tmp_path):
    both = f"storage.data_dirs={tmp_path / 'data'},{tmp_path / 'other'}"
    async with Broker(configuration(tmp_path, both)):
        pass
    (tmp_path / "other").rename(tmp_path / "unmounted")

    with pytest.raises(StartError, match="was in use before and is missing"):
        await Broker(configuration(tmp_path, both)).start()
    allowed = f"daemon.allow_missing_dirs={tmp_path / 'other'}"
    async with Broker(configuration(tmp_path, both, allowed)) as broker:
        report = broker.health.report()

    assert report == {
        "status": "ready",
        "degraded": [f"data directory {tmp_path / 'other'} is missing"],
    }


async def test_given_a_slow_recovery_when_asked_then_readyz_is_503_with_the_reason(
    tmp_path, monkeypatch
):
    go_on = asyncio.Event()
    open_at_once = PartitionManager.open

    async def open_slowly(self):
        await go_on.wait()
        await open_at_once(self)

    monkeypatch.setattr(PartitionManager, "open", open_slowly)
    monkeypatch.setattr(composition, "SLOW_OPEN_S", 0.0)
    broker = Broker(configuration(tmp_path))
    starting = asyncio.create_task(broker.start())
    while not broker.addresses["http"]:
        await asyncio.sleep(0)
    address = broker.addresses["http"][0]
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://{address}/readyz") as answer:
            before = (answer.status, await answer.json())
        go_on.set()
        await starting
        async with session.get(f"http://{address}/readyz") as answer:
            after = (answer.status, await answer.json())
    await broker.stop()

    assert before == (
        503,
        {"status": "recovering", "reason": "data directories are being opened"},
    )
    assert after == (200, {"status": "ready"})


async def test_given_a_waiting_fetch_when_stopped_then_it_is_answered(tmp_path):
    async with Broker(configuration(tmp_path)) as broker:
        await request(broker, produce_request("logs", b"a"))
        waiting = asyncio.create_task(request(broker, fetch_request("logs", 1, max_wait_ms=60_000)))
        metrics = broker.metrics.requests("native", "fetch")
        while not metrics.count:
            await asyncio.sleep(0)
        await broker.stop()
        (answer,) = await waiting

    assert decode_message_set_send(answer).error == 0


async def test_given_http_switched_off_when_started_then_nothing_listens_there(tmp_path):
    async with Broker(configuration(tmp_path, "http.enabled=false")) as broker:
        addresses = broker.addresses

    assert addresses["http"] == []
    assert len(addresses["native"]) >= 1


async def test_given_a_ready_file_that_cannot_be_written_when_started_then_it_is_a_usage_error(
    tmp_path,
):
    missing = tmp_path / "missing" / "ready.json"

    with pytest.raises(StartError, match=r"daemon.ready_file: cannot write") as raised:
        await Broker(configuration(tmp_path, f"daemon.ready_file={missing}")).start()

    assert raised.value.exit_code == ExitCode.USAGE


async def test_given_a_ready_file_when_started_and_stopped_then_it_comes_and_goes(tmp_path):
    ready = tmp_path / "ready"
    ready.write_text("stale")
    async with Broker(configuration(tmp_path, f"daemon.ready_file={ready}")) as broker:
        written = json.loads(ready.read_text())

    assert written["native"] == broker.addresses["native"] != []
    assert written["http_port"] == int(broker.addresses["http"][0].rpartition(":")[2])
    assert not ready.exists()


async def test_given_new_defaults_when_reloaded_then_topics_and_connections_obey(tmp_path):
    new = []
    broker = Broker(configuration(tmp_path), reload_from=lambda: new.pop())
    async with broker:
        await request(broker, produce_request("logs", b"a"))
        new.append(
            configuration(tmp_path, "topics.max_message_bytes=100", "limits.connections_max=7")
        )
        broker.reload()
        (answer,) = await request(broker, produce_request("logs", bytes(500)))

        assert decode_produce_response(answer).error == 10  # MESSAGE_TOO_LARGE
        assert broker.config.limits.connections_max == 7


async def test_given_a_failed_disk_when_it_is_told_then_the_broker_is_not_ready(tmp_path):
    broker = Broker(configuration(tmp_path))
    async with broker:
        broker.manager.flusher.fail(OSError(5, "Input/output error"))
        await asyncio.wait_for(broker.failed.wait(), 10)

        assert broker.health.state is State.FAILED
        assert "Input/output error" in broker.health.reason
        with pytest.raises(OSError, match="Input/output error"):
            await broker.stop()

    assert not (tmp_path / "data" / CLEAN_MARKER).exists()


def test_given_the_command_line_when_loaded_then_its_origins_are_told(tmp_path):
    loaded = configuration(tmp_path)

    assert loaded.origins["http.port"].source is Source.COMMAND_LINE
