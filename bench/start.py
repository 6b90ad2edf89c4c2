"""Start-up and memory: from `exec` to the first acknowledged produce, with few and many logs.

With bytecode, as an installation has it. A checkout that is run by other means than `make` where
PYTHONDONTWRITEBYTECODE is set compiles everything at each start, and takes twice as long.
"""

from __future__ import annotations

import compileall
import statistics
import tempfile
import time
from pathlib import Path

from bench import frames, generators, processes
from bench.table import Table

ROUNDS = 9
ROOT = Path(__file__).parents[1]


def run(table: Table, scale: float) -> None:
    print("start-up:", flush=True)
    for package in ("protocol", "broker", "tidelog"):
        compileall.compile_dir(ROOT / package, quiet=1)
    for partitions in (1, 1000):
        with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory:
            _starts(table, Path(directory), partitions)


def _starts(table: Table, directory: Path, partitions: int) -> None:
    produce = frames.produce(frames.batch(1, 200), acks=-1)
    with processes.broker(directory) as server:
        generators.stream(server.port, [frames.create_topic(partitions)], 1, 1)
    seconds, rss = [], 0.0
    for _ in range(ROUNDS):
        started = time.perf_counter()
        with processes.broker(directory, is_settled=False) as server:
            generators.stream(server.port, [produce], 1, 1)
            seconds.append(time.perf_counter() - started)
            time.sleep(1.0)  # what is loaded late (HTTP) counts as well
            rss = server.rss_mib()
    taken, worst = statistics.median(seconds), max(seconds)
    table.add(
        f"start to first acknowledged produce, {partitions} partitions",
        f"{taken:.2f} s, worst of {ROUNDS} {worst:.2f} s",
        ratio=worst,
        at_most=0.5 if partitions == 1 else None,
    )
    table.add(
        f"RSS idle, {partitions} partitions",
        f"{rss:.0f} MiB",
        ratio=rss,
        at_most=80 if partitions == 1 else None,
    )
