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


def pipelined(
    port: int, frame: bytes, answer_bytes: int, requests: int, in_flight: int, connections: int = 1
) -> Run:
    """Send the same frame over and over, with `in_flight` unanswered on each connection.

    The window slides: as many frames go out as answers have come in, as soon as they have.
    """
    window = memoryview(frame * in_flight)
    received = memoryview(bytearray(1 << 20))
    opened = {connection.fileno(): connection for connection in map(connect, [port] * connections)}
    poll = select.epoll()
    for descriptor in opened:
        poll.register(descriptor, select.EPOLLIN)
    cut_bytes = dict.fromkeys(opened, 0)  # of an answer that has come in part
    started = time.perf_counter()
    for connection in opened.values():
        connection.sendall(window)
    sent, answered = in_flight * connections, 0
    while answered < sent:
        for descriptor, _ in poll.poll():
            connection = opened[descriptor]
            got = connection.recv_into(received)
            if not got:
                raise ConnectionError("the server closed the connection")
            count, cut_bytes[descriptor] = divmod(got + cut_bytes[descriptor], answer_bytes)
            answered += count
            if count and sent < requests:
                connection.sendall(window[: count * len(frame)])
                sent += count
    seconds = time.perf_counter() - started
    poll.close()
    for connection in opened.values():
        connection.close()
    return Run(answered, seconds, [])


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
