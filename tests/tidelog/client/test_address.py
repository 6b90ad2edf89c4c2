"""Address: what people write."""

from __future__ import annotations

import pytest

from tidelog.client.address import DEFAULT_PORT, Address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost", "localhost", DEFAULT_PORT),
        ("broker.example:9191", "broker.example", 9191),
        (":9191", "localhost", 9191),
        ("[::1]:9191", "::1", 9191),
        ("[::1]", "::1", DEFAULT_PORT),
        ("::1", "::1", DEFAULT_PORT),
        ("10.0.0.7:1", "10.0.0.7", 1),
    ],
)
def test_given_an_address_when_parsed_then_host_and_port(text: str, host: str, port: int) -> None:
    assert Address.parse(text) == (host, port)


@pytest.mark.parametrize("text", ["http://host", "a:9092,b:9092", "a b"])
def test_given_more_than_an_address_when_parsed_then_a_clear_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not one HOST:PORT"):
        Address.parse(text)


@pytest.mark.parametrize("text", ["host:", "host:x", "host:0", "host:65536", "host:-1"])
def test_given_a_bad_port_when_parsed_then_a_clear_error(text: str) -> None:
    with pytest.raises(ValueError, match="port must be a number"):
        Address.parse(text)
