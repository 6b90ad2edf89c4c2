"""Through the Kafka protocol, beside Apache Kafka 4.3 with its defaults, by the same client.

Tidelog syncs before it acknowledges (flush policy `commit`) unless a row says otherwise; Kafka's
default leaves that to the operating system. The servers take turns; each figure is the median. A
third server keeps nothing of what it gets: how far a rate can be raised with this client.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench import kafka_node, kafka_requests, processes
from bench.table import Table

ROUNDS = 3
SIZES = {100: 1_000_000, 1_000: 300_000}
"""Messages of each size in a round."""
STARTS = 3
NOTHING_KEPT = "a server that keeps nothing"
"""`bench.kafka_floor`: about as quick as a server can be with this client, in the same run."""


class Peer(NamedTuple):
    """A server under load."""

    server: processes.Server
    port: int

    def load(self, *command: str) -> dict[str, Any]:
        """Run one load against it; the JSON it prints, with the server's CPU seconds."""
        before = self.server.cpu_seconds()
        name, *rest = command
        done = subprocess.run(
            [sys.executable, "-m", "bench.kafka_load", name, f"127.0.0.1:{self.port}", *rest],
            capture_output=True,
            check=True,
        )
        result: dict[str, Any] = json.loads(done.stdout)
        return result | {"cpu": self.server.cpu_seconds() - before}


Peers = dict[str, Peer]
"""By name: ours, theirs if there is one, and the floor."""


class Figures(NamedTuple):
    """Of one load, or the medians of several."""

    rate: float
    """Messages a second."""
    cpu: float
    """Seconds of the server's CPU a million messages."""

    def rate_text(self, size: int) -> str:
        return f"{self.rate / 1e6:.2f} M/s, {self.rate * size / 1e6:.0f} MB/s"

    def cpu_text(self) -> str:
        return f"{self.cpu:.2f} CPU s per million"


def run(table: Table, scale: float) -> None:
    print("kafka:", flush=True)
    absent = kafka_node.missing()
    if absent is not None:
        print(f"  NO APACHE KAFKA BESIDE IT, its column stays empty: {absent}", flush=True)
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as name:
        directory = Path(name)
        _starts(table, directory / "starts", absent)
        with (
            _ours(directory / "commit") as ours,
            _theirs(directory / "kafka", absent) as theirs,
            _floor(directory) as floor,
        ):
            peers = {"ours": ours, "theirs": theirs, "floor": floor}
            _throughput(table, _present(peers), scale, "commit")
            _sizes(table, ours, theirs)
            _join(table, ours, theirs)
            kafka_requests.run(table, ours, theirs, scale)
        with (
            _ours(directory / "os", "topics.flush_policy=os") as ours,
            _theirs(directory / "kafka-2", absent) as theirs,
        ):
            _throughput(table, _present({"ours": ours, "theirs": theirs}), scale, "os")
            _latency(table, ours, theirs, scale)


@contextmanager
def _ours(directory: Path, *settings: str) -> Iterator[Peer]:
    directory.mkdir()
    with processes.broker(directory, *settings) as server:
        port = json.loads((directory / "ready.json").read_text())["kafka_port"]
        yield Peer(server, port)


@contextmanager
def _theirs(directory: Path, absent: str | None) -> Iterator[Peer | None]:
    if absent is not None:
        yield None
        return
    with kafka_node.node(directory) as (server, _):
        time.sleep(5.0)  # the JVM settles
        yield Peer(server, server.port)


@contextmanager
def _floor(directory: Path) -> Iterator[Peer]:
    with processes.kafka_floor(directory / "floor.port") as server:
        yield Peer(server, server.port)


def _present(peers: dict[str, Peer | None]) -> Peers:
    return {who: peer for who, peer in peers.items() if peer is not None}


def _starts(table: Table, directory: Path, absent: str | None) -> None:
    """From `exec` to serving, on directories that are new, taking turns."""
    ours: list[float] = []
    theirs: list[float] = []
    for turn in range(STARTS):
        own = directory / f"{turn}"
        own.mkdir(parents=True)
        started_s = time.perf_counter()
        with processes.broker(own, is_settled=False):
            ours.append(time.perf_counter() - started_s)
        if absent is None:
            with kafka_node.node(directory / f"kafka-{turn}") as (_, start_s):
                theirs.append(start_s)
    taken, other = statistics.median(ours), statistics.median(theirs) if theirs else None
    table.add(
        f"start, median of {STARTS}", f"{taken:.2f} s", f"{other:.2f} s" if other else "",
        ratio=taken / other if other else None, at_most=1 / 8,
    )  # fmt: skip


