"""`make demo`: what Tidelog does, shown on a real log file.

Starts a broker, ships the file's lines into four partitions, reads them back with one multi-fetch
after another, shows that they are byte-equal, kills the broker with SIGKILL in the middle of a
second load, starts it again and shows that nothing acknowledged is gone.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from tidelog.client import Client, Delivery, FetchFrom, TidelogError

PARTITIONS: Final = 4
START_TIMEOUT_S: Final = 60.0
SECOND_LOAD_ROUNDS: Final = 40
KILLED_AFTER: Final = 0.4
METRICS_SHOWN: Final = (
    "tidelog_topic_messages_in_total",
    "tidelog_topic_bytes_in_total",
    "tidelog_flush_duration_seconds_count",
    "tidelog_fsync_failures_total",
    "tidelog_partition_high_watermark",
)

console = Console(highlight=False, soft_wrap=True)


@dataclass(slots=True)
class DemoBroker:
    """A daemon in a process of its own, on one data directory and one port."""

    directory: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    http_port: int = 0
    kafka_port: int = 0

    def start(self) -> float:
        """Start it, wait until it serves, return the seconds that took."""
        ready = self.directory / "ready.json"
        ready.unlink(missing_ok=True)
        started = time.perf_counter()
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tidelog", "serve"),
                *("--set", f"storage.data_dirs={json.dumps([str(self.directory / 'data')])}"),
                *("--set", f"listeners.native_port={self.port}"),
                *("--set", f"listeners.kafka_port={self.kafka_port}"),
                *("--set", "http.port=0"),
                *("--set", "log.level=error"),
                *("--set", f"daemon.ready_file={ready}"),
            ]
        )
        while not (ready.exists() and ready.stat().st_size):
            if self.process.poll() is not None:
                raise SystemExit(f"the broker ended with exit code {self.process.returncode}")
            if time.perf_counter() - started > START_TIMEOUT_S:
                raise SystemExit("the broker was not ready in time")
            time.sleep(0.01)
        self.http_port = json.loads(ready.read_text())["http_port"]
        return time.perf_counter() - started

    def kill(self) -> None:
        """End it as a crash would."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """End it as an operator would; return its exit code."""
        if self.process is None or self.process.poll() is not None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def demo_broker() -> Iterator[DemoBroker]:
    with tempfile.TemporaryDirectory(prefix="tidelog-demo-") as directory:
        broker = DemoBroker(Path(directory), _free_port())
        try:
            yield broker
        finally:
            broker.kill()


def _free_port() -> int:
    """A port that stays the same over the restart."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def split_lines(data: bytes) -> tuple[list[bytes], bool]:
    """Return the lines and whether the last one ended; split at \\n only, so \\r is kept."""
    lines = data.split(b"\n")
    ends_with_newline = lines[-1] == b""
    return (lines[:-1] if ends_with_newline else lines), ends_with_newline


def join_lines(lines: list[bytes], ends_with_newline: bool) -> bytes:
    return b"\n".join(lines) + (b"\n" if ends_with_newline else b"")


def ship(client: Client, topic: str, lines: list[bytes]) -> list[Future[Delivery]]:
    """Produce the lines in turn over the partitions, acks=all; wait for all of them."""
    with client.producer(acks=-1) as producer:
        return [
            producer.produce(topic, line, partition=number % PARTITIONS)
            for number, line in enumerate(lines)
        ]


def fetch_all(client: Client, topic: str) -> list[list[bytes]]:
    """Return the values of every partition, by MULTIFETCH until there is no more."""
    values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    positions = [0] * PARTITIONS
    while True:
        answers = client.multi_fetch(
            [FetchFrom(topic, number, offset) for number, offset in enumerate(positions)]
        )
        for answer in answers:
            answer.raise_for_error()
            values[answer.partition] += [message.value or b"" for message in answer.messages]
            positions[answer.partition] = answer.next_offset
        if not any(answer.messages for answer in answers):
            return values


def in_order(values: list[list[bytes]]) -> list[bytes]:
    """Put lines that were shipped in turn back in their order."""
    total = sum(map(len, values))
    return [values[number % PARTITIONS][number // PARTITIONS] for number in range(total)]


def round_trip(client: Client, log_file: Path) -> None:
    data = log_file.read_bytes()
    lines, ends_with_newline = split_lines(data)
    client.create_topic("demo", PARTITIONS)
    started = time.perf_counter()
    for future in ship(client, "demo", lines):
        future.result()
    seconds = time.perf_counter() - started
    console.print(
        f"2. shipped {len(lines):,} lines ({len(data):,} bytes) of {log_file.name} into "
        f"{PARTITIONS} partitions, each one synced before it was acknowledged ({seconds:.2f} s)"
    )
    fetched = join_lines(in_order(fetch_all(client, "demo")), ends_with_newline)
    if fetched != data:
        raise SystemExit("what came back differs from the file")
    console.print("3. fetched them back with MULTIFETCH and put them in order: byte-equal")


def crash(broker: DemoBroker, client: Client, lines: list[bytes]) -> None:
    """Kill the broker in the middle of a load, start it again, check every acknowledgement."""
    client.create_topic("crash", PARTITIONS)
    load = lines * SECOND_LOAD_ROUNDS
    futures: list[tuple[bytes, Future[Delivery]]] = []
    with client.producer(acks=-1, batch_bytes_max=16 * 1024) as producer:
        for number, line in enumerate(load):
            if number == int(len(load) * KILLED_AFTER):
                broker.kill()
                acknowledged = sum(future.done() for _, future in futures)
                console.print(
                    f"4. killed the broker (SIGKILL) after {number:,} lines of a second load; "
                    f"{acknowledged:,} of them had been acknowledged"
                )
                seconds = broker.start()
            partition = number % PARTITIONS
            futures.append((line, producer.produce("crash", line, partition=partition)))
    console.print(f"   started it again on the same directory: ready after {seconds:.2f} s")
    values = fetch_all(client, "crash")
    missing = sum(
        values[delivery.partition][delivery.offset : delivery.offset + 1] != [line]
        for line, future in futures
        for delivery in (future.result(),)
    )
    if missing:
        raise SystemExit(f"{missing} acknowledged lines are gone or changed")
    extra = sum(map(len, values)) - len(futures)
    console.print(
        f"5. the producer went on by itself: {len(futures):,} lines acknowledged, all of them at "
        f"their offsets, none gone, none changed ({extra:,} stored twice by its retries)"
    )


def show_metrics(broker: DemoBroker) -> None:
    url = f"http://127.0.0.1:{broker.http_port}/metrics"
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                text = answer.read().decode()
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    console.print("6. a few of its metrics:")
    for line in text.splitlines():
        if line.startswith(METRICS_SHOWN):
            console.print(f"   {line}", markup=False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tidelog.demo", description=__doc__)
    parser.add_argument("log_file", type=Path, help="any text file of some thousands of lines")
    log_file: Path = parser.parse_args().log_file
    with demo_broker() as broker:
        seconds = broker.start()
        console.print(
            f"1. a broker with its defaults is ready on port {broker.port} ({seconds:.2f} s)"
        )
        try:
            with Client(f"127.0.0.1:{broker.port}") as client:
                round_trip(client, log_file)
                crash(broker, client, split_lines(log_file.read_bytes())[0])
                show_metrics(broker)
        except TidelogError as error:
            raise SystemExit(f"the demo failed: {error}") from error
        code = broker.stop()
        console.print(f"7. stopped it (SIGTERM): exit code {code}")


if __name__ == "__main__":
    main()
