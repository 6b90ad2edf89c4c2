"""The native protocol against its floors: produce, fetch, small requests, old formats, acks=all.

Every figure is the median of `ROUNDS` rounds, the two servers taking turns, because the machine's
speed drifts by more than what is measured.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench import frames, generators, machine, processes
from bench.pinger import Pinger
from bench.table import Table

GB = 1e9
ROUNDS = 3
SIMPLE_ROUNDS = 7
"""Nothing takes turns with the broker there that the machine's drift could be told by."""
MEGABYTE = frames.batch(1000, 1000)
SIXTEEN_KB = frames.batch(80, 190)
SINGLE = frames.batch(1, 200)
ECHO_BYTES = 12


def run(table: Table, scale: float) -> None:
    """Run every scenario; `scale` 1.0 is the published size, less is a quick look."""
    scenarios = (
        bulk_in, small_batches_in, bulk_out, small_batches_out, single_messages, simple_formats,
        durable,
    )  # fmt: skip
    for scenario in scenarios:
        print(f"{scenario.__name__.replace('_', ' ')}:", flush=True)
        with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory:
            scenario(table, Path(directory), scale)


def _cpu_per_gb(server: processes.Server, drive: Callable[[], int]) -> tuple[float, float]:
    """Return CPU seconds per GB and MB/s of the server while `drive` moves its bytes."""
    cpu, started = server.cpu_seconds(), time.perf_counter()
    moved = drive()
    seconds = time.perf_counter() - started
    return (server.cpu_seconds() - cpu) / (moved / GB), moved / 1e6 / seconds


def _produce(port: int, frame: bytes, total_bytes: float, in_flight: int) -> int:
    requests = max(in_flight, int(total_bytes / len(frame)))
    done = generators.pipelined(port, frame, frames.PRODUCE_ANSWER_BYTES, requests, in_flight)
    return done.requests * len(frame)


def _compare_in(
    table: Table, name: str, directory: Path, frame: bytes, total: float, bar: float, flight: int
) -> None:
    ours, floors = [], []
    for turn in range(ROUNDS):
        base = directory / str(turn)
        base.mkdir()
        with processes.broker(base, "topics.flush_policy=os") as server:
            generators.stream(server.port, [frames.create_topic()], 1, 1)
            ours.append(_cpu_per_gb(server, lambda: _produce(server.port, frame, total, flight)))
        with processes.floor("sink", base / "sink") as server:
            floors.append(_cpu_per_gb(server, lambda: _produce(server.port, frame, total, flight)))
        _remove_data(base)
    _add_cpu_row(table, name, ours, floors, bar)


def _add_cpu_row(
    table: Table,
    name: str,
    ours: list[tuple[float, float]],
    floors: list[tuple[float, float]],
    bar: float | None,
) -> None:
    (our_cpu, our_rate), (floor_cpu, floor_rate) = (
        tuple(statistics.median(column) for column in zip(*runs, strict=True))
        for runs in (ours, floors)
    )
    table.add(
        name,
        f"{our_cpu:.2f} CPU s/GB, {our_rate:.0f} MB/s",
        f"{floor_cpu:.2f} CPU s/GB, {floor_rate:.0f} MB/s",
        ratio=our_cpu / floor_cpu,
        at_most=bar,
    )


def bulk_in(table: Table, directory: Path, scale: float) -> None:
    frame = frames.produce(MEGABYTE)
    _compare_in(table, "produce, 1 MB batches", directory, frame, 1.0 * GB * scale, 1.6, 4)


def small_batches_in(table: Table, directory: Path, scale: float) -> None:
    frame = frames.produce(SIXTEEN_KB)
    _compare_in(table, "produce, 16 KB batches", directory, frame, 0.6 * GB * scale, 2.5, 16)


def bulk_out(table: Table, directory: Path, scale: float) -> None:
    _compare_out(table, "fetch, 1 MB", directory, MEGABYTE, 1000, int(2500 * scale), 1.5)


def small_batches_out(table: Table, directory: Path, scale: float) -> None:
    _compare_out(table, "fetch, 16 KB", directory, SIXTEEN_KB, 80, int(60_000 * scale), None)


