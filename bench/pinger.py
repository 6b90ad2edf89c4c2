"""A second client that asks for nothing, again and again: a stall of the loop shows as latency.

Run as `python -m bench.pinger PORT`; on a newline on its standard input it prints its latencies in
seconds, one a line, and ends. A process of its own, because a thread would measure the generator.
"""

from __future__ import annotations

import select
import subprocess
import sys
import time

from bench import frames, generators

INTERVAL_S = 0.001


def ping(port: int) -> None:
    received = memoryview(bytearray(4096))
    frame = frames.fetch(0, max_bytes=0)
    latencies: list[float] = []
    with generators.connect(port) as connection:
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], INTERVAL_S)[0]:
            sent = time.perf_counter()
            connection.sendall(frame)
            generators.read_answer(connection, received)
            latencies.append(time.perf_counter() - sent)
    print("\n".join(map(str, latencies)))


class Pinger:
    """Runs a pinger while the `with` block lasts."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._latencies: list[float] = []

    def __enter__(self) -> Pinger:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.pinger", str(self._port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        return self

    def __exit__(self, *_: object) -> None:
        output = self._process.communicate("\n", timeout=30)[0]
        self._latencies = [float(line) for line in output.split()]

    def percentile_ms(self, share: float) -> float:
        return generators.Run(0, 1.0, self._latencies).percentile(share) * 1000


if __name__ == "__main__":
    ping(int(sys.argv[1]))
