"""DemoBroker: the daemon that the demo starts, kills and stops."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["START_TIMEOUT_S", "DemoBroker", "demo_broker"]

START_TIMEOUT_S: Final = 60.0


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
            ],
            start_new_session=True,  # Ctrl-C is for the demo: it still needs the broker to end well
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