def _compare_out(
    table: Table,
    name: str,
    directory: Path,
    batch: bytes,
    batch_messages: int,
    requests: int,
    bar: float | None,
) -> None:
    """Fetch what lies in the page cache; the floor sends slices of the same segment file."""
    ours: list[tuple[float, float]] = []
    floors: list[tuple[float, float]] = []
    batches = min(400, requests)
    with processes.broker(directory, "topics.flush_policy=os") as server:
        generators.stream(server.port, [frames.create_topic()], 1, 1)
        generators.stream(server.port, [frames.produce(batch)], batches, 4)
        asked = [
            frames.fetch(batch_messages * number, max_bytes=len(batch)) for number in range(batches)
        ]
        segment = next((directory / "data" / "bench-0").glob("*.log"))
        with processes.floor(f"slices:{len(batch)}", segment) as slices:
            for _ in range(ROUNDS):
                for runs, target in ((ours, server), (floors, slices)):
                    runs.append(
                        _cpu_per_gb(
                            target,
                            lambda: generators.stream(target.port, asked, requests, 4)[1],
                        )
                    )
    _add_cpu_row(table, name, ours, floors, bar)


def single_messages(table: Table, directory: Path, scale: float) -> None:
    """200 B messages, one to a request, against a server that echoes 12 bytes."""
    produce, fetch = frames.produce(SINGLE), frames.fetch(500, max_bytes=len(SINGLE))
    fetched_bytes = 6 + len(SINGLE)
    requests = int(400_000 * scale)
    with (
        processes.broker(directory, "topics.flush_policy=os") as server,
        processes.floor("echo", directory / "echo") as echo,
    ):
        generators.stream(server.port, [frames.create_topic()], 1, 1)
        generators.stream(server.port, [produce], 1000, 100)
        for name, frame, answer_bytes, share, bar in (
            ("produce, 200 B", produce, frames.PRODUCE_ANSWER_BYTES, 1.0, 0.35),
            ("fetch, 200 B", fetch, fetched_bytes, 0.5, None),
        ):
            _compare_requests(
                table, name, server, echo, frame, answer_bytes, int(requests * share), bar
            )


def _compare_requests(
    table: Table,
    name: str,
    server: processes.Server,
    echo: processes.Server,
    frame: bytes,
    answer_bytes: int,
    requests: int,
    bar: float | None,
) -> None:
    shapes: dict[str, Callable[[int, int], generators.Run]] = {
        "pipelined": lambda port, answer: generators.pipelined(
            port, frame, answer, requests, 100, connections=8
        ),
        "100 connections": lambda port, answer: generators.closed_loop(
            port, [frame] * 100, answer, requests // 2
        ),
    }
    for shape, drive in shapes.items():
        ours, floors, cpu = [], [], []
        for _ in range(ROUNDS):
            before = server.cpu_seconds()
            done = drive(server.port, answer_bytes)
            cpu.append((server.cpu_seconds() - before) / done.requests * 1e6)
            ours.append(done.per_second)
            floors.append(drive(echo.port, ECHO_BYTES).per_second)
        our, floor = statistics.median(ours), statistics.median(floors)
        table.add(
            f"{name}, {shape}",
            f"{our:,.0f}/s, {statistics.median(cpu):.1f} CPU ms per thousand",
            f"{floor:,.0f}/s",
            ratio=our / floor,
            at_least=bar,
        )


class SimpleRun(NamedTuple):
    """One stream of format 0 or 1, and what other clients waited for during one before it.

    Not during the same: what they ask for costs CPU time as well.
    """

    cpu: float
    fixed_work_s: float
    """What a fixed piece of work took of CPU time at its beginning and end, on average."""
    rate: float
    waits_s: list[float]
    idle_waits_s: list[float]
    """Of a client of an idle server: what the machine adds, at its worst."""


def simple_formats(table: Table, directory: Path, scale: float) -> None:
    """Formats 0 and 1, converted both ways: alone, and while another client asks for small things.

    Each round has a fresh broker and begins with the other format: what a server does for the first
    time is what holds up others most.
    """
    runs: dict[str, list[SimpleRun]] = {}
    with processes.floor("echo", directory / "echo") as idle:
        for turn in range(SIMPLE_ROUNDS):
            base = directory / str(turn)
            base.mkdir()
            with processes.broker(base, "topics.flush_policy=os") as server:
                for number in (turn % 2, 1 - turn % 2):
                    for name, run in _simple_runs(server, idle.port, number, 0.1 * GB * scale):
                        runs.setdefault(name, []).append(run)
            _remove_data(base)
    best_s = min(run.fixed_work_s for each in runs.values() for run in each)
    for name in sorted(runs, reverse=True):
        _add_simple_rows(table, name, runs[name], best_s)


