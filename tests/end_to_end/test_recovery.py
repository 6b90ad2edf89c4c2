"""A start that recovers much: what it says meanwhile, and what ends it or its workers early."""

import json
import os
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from protocol.native.request_types import LATEST_TIME
from protocol.native.requests import encode_offsets
from protocol.native.responses import decode_offsets_response
from tests.support.daemon_process import DaemonProcess
from tests.support.raw_client import RawClient
from tests.support.unclean_directory import write_log

MIB = 1024 * 1024
PARTITIONS = 2
DEADLINE_S = 60


@pytest.fixture
def unclean(tmp_path, request):
    """More than the broker recovers by itself, of batches of some hundred bytes."""
    counts = [
        write_log(
            tmp_path / "data",
            f"tide-{number}",
            40 * MIB,
            value_bytes=getattr(request, "param", 300),
        )
        for number in range(PARTITIONS)
    ]
    assert len(set(counts)) == 1
    daemons = []

    def start(*settings):
        daemons.append(DaemonProcess(tmp_path, *settings))
        return daemons[-1]

    start.records, start.data = counts[0], tmp_path / "data"
    yield start
    for daemon in daemons:
        daemon.close()


def workers_of(daemon):
    """Return the process ids of its workers, once there is one that runs our program."""
    path = Path(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/children")
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        found = [int(each) for each in path.read_text().split()]
        if found and all(b"worker_process" in command_line(each) for each in found):
            return found
        assert daemon.process.poll() is None, daemon.log_file.read_text()
    raise AssertionError("no worker was started")


def command_line(process_id):
    """Return it; before its exec, a process has its parent's."""
    return Path(f"/proc/{process_id}/cmdline").read_bytes()


def is_there(process_id):
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def check_serves(daemon, records):
    host, port = daemon.wait_ready()["native"][0].rsplit(":", 1)
    with RawClient(int(port), host) as client:
        for partition in range(PARTITIONS):
            client.send(encode_offsets("tide", partition, LATEST_TIME, 1))
            assert decode_offsets_response(client.answer()) == (0, [records])


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def ready_answer(port):
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/readyz", timeout=DEADLINE_S
        ) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_given_a_worker_that_is_killed_when_recovering_then_its_log_is_recovered_all_the_same(
    unclean,
):
    daemon = unclean()
    os.kill(workers_of(daemon)[0], signal.SIGKILL)

    check_serves(daemon, unclean.records)

    events = [each["event"] for each in daemon.events()]
    assert "a recovery died" in events or "recovery does without a worker" in events
    assert daemon.terminate() == 0
    assert (unclean.data / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("unclean", [30], indirect=True)  # so small that it takes seconds
def test_given_a_recovery_when_sigterm_comes_then_it_ends_soon_and_the_next_start_goes_on(unclean):
    daemon = unclean()
    workers = workers_of(daemon)
    daemon.told("STATUS=recovering")

    started = time.monotonic()
    code = daemon.terminate()

    assert code == 0
    assert time.monotonic() - started < 10
    assert not any(is_there(each) for each in workers)
    assert not (unclean.data / ".kafka_cleanshutdown").exists()
    assert daemon.events()[-1]["event"] == "stopped before it was ready"
    check_serves(unclean(), unclean.records)


def test_given_a_recovery_when_the_broker_is_killed_then_its_workers_end_with_it(unclean):
    daemon = unclean()
    workers = workers_of(daemon)

    daemon.signal(signal.SIGKILL)
    daemon.wait()

    deadline = time.monotonic() + DEADLINE_S
    while any(is_there(each) for each in workers):
        assert time.monotonic() < deadline, "a worker has outlived its broker"
    check_serves(unclean(), unclean.records)


def test_given_a_recovery_that_takes_long_when_asked_then_http_says_how_far_it_is(unclean):
    """The workers are held up, so that there is time to ask."""
    port = free_port()
    daemon = unclean(f"http.port={port}")
    workers = workers_of(daemon)
    for each in workers:
        os.kill(each, signal.SIGSTOP)

    status, body = ready_answer(port)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=DEADLINE_S) as answer:
        health = answer.status

    assert (status, body["status"], health) == (503, "recovering", 200)
    assert re.match("recovering: [01] of 2 partitions, 0.[01] of 0.1 GiB", body["reason"])
    for each in workers:
        os.kill(each, signal.SIGCONT)
    check_serves(daemon, unclean.records)
    assert ready_answer(port)[0] == 200
