"""Servers under test, each in a process of its own, with what the kernel says it has used."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")
START_TIMEOUT_S: Final = 60.0
SETTLING_S: Final = 0.5
"""The last garbage collection of a start is over by then."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: where it listens and what it costs."""

    process: subprocess.Popen[bytes]
    port: int
    http_port: int = 0

    def cpu_seconds(self) -> float:
        """Return user and system time of all its threads since it started."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def rss_mib(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def broker(directory: Path, *settings: str, is_settled: bool = True) -> Iterator[Server]:
    """Run `tidelog serve` on a data directory, ready to serve; stopped by SIGTERM.

    Args:
        is_settled: Wait until what a start does last, the metrics page, is there as well: its
            imports cost CPU time that would be charged to the first scenario.
    """
    ready = directory / "ready.json"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "broker"]
    for setting in (
        f"storage.data_dirs={json.dumps([str(directory / 'data')])}",
        "listeners.native_port=0",
        "listeners.kafka_port=0",
        "listeners.host=127.0.0.1",
        "http.port=0",
        "log.level=error",
        f"daemon.ready_file={ready}",
        *settings,
    ):
        command += ["--set", setting]
    with _running(command) as process:
        _wait_for(ready, process)
        bound = json.loads(ready.read_text())
        if is_settled:
            _wait_for_http(bound["http_port"], process)
            time.sleep(SETTLING_S)
        yield Server(process, bound["native_port"], bound["http_port"])


def child(server: Server, module: str) -> int:
    """Return the process number of the server's one child that runs a module."""
    children = Path(f"/proc/{server.process.pid}/task").glob("*/children")
    found = [
        int(number)
        for each in children
        for number in each.read_text().split()
        if module.encode() in Path(f"/proc/{number}/cmdline").read_bytes()
    ]
    if len(found) != 1:
        raise RuntimeError(f"{len(found)} processes of {module}")
    return found[0]


@contextmanager
def peak_memory(interval_s: float = 0.2) -> Iterator[Callable[[], int]]:
    """Watch this process and all it has started; yield what returns the most it took, in MiB.

    Pages that processes share count once for each of them.
    """
    peak, ended = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(interval_s):
            peak = max(peak, _tree_rss_bytes(os.getpid()) >> 20)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield lambda: peak
    finally:
        ended.set()
        watcher.join()


def _tree_rss_bytes(root: int) -> int:
    parents, pages = {}, {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            fields = (directory / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has ended
        parents[int(directory.name)], pages[int(directory.name)] = int(fields[1]), int(fields[21])
    total = 0
    for number in pages:
        ancestor = number
        while ancestor and ancestor != root:
            ancestor = parents.get(ancestor, 0)
        total += pages[number] if ancestor == root else 0
    return total * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def floor(kind: str, file: Path) -> Iterator[Server]:
    """Run one of the servers of `bench.floor`."""
    ready = file.with_suffix(".port")
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "bench.floor", kind, str(file), str(ready)]
    with _running(command) as process:
        _wait_for(ready, process)
        yield Server(process, int(ready.read_text()))


@contextmanager
def kafka_floor(ready: Path) -> Iterator[Server]:
    """Run the server of `bench.kafka_floor`."""
    with _running([sys.executable, "-m", "bench.kafka_floor", str(ready)]) as process:
        _wait_for(ready, process)
        yield Server(process, int(ready.read_text()))


@contextmanager
def _running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for_http(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _wait_for(ready: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not (ready.exists() and ready.stat().st_size):
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode} before it was ready")
        if time.monotonic() > deadline:
            raise RuntimeError("the server was not ready in time")
        time.sleep(0.005)
