"""A second client that asks for nothing, again and again: a stall of the loop shows as latency.

It asks a server that has nothing else to do as well, in turn: what a client waits for there is the
machine's doing, other programs' or a hypervisor's, and the same happens to the one under test.

Run as `python -m bench.pinger PORT [IDLE_PORT]`; on a newline on its standard input it prints its
latencies in seconds, one server's on a line, and ends. A process of its own, because a thread would
measure the generator.
"""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

from bench import frames, generators

INTERVAL_S: Final = 0.001
ANSWER_BYTES: Final = 6
"""Of the broker, to a fetch of nothing."""
IDLE_ANSWER_BYTES: Final = 12
"""Of `bench.floor echo`."""


def ping(ports: Sequence[int]) -> None:
    """Ask the servers in turn until a line comes in; the second one is the idle one."""
    connections = [generators.connect(port) for port in ports]
    latencies: list[list[float]] = [[] for _ in ports]
    targets = list(zip(connections, (ANSWER_BYTES, IDLE_ANSWER_BYTES), latencies, strict=False))
    for connection, answer_bytes, _ in targets:
        _ask(connection, answer_bytes)  # the first one also waits to be accepted
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], INTERVAL_S)[0]:
        for connection, answer_bytes, waits in targets:
            waits.append(_ask(connection, answer_bytes))
    for waits in latencies:
        print(*waits)


def _ask(connection: socket.socket, answer_bytes: int) -> float:
    """Return how long the answer took, in seconds."""
    sent = time.perf_counter()
    connection.sendall(FRAME)
    left = answer_bytes
    while left:
        received = len(connection.recv(left))
        if not received:
            raise ConnectionError("the server closed the connection")
        left -= received
    return time.perf_counter() - sent


FRAME: Final = frames.fetch(0, max_bytes=0)


class Pinger:
    """Runs a pinger while the `with` block lasts."""

    def __init__(self, port: int, idle_port: int | None = None) -> None:
        self._ports = [port] if idle_port is None else [port, idle_port]
        self.latencies_s: list[float] = []
        self.idle_latencies_s: list[float] = []
        """At the server that has nothing else to do, if there is one."""

    def __enter__(self) -> Pinger:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.pinger", *map(str, self._ports)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        return self

    def __exit__(self, *_: object) -> None:
        lines = self._process.communicate("\n", timeout=30)[0].splitlines()
        columns = [[float(word) for word in line.split()] for line in lines]
        self.latencies_s, self.idle_latencies_s = (*columns, [])[:2]


if __name__ == "__main__":
    ping([int(argument) for argument in sys.argv[1:]])
