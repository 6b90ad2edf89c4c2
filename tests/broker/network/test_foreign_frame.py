"""Foreign frames: who sends another protocol is told from its first bytes, for the log."""

from __future__ import annotations

import ssl

import pytest
from structlog.testing import capture_logs

from tests.support.network import ConnectionUnderTest


def client_hello() -> bytes:
    """What a client of TLS says first."""
    sent = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="broker")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (client_hello(), "this is TLS, which is not spoken on this port"),
        (b"GET / HTTP/1.1\r\n\r\n", "this is HTTP, which is not spoken on this port"),
        (b"POST /topics/logs HTTP/1.1\r\n\r\n", "this is HTTP, which is not spoken on this port"),
        (b"PRI * HTTP/2.0\r\n\r\n", "this is HTTP, which is not spoken on this port"),
        (b"SSH-2.0-OpenSSH\r\n", "a frame of 1397966893 bytes is outside 2 to 104857600"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes is outside 2 to 104857600"),
        (b"\0\0\0\1\0", "a frame of 1 bytes is outside 2 to 104857600"),
    ],
)
def test_given_another_protocol_when_it_comes_then_the_log_says_which(sent: bytes, said: str):
    under_test = ConnectionUnderTest(lambda body: b"")

    with capture_logs() as logged:
        under_test.receive(sent)

    assert [event["detail"] for event in logged] == [said]
    assert under_test.connection.close_reason == "bad_frame"
    assert under_test.transport.closed
    assert under_test.handler.frames == []
