"""sd_notify: tells systemd how far the daemon is, where systemd asks to be told.

One datagram of lines such as `READY=1` to the socket that `NOTIFY_SOCKET` names (a path, or `@`
and an abstract name); see sd_notify(3). Elsewhere nothing happens.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from typing import Final

import structlog

log = structlog.get_logger("tidelog.daemon")

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"


class SystemdNotifier:
    """The connection to systemd, if there is one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get(SOCKET_VARIABLE, "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self.watchdog_interval_s = _watchdog_interval_s(environment) if address else None
        """How often `watchdog` wants to be called; None: never."""

    def ready(self, status: str) -> None:
        self._send(f"READY=1\nSTATUS={status}")

    def status(self, status: str) -> None:
        self._send(f"STATUS={status}")

    def extend_timeout(self, seconds: float) -> None:
        """Ask not to be taken for stuck in a start (or stop) for so long, from now on."""
        self._send(f"EXTEND_TIMEOUT_USEC={round(seconds * 1e6)}")

    def reloading(self) -> None:
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, status: str) -> None:
        self._send(f"STOPPING=1\nSTATUS={status}")

    def watchdog(self) -> None:
        self._send("WATCHDOG=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto(text.encode(), self._address)
        except OSError as error:  # systemd not hearing us is no reason to stop serving
            log.warning("systemd cannot be notified", error=str(error))


def _watchdog_interval_s(environment: Mapping[str, str]) -> float | None:
    """Return half of what systemd waits for a sign of life, as sd_watchdog_enabled(3) advises."""
    try:
        timeout_us = int(environment.get("WATCHDOG_USEC", ""))
        process = int(environment.get("WATCHDOG_PID", str(os.getpid())))
    except ValueError:
        return None
    return timeout_us / 2e6 if timeout_us > 0 and process == os.getpid() else None
