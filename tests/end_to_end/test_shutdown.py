"""SIGTERM drains; one data directory has one broker."""

import subprocess

from protocol.native import requests, responses
from protocol.stored import clean_shutdown, file_names
from tests.support.command_line import call
from tests.support.native_wire import NativeWire, message_set
from tests.support.running_broker import BrokerProcess
from tests.support.writers import Writers
from tidelog.client import Client

PARTITIONS = 2


def test_given_load_when_terminated_then_it_drains_and_what_was_answered_is_there(tmp_path):
    with BrokerProcess(tmp_path, "http.enabled=false") as broker:
        with Client(broker.address) as client:
            client.create_topic("t", PARTITIONS)
        with Writers(broker.address, "t", PARTITIONS, "load") as writers:
            writers.wait_for(200)

            code = broker.stop()

        marker = broker.data_directory / file_names.CLEAN_SHUTDOWN_MARKER
        assert code == 0, broker.errors.read_text()
        clean_shutdown.decode(marker.read_bytes())
        assert call("verify", str(broker.data_directory), "--records").code == 0
        broker.start()
        assert not marker.exists()
        with NativeWire(broker.address) as wire:
            for writer in writers.all:
                stored = wire.fetch_values("t", writer.partition, format=1)
                assert writer.errors == []
                assert {offset: stored[offset] for offset in writer.acknowledged} == (
                    writer.acknowledged
                )


def test_given_a_waiting_poll_when_terminated_then_it_is_answered_and_nobody_waits(tmp_path):
    with (
        BrokerProcess(tmp_path, "http.enabled=false") as broker,
        NativeWire(broker.address) as waiting,
        Client(broker.address) as client,
    ):
        client.create_topic("t", 2)
        waiting.send(requests.encode_fetch("t", 0, 0, 1000, 1, 60_000, 2))
        waiting.send_produce("t", 1, message_set([b"x"], 0), format=0)
        behind = client.fetch("t", 1, 0, max_wait_ms=30_000)  # so the poll was taken in before

        code = broker.stop()
        answer = responses.decode_message_set_send(waiting.receive())

    assert len(behind.messages) == 1
    assert code == 0
    assert (answer.error, bytes(answer.message_set)) == (0, b"")


def test_given_a_broker_when_a_second_one_starts_there_then_it_is_refused(broker):
    second = BrokerProcess(broker.directory / "second")
    second.directory.mkdir()
    second.data_directory = broker.data_directory

    process = second.spawn(wait=False)
    code = process.wait(30)

    said = second.errors.read_text()
    assert code == 3
    assert str(broker.data_directory) in said
    assert "Traceback" not in said
    assert "another broker" in said or "in use" in said
    with Client(broker.address) as client:
        assert client.topics() is not None  # the first one goes on


def test_given_a_port_that_is_taken_when_started_then_it_is_refused(broker, tmp_path):
    port = broker.address.rpartition(":")[2]
    second = BrokerProcess(tmp_path, f"listeners.native_port={port}")

    process = second.spawn(wait=False)
    code = process.wait(30)

    assert code == 4
    assert port in second.errors.read_text()
    assert "Traceback" not in second.errors.read_text()


def test_given_a_running_broker_when_health_is_asked_then_it_is_ready(broker):
    outcome = call("health", "--url", f"http://{broker.http_address}")

    assert isinstance(broker.process, subprocess.Popen)
    assert (outcome.code, outcome.text) == (0, "ready\n")