def _throughput(table: Table, peers: Peers, scale: float, flush_policy: str) -> None:
    for size, messages in SIZES.items():
        runs = _runs(peers, size, max(10_000, int(messages * scale)))
        has_bars = flush_policy == "commit"
        bars = {"produce": (2.0 if size == 1_000 else 1.5, 0.25), "consume": (1.2, 0.5)}
        for name, (rate_bar, cpu_bar) in bars.items():
            figures = {who: _medians(runs[who, name]) for who in peers}
            _add_pair(
                table, f"{name}, {size} B, flush {flush_policy}", size, figures,
                rate_bar if has_bars else None, cpu_bar if has_bars else None,
            )  # fmt: skip


def _runs(peers: Peers, size: int, count: int) -> dict[tuple[str, str], list[Figures]]:
    """Have each server take its turn, some rounds; return the figures by server and direction."""
    runs: dict[tuple[str, str], list[Figures]] = {}
    for turn in range(ROUNDS):
        for who, peer in peers.items():
            topic = f"b{turn}-{size}"
            for name, arguments in (
                ("produce", (topic, str(size), str(count))),
                ("consume", (topic, str(count))),
            ):
                done = peer.load(name, *arguments)
                figures = Figures(count / done["seconds"], done["cpu"] / count * 1e6)
                runs.setdefault((who, name), []).append(figures)
    return runs


def _medians(runs: list[Figures]) -> Figures:
    return Figures(*(statistics.median(column) for column in zip(*runs, strict=True)))


def _add_pair(
    table: Table,
    name: str,
    size: int,
    figures: dict[str, Figures],
    rate_bar: float | None,
    cpu_bar: float | None,
) -> None:
    ours, theirs, floor = (figures.get(who) for who in ("ours", "theirs", "floor"))
    assert ours is not None, "a run without the server that it is for"
    rates = [each.rate_text(size) if each else "" for each in (ours, theirs, floor)]
    cpu = [each.cpu_text() if each else "" for each in (ours, theirs, floor)]
    ratio = ours.rate / theirs.rate if theirs else None
    table.add(name, rates[0], rates[1], ratio=ratio, at_least=rate_bar)
    ratio = ours.cpu / theirs.cpu if theirs else None
    table.add(f"{name}: CPU", cpu[0], cpu[1], ratio=ratio, at_most=cpu_bar)
    if floor is not None:
        ratio = floor.rate / theirs.rate if theirs else None
        table.add(f"{name}: {NOTHING_KEPT}", rates[2], rates[1], ratio=ratio)
        ratio = floor.cpu / theirs.cpu if theirs else None
        table.add(f"{name}: {NOTHING_KEPT}: CPU", cpu[2], cpu[1], ratio=ratio)


def _sizes(table: Table, ours: Peer, theirs: Peer | None) -> None:
    rss, other = ours.server.rss_mib(), theirs.server.rss_mib() if theirs else 0.0
    table.add(
        "RSS after that", f"{rss:.0f} MiB", f"{other:.0f} MiB" if theirs else "",
        ratio=rss / other if theirs else None, at_most=1 / 6,
    )  # fmt: skip


def _join(table: Table, ours: Peer, theirs: Peer | None) -> None:
    def milliseconds(peer: Peer) -> float:
        peer.load("join", "b0-1000")  # the first one makes __consumer_offsets
        waits: list[float] = [peer.load("join", "b0-1000")["milliseconds"] for _ in range(5)]
        return statistics.median(waits)

    waited = milliseconds(ours)
    other = f"{milliseconds(theirs):.0f} ms" if theirs else ""
    table.add("group join to first record", f"{waited:.0f} ms", other, ratio=waited, at_most=50)


def _latency(table: Table, ours: Peer, theirs: Peer | None, scale: float) -> None:
    seconds = str(max(3, int(10 * scale)))
    runs = [
        peer.load("latency", f"l{n}", "2000", seconds)
        for n, peer in enumerate((ours, theirs))
        if peer is not None
    ]
    shown = [f"p50 {run['p50']:.2f} ms, p99 {run['p99']:.2f} ms" for run in runs]
    table.add(
        "end to end at 2,000/s, flush os, p50 to Kafka's", shown[0], "".join(shown[1:]),
        ratio=runs[0]["p50"] / runs[1]["p50"] if runs[1:] else None, at_most=1,
    )  # fmt: skip
    table.add(
        "end to end at 2,000/s, flush os, p99 ms", shown[0], "".join(shown[1:]),
        ratio=runs[0]["p99"], at_most=3,
    )  # fmt: skip
