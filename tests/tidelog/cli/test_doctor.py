"""`tidelog doctor`, against brokers that tell their clients right and wrong things."""

from __future__ import annotations

import socket
import threading

import pytest

from tests.support.command_line import call
from tests.support.running_broker import BrokerProcess


@pytest.fixture
def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


def told(tmp_path, advertised: str) -> BrokerProcess:
    return BrokerProcess(tmp_path, "http.enabled=false", f"listeners.kafka_advertised={advertised}")


def test_given_a_broker_when_what_it_tells_can_be_reached_then_all_is_well(broker):
    outcome = call("doctor", broker.kafka_address)

    assert outcome.code == 0
    assert "can be reached from here" in outcome.text
    assert "clients elsewhere cannot reach it" in outcome.text  # it listens on loopback alone
    assert outcome.errors == ""


def test_given_a_name_that_is_not_known_when_told_then_it_says_so(tmp_path):
    with told(tmp_path, "broker.invalid:9092") as running:
        outcome = call("doctor", running.kafka_address)

    assert outcome.code == 1
    assert "broker.invalid:9092\n  cannot be reached from here: the name is not" in outcome.text
    assert "listeners.kafka_advertised" in outcome.errors


@pytest.mark.parametrize("address", ["a..b", "x" * 64 + ".example"])
def test_given_a_name_that_cannot_be_when_asked_then_it_says_so(address):
    outcome = call("doctor", address)

    assert outcome.code == 3
    assert "is no address" in outcome.errors


@pytest.mark.parametrize("address", ["PLAINTEXT://localhost:9092", "a:9092,b:9092", "a:x"])
def test_given_no_address_when_asked_then_the_usage_is_wrong(address):
    assert call("doctor", address).code == 2


def test_given_an_address_that_nobody_listens_on_when_told_then_it_says_so(tmp_path, free_port):
    with told(tmp_path, f"127.0.0.1:{free_port}") as running:
        outcome = call("doctor", running.kafka_address, "--json")

    assert outcome.code == 1
    (found,) = outcome.json["brokers"]
    assert found["address"] == f"127.0.0.1:{free_port}"
    assert found["problem"] == "cannot be reached from here: Connection refused"


def test_given_another_brokers_address_when_told_then_it_says_so(tmp_path, broker):
    with told(tmp_path, broker.kafka_address) as running:
        outcome = call("doctor", running.kafka_address)

    assert outcome.code == 1
    assert "another broker answers there" in outcome.text
    assert "listeners.kafka_advertised" in outcome.errors


def test_given_the_native_port_when_asked_then_it_does_not_speak_kafka(broker):
    outcome = call("doctor", broker.address)

    assert outcome.code == 3
    assert "may not be the Kafka port" in outcome.errors


def test_given_nobody_when_asked_then_unreachable(free_port):
    outcome = call("doctor", f"127.0.0.1:{free_port}")

    assert outcome.code == 3
    assert "Connection refused" in outcome.errors


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\5\0\0\0\1\0"])
def test_given_something_else_when_asked_then_it_does_not_speak_kafka(answer):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def serve() -> None:
            accepted, _ = server.accept()
            with accepted:
                accepted.recv(1000)
                accepted.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        outcome = call("doctor", f"127.0.0.1:{port}")
        thread.join()

    assert outcome.code == 3
    assert "does not speak the Kafka protocol" in outcome.errors