def _simple_runs(
    server: processes.Server, idle_port: int, number: int, total: float
) -> Iterator[tuple[str, SimpleRun]]:
    topic = f"simple{number}"
    generators.stream(server.port, [frames.create_topic(topic=topic)], 1, 1)
    message_set = frames.simple_set(2500, 200, number)
    frame = frames.produce(message_set, format=number, topic=topic)
    sets = max(4, int(total / len(frame)))
    asked = [
        frames.fetch(2500 * n, max_bytes=len(message_set), format=number, topic=topic)
        for n in range(sets)
    ]
    for name, sent in (("produce", [frame]), ("fetch", asked)):
        with Pinger(server.port, idle_port) as pinger:
            _stream(server.port, sent, sets)
        before_s = machine.fixed_work_s()
        cpu, rate = _cpu_per_gb(server, lambda: _stream(server.port, sent, sets))
        work_s = (before_s + machine.fixed_work_s()) / 2
        waits = pinger.latencies_s, pinger.idle_latencies_s
        yield f"{name}, format {number}, 200 B", SimpleRun(cpu, work_s, rate, *waits)


def _stream(port: int, sent: list[bytes], requests: int) -> int:
    """Return the bytes of the larger direction."""
    done, received_bytes = generators.stream(port, sent, requests, 2)
    return max(done.requests * len(sent[0]), received_bytes)


def _add_simple_rows(table: Table, name: str, runs: list[SimpleRun], best_s: float) -> None:
    """Add the median cost, and the longest wait of all rounds.

    The cost has no floor of the same run, so it is held against its bar at the best speed that the
    machine had in the run; what the clock said stands beside it.
    """
    cpu = statistics.median(run.cpu for run in runs)
    rate = statistics.median(run.rate for run in runs)
    at_best = statistics.median(run.cpu * best_s / run.fixed_work_s for run in runs)
    shown = (
        f"{at_best:.1f} CPU s/GB at the machine's best speed, {cpu:.1f} measured, {rate:.0f} MB/s"
    )
    table.add(name, shown, ratio=at_best, at_most=12)
    shown, longest_ms = _waits([run.waits_s for run in runs])
    idle, _ = _waits([run.idle_waits_s for run in runs])
    table.add(f"{name}: another client", shown, f"{idle}, idle", ratio=longest_ms, at_most=5)


def _waits(rounds: list[list[float]]) -> tuple[str, float]:
    """Return the waits of some rounds as text, and the longest in milliseconds."""
    p99_ms = statistics.median(generators.Run(0, 1.0, one).percentile(0.99) for one in rounds) * 1e3
    longest_ms = max(map(max, rounds)) * 1e3
    return f"p99 {p99_ms:.1f} ms, longest {longest_ms:.1f} ms", longest_ms


def durable(table: Table, directory: Path, scale: float) -> None:
    """acks=all by 1, 10 and 100 writers, each waiting for its answer, synced against not."""
    frame = frames.produce(SINGLE, acks=-1)
    with (
        processes.broker(_made(directory / "commit")) as commit,
        processes.broker(_made(directory / "os"), "topics.flush_policy=os") as relaxed,
    ):
        for server in (commit, relaxed):
            generators.stream(server.port, [frames.create_topic()], 1, 1)
        for writers, requests in ((1, 4_000), (10, 40_000), (100, 120_000)):
            synced: list[generators.Run] = []
            unsynced: list[generators.Run] = []
            for _ in range(ROUNDS):
                for runs, server in ((synced, commit), (unsynced, relaxed)):
                    runs.append(
                        generators.closed_loop(
                            server.port,
                            [frame] * writers,
                            frames.PRODUCE_ANSWER_BYTES,
                            int(requests * scale),
                            timed=True,
                        )
                    )
            rate, other = (
                statistics.median(run.per_second for run in runs) for runs in (synced, unsynced)
            )
            p50, p99 = (
                statistics.median(run.percentile(share) for run in synced) * 1000
                for share in (0.5, 0.99)
            )
            table.add(
                f"acks=all, flush commit, {writers} writers",
                f"{rate:,.0f}/s, p50 {p50:.2f} ms, p99 {p99:.2f} ms",
                f"{other:,.0f}/s (flush os)",
                ratio=rate / other,
                at_least=0.5 if writers == 100 else None,
            )


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _remove_data(directory: Path) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
