"""A daemon in a process of its own, for tests of what only a process shows."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 30


class DaemonProcess:
    """`python -m broker` on free ports; it is heard as systemd would hear it."""

    def __init__(self, directory, *settings, code=None, environment=None, launcher=()):
        self.directory = directory
        self.ready_file = directory / "ready.json"
        self._systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._systemd.bind(f"\0tidelog-test-{os.getpid()}-{id(self)}")
        self._systemd.settimeout(0.2)
        self.log_file = directory / "daemon.log"
        defaults = [f"storage.data_dirs={directory / 'data'}", "log.format=json"]
        defaults += [
            "listeners.native_port=0",
            "listeners.kafka_port=0",
            "http.port=0",
            f"daemon.ready_file={self.ready_file}",
        ]
        arguments = [part for one in (*defaults, *settings) for part in ("--set", one)]
        start = ["-m", "broker"] if code is None else ["-c", code]
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [*launcher, sys.executable, *start, *arguments],
                cwd=ROOT,
                env={
                    **os.environ,
                    "NOTIFY_SOCKET": "@" + self._systemd.getsockname()[1:].decode(),
                    **(environment or {}),
                },
                stderr=log,
            )

    def told(self, text):
        """Wait until systemd is told something that begins with `text`; return it whole."""
        for _ in range(TIMEOUT_S * 5):
            try:
                message = self._systemd.recv(10_000).decode()
            except TimeoutError:
                assert self.process.poll() is None, self.log_file.read_text()
                continue
            if message.startswith(text):
                return message
        raise AssertionError(f"systemd was not told {text}")

    def wait_ready(self):
        self.told("READY=1")
        return json.loads(self.ready_file.read_text())

    def signal(self, number):
        self.process.send_signal(number)

    def terminate(self):
        """SIGTERM, then the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self):
        return self.process.wait(TIMEOUT_S)

    def events(self):
        """Return what it has logged so far."""
        return [json.loads(line) for line in self.log_file.read_text().splitlines()]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._systemd.close()


@contextmanager
def daemon_process(directory, *settings, **options):
    """Run a daemon; it is killed at the end, if it has not ended by itself."""
    daemon = DaemonProcess(directory, *settings, **options)
    try:
        yield daemon
    finally:
        daemon.close()
