"""NativeSession: dispatch, what closes a connection, and answers in order on a real connection."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.network.connection import Connection
from broker.network.limits import Admission, ConnectionLimits
from broker.network.receive_buffer import SharedReceiveBuffer
from protocol.errors import FrameError
from protocol.native import requests
from protocol.native.frame_reader import FrameReader
from protocol.native.responses import decode_message_set_send, decode_produce_response
from protocol.simple_message_set import build_set
from tests.support.native_broker import NativeBroker, batch
from tests.support.network import ClosedCounter, FakeTransport

TYPES = range(9)


@pytest.mark.parametrize("request_type", [-1, 12, 255, 256, 32_767])
def test_given_an_unknown_type_when_handled_then_the_frame_is_refused(request_type: int):
    with NativeBroker() as broker, pytest.raises(FrameError, match="no request type"):
        broker.send(struct.pack(">ih", 2, request_type))


def test_given_a_kafka_client_when_it_begins_then_the_log_can_say_where_its_port_is():
    with NativeBroker() as broker, pytest.raises(FrameError, match="their port is"):
        broker.send(struct.pack(">ihhih", 10, 18, 4, 1, -1))


@pytest.mark.parametrize("request_type", TYPES)
def test_given_a_body_of_the_wrong_size_when_handled_then_the_frame_is_refused(request_type: int):
    with NativeBroker() as broker, pytest.raises(FrameError):
        broker.send(struct.pack(">ih", 9, request_type) + b"\xff" * 7)


@settings(deadline=None)
@given(request_type=st.sampled_from(TYPES), body=st.binary(max_size=60))
def test_given_any_bytes_when_handled_then_there_is_an_answer_or_a_frame_error(request_type, body):
    with NativeBroker() as broker:
        try:
            sent = broker.send(struct.pack(">ih", 2 + len(body), request_type) + body)
        except FrameError:
            return
        assert sent.is_waiting or sent.whole is None or len(sent.frame) >= 2


class Client:
    """A real connection over a fake transport, driven by a manual loop."""

    def __init__(self, broker: NativeBroker) -> None:
        self.broker = broker
        self.transport = FakeTransport()
        self.connection = Connection(
            broker.loop,
            Admission(ConnectionLimits()),
            SharedReceiveBuffer(),
            broker.api.session,
            ClosedCounter(),
            lambda connection: None,
        )
        self.connection.connection_made(self.transport)
        self.reader = FrameReader(frame_bytes_max=1 << 30)
        self.seen = 0

    def send(self, *data: Any) -> None:
        view = memoryview(b"".join(data))
        while view and self.transport.reading and not self.transport.closed:
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            self.connection.buffer_updated(count)
            view = view[count:]
            if not self.transport.reading:
                self.broker.loop.settle()

    def answers(self) -> list[bytes]:
        """The frames that came since the last call."""
        self.reader.feed(bytes(self.transport.written[self.seen :]))
        self.seen = len(self.transport.written)
        frames = []
        while (frame := self.reader.next_frame()) is not None:
            frames.append(bytes(frame))
        return frames


def test_given_requests_of_all_speeds_when_sent_at_once_then_answers_keep_their_order():
    """A creation, a set that takes many turns, one that waits for its commit, a poll."""
    large = build_set([bytes(300)] * 1_000, format=0)
    with NativeBroker() as broker:
        client = Client(broker)

        client.send(
            requests.encode_create_topic("logs", 2),
            *requests.encode_produce("logs", 0, 1, 0, 0, large),
            *requests.encode_produce("logs", 0, -1, 1_000, 2, batch(b"after")),
            requests.encode_fetch("logs", 0, 1_000, 1_000, 1, 5_000, 0),
            requests.encode_fetch("logs", 1, 0, 1_000, 1, 200, 2),
            *requests.encode_produce("logs", 1, 1, 0, 2, batch(b"last")),
        )
        broker.loop.settle()
        created, first, second, fetched, polled, last = client.answers()

        assert created == bytes.fromhex("0000 0000")
        assert decode_produce_response(first) == (0, 0, -1, 1_000)
        assert decode_produce_response(second) == (0, 1_000, -1, 1)
        assert b"after" in decode_message_set_send(fetched).message_set.tobytes()
        assert len(decode_message_set_send(polled).message_set) == len(batch(b"last"))
        assert decode_produce_response(last) == (0, 0, -1, 1)


def test_given_a_poll_when_later_requests_come_then_they_are_carried_out_and_queue_behind_it():
    with NativeBroker() as broker:
        client = Client(broker)
        client.send(requests.encode_create_topic("logs", 2))
        broker.loop.settle()
        client.answers()

        client.send(
            requests.encode_fetch("logs", 0, 0, 1_000, 1, 500, 2),
            *requests.encode_produce("logs", 1, 1, 0, 2, batch(b"x")),
        )
        carried_out = broker.partition("logs", 1).log.log_end_offset
        early = client.answers()
        broker.loop.advance(501)

        assert (carried_out, early) == (1, [])
        empty, produced = client.answers()
        assert empty == b"\0\0"
        assert decode_produce_response(produced).error == 0


def test_given_a_bad_frame_when_received_then_only_that_connection_is_closed():
    with NativeBroker() as broker:
        bad, good = Client(broker), Client(broker)
        bad.send(requests.encode_create_topic("logs", 1))
        broker.loop.settle()

        bad.send(struct.pack(">ih", 2, 99))
        good.send(requests.encode_fetch("logs", 0, 0, 1_000, 1, 0, 2))

        assert bad.transport.closed
        assert bad.connection.close_reason == "bad_frame"
        assert good.answers() == [b"\0\0"]


def test_given_acks_none_and_an_error_when_received_then_the_connection_is_closed():
    with NativeBroker() as broker:
        client = Client(broker)
        client.send(requests.encode_create_topic("logs", 1))
        broker.loop.settle()

        client.send(*requests.encode_produce("logs", 0, 0, 0, 2, b"damaged" * 20))

        assert client.transport.closed
        assert client.connection.close_reason == "produce_failed"


def test_given_a_lost_connection_when_its_polls_and_conversions_are_under_way_then_they_end():
    with NativeBroker() as broker:
        client = Client(broker)
        client.send(requests.encode_create_topic("logs", 1))
        broker.loop.settle()
        broker.produce("logs", batch(*[bytes(200)] * 3_000))

        client.send(
            requests.encode_fetch("logs", 0, 3_000, 1_000, 1, 60_000, 2),
            requests.encode_fetch("logs", 0, 0, 1 << 20, 1, 0, 0),
        )
        client.connection.connection_lost(None)
        broker.loop.advance(61_000)

        assert not broker.partition("logs").has_waiters


def test_given_a_bug_in_a_task_when_it_comes_out_then_the_connection_is_closed(monkeypatch):
    with NativeBroker() as broker:
        client = Client(broker)

        async def broken(*_: object) -> None:
            await asyncio.sleep(0)
            raise RuntimeError("a bug")

        monkeypatch.setattr(broker.manager, "create_topic", broken)
        client.send(requests.encode_create_topic("logs", 1))
        broker.loop.settle()

        assert client.connection.close_reason == "internal_error"
