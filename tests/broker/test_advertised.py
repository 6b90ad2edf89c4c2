"""Advertised address: what Kafka clients are told, and the doubts about it."""

from __future__ import annotations

import socket

import pytest

from broker.advertised import advertised_address
from protocol.errors import ConfigError


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("kafka.example.com:19092", ("kafka.example.com", 19_092)),
        ("kafka.example.com", ("kafka.example.com", 9_092)),
        ("10.0.0.7:1", ("10.0.0.7", 1)),
        ("[2001:db8::7]:19092", ("2001:db8::7", 19_092)),
        ("[2001:db8::7]", ("2001:db8::7", 9_092)),
        ("2001:db8::7", ("2001:db8::7", 9_092)),
        ("[fe80::1%eth0]:1", ("fe80::1%eth0", 1)),
        ("broker_1", ("broker_1", 9_092)),
        ("bücher.example:1", ("bücher.example", 1)),
    ],
)
def test_given_a_setting_when_read_then_host_and_port(setting, expected) -> None:
    address = advertised_address(setting, "*", 9_092)

    assert (address.host, address.port) == expected
    assert address.doubt is None


@pytest.mark.parametrize(
    "setting",
    [
        ":9092", "*:9092", "0.0.0.0", "[::]:1", "h:p", "h:0", "h:70000", "h:", "h:-1", "h:1:2",
        "PLAINTEXT://h:9092", "http://h", "h1:9092,h2:9092", "h 1", "[h]:1", "[::1", "[]:1", "\0:1",
    ],
)  # fmt: skip
def test_given_no_address_of_one_host_when_read_then_an_error_that_says_what_is(setting) -> None:
    with pytest.raises(ConfigError, match="kafka_advertised"):
        advertised_address(setting, "*", 9_092)


def test_given_no_setting_when_one_host_is_listened_on_then_that() -> None:
    assert advertised_address("", "localhost", 9_092) == ("localhost", 9_092, None)
    assert str(advertised_address("", "::1", 9_092)) == "[::1]:9092"


@pytest.mark.parametrize("everywhere", ["*", "0.0.0.0", "::"])
def test_given_no_setting_when_every_interface_is_listened_on_then_the_name_and_a_doubt(
    everywhere,
) -> None:
    address = advertised_address("", everywhere, 9_092)

    assert address.host == socket.gethostname()
    assert "listeners.kafka_advertised" in (address.doubt or "")


def test_given_this_machine_alone_is_told_when_others_may_come_then_a_doubt() -> None:
    assert advertised_address("localhost:9092", "localhost", 1).doubt is None
    assert advertised_address("127.0.0.2", "::1", 1).doubt is None
    for told in ("localhost:9092", "127.0.0.2", "[::1]:9092"):
        assert "their own machine" in (advertised_address(told, "*", 1).doubt or "")


def test_given_another_address_is_told_when_only_this_machine_is_listened_to_then_a_doubt() -> None:
    """Who sets the one setting easily forgets the other."""
    for listened in ("localhost", "127.0.0.1", "::1"):
        assert "listeners.host" in (advertised_address("h:1", listened, 1).doubt or "")
    assert advertised_address("h:1", "10.0.0.7", 1).doubt is None
