"""A real broker in a process of its own, for tests from the outside.

`broker` is shared by all tests of a session (of one worker, with xdist): let each use topics of its
own. A test that kills its broker starts one with `BrokerProcess`.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
PORT_MIN = 10_000
PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""Of the ports that connections of all kinds are given."""


class BrokerProcess:
    """`tidelog serve` on one data directory; may be started again after it ended.

    Attributes:
        address: Where it serves clients, once it is started; any free port the first time, and
            the same one after a restart.
        errors: The file with its standard error.
    """

    def __init__(self, directory: Path, *settings: str) -> None:
        self.directory = directory
        self.data_directory = directory / "data"
        self.errors = directory / "stderr.txt"
        self.address = self.kafka_address = self.http_address = ""
        self.process: subprocess.Popen[bytes] | None = None
        self._settings = settings
        self._port, self._kafka_port = _lasting_port(), _lasting_port()
        self._notified: socket.socket | None = None

    def start(self) -> BrokerProcess:
        """Start it and wait until it serves."""
        self.spawn()
        ready = json.loads((self.directory / "ready.json").read_text())
        addresses: list[str] = ready["native"]
        self.address = next(one for one in addresses if one.startswith("127."))
        self._port = int(self.address.rpartition(":")[2])
        self._kafka_port = ready.get("kafka_port", 0)
        self.kafka_address = f"127.0.0.1:{self._kafka_port}"
        self.http_address = next(iter(ready.get("http", [])), "")
        return self

    def spawn(self, *, wait: bool = True) -> subprocess.Popen[bytes]:
        """Start it. Its readiness comes as systemd would hear of it, so nobody has to poll."""
        self._forget()
        path = self.directory / "notify"
        self._notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notified.bind(str(path))
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                self.command(),
                stderr=errors,
                env=os.environ | {"NOTIFY_SOCKET": str(path), "PYTHONFAULTHANDLER": "1"},
            )
        if wait:
            self._wait_until_ready(self._notified, self.process)
        return self.process

    def command(self) -> list[str]:
        """Return the command that starts it."""
        settings = [
            f"storage.data_dirs={json.dumps([str(self.data_directory)])}",
            f"listeners.native_port={self._port}",
            f"listeners.kafka_port={self._kafka_port}",
            "http.port=0",
            "log.level=warning",
            *self._settings,
        ]
        command = [sys.executable, "-m", "tidelog", "serve"]
        for setting in settings:
            command += ["--set", setting]
        return [*command, "--ready-file", str(self.directory / "ready.json")]

    def kill(self) -> None:
        """End it as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOP_TIMEOUT_S)

    def stop(self) -> int:
        """End it as an operator would; return its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_TIMEOUT_S)

    def __enter__(self) -> BrokerProcess:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        self._forget()

    def _forget(self) -> None:
        if self._notified is not None:
            self._notified.close()
            (self.directory / "notify").unlink()
            self._notified = None

    def _wait_until_ready(self, notified: socket.socket, process: subprocess.Popen[bytes]) -> None:
        ended = os.pidfd_open(process.pid)
        waited_for: list[socket.socket | int] = [notified, ended]
        try:
            while True:
                found, _, _ = select.select(waited_for, [], [], START_TIMEOUT_S)
                if notified in found and b"READY=1" in notified.recv(64 * 1024).split(b"\n"):
                    return
                if ended in found or not found:
                    process.kill()
                    process.wait()
                    raise AssertionError(f"the broker is not ready: {self.errors.read_text()}")
        finally:
            os.close(ended)


def _lasting_port() -> int:
    """Return a free port that no connection is given while a killed broker is not there."""
    end = int(PORT_RANGE.read_text().split()[0]) if PORT_RANGE.exists() else 0
    for port in random.sample(range(PORT_MIN, end), 20) if end > 2 * PORT_MIN else ():
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    return 0


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that is shared by the session's tests, and must end well after all of them."""
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as running:
        yield running
        assert running.stop() == 0, running.errors.read_text()
