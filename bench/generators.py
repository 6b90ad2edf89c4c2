"""Load: frames built beforehand, sent over plain sockets, answers only counted.

The generator must cost less than what it drives, or the table would show the generator.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from dataclasses import dataclass

LENGTH = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of a generator came to."""

    requests: int
    seconds: float
    latencies_s: list[float]

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds

    def percentile(self, share: float) -> float:
        """Return a latency in seconds, e.g. `percentile(0.99)`."""
        ordered = sorted(self.latencies_s)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def pipelined(port: int, frame: bytes, answer_bytes: int, requests: int, in_flight: int) -> Run:
    """Send the same frame over one connection with `in_flight` of them unanswered at most."""
    window = memoryview(frame * max(1, in_flight // 2))
    half = max(1, in_flight // 2)
    received = bytearray(1 << 20)
    with connect(port) as connection:
        started = time.perf_counter()
        sent = answered = 0
        while answered < requests:
            while sent < requests and sent + half - answered <= in_flight:
                connection.sendall(window)
                sent += half
            expected = (answered + half) * answer_bytes - answered * answer_bytes
            while expected > 0:
                got = connection.recv_into(received, min(expected, len(received)))
                if not got:
                    raise ConnectionError("the server closed the connection")
                expected -= got
            answered += half
        return Run(answered, time.perf_counter() - started, [])


def closed_loop(
    port: int, frames: list[bytes], answer_bytes: int, requests: int, *, timed: bool = False
) -> Run:
    """One connection for each frame; each sends it anew as soon as its answer has come."""
    connections = [connect(port) for _ in frames]
    by_descriptor = {
        connection.fileno(): (connection.send, connection.recv, frame)
        for connection, frame in zip(connections, frames, strict=True)
    }
    poll = select.epoll()
    for descriptor in by_descriptor:
        poll.register(descriptor, select.EPOLLIN)
    sent_at: dict[int, float] = {}
    latencies: list[float] = []
    started = time.perf_counter()
    for descriptor, (send, _, frame) in by_descriptor.items():
        sent_at[descriptor] = time.perf_counter()
        send(frame)
    answered, sent = 0, len(frames)
    while answered < sent:
        for descriptor, _ in poll.poll():
            send, receive, frame = by_descriptor[descriptor]
            if len(receive(answer_bytes)) != answer_bytes:
                raise ConnectionError("an answer was cut or the connection closed")
            answered += 1
            if timed:
                latencies.append(time.perf_counter() - sent_at[descriptor])
            if sent < requests:
                sent += 1
                if timed:
                    sent_at[descriptor] = time.perf_counter()
                send(frame)
    seconds = time.perf_counter() - started
    poll.close()
    for connection in connections:
        connection.close()
    return Run(answered, seconds, latencies)


def stream(port: int, frames: list[bytes], requests: int, in_flight: int) -> tuple[Run, int]:
    """Send frames in turn with `in_flight` unanswered; answers may be of any length.

    Returns:
        The run and the bytes of all answers, their length fields included.
    """
    received = memoryview(bytearray(4 << 20))
    with connect(port) as connection:
        started = time.perf_counter()
        sent = answered = total = 0
        while answered < requests:
            while sent < requests and sent - answered < in_flight:
                connection.sendall(frames[sent % len(frames)])
                sent += 1
            total += read_answer(connection, received)
            answered += 1
        return Run(answered, time.perf_counter() - started, []), total


def read_answer(connection: socket.socket, received: memoryview) -> int:
    """Read one length-prefixed answer and drop it; return its bytes, prefix included."""
    need = 4
    have = 0
    while have < need:
        have += _receive(connection, received[have:need])
    (size,) = LENGTH.unpack_from(received)
    left = size
    while left > 0:
        left -= _receive(connection, received[: min(left, len(received))])
    return 4 + int(size)


def _receive(connection: socket.socket, into: memoryview) -> int:
    got = connection.recv_into(into)
    if not got:
        raise ConnectionError("the server closed the connection")
    return got
