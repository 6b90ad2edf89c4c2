"""Advertised address: what Kafka clients are told to connect to, after they have once connected.

The first address a client uses is in its own configuration; all others it learns from the broker. A
broker cannot know how it looks from outside, so what it says is the first thing that goes wrong.
"""

from __future__ import annotations

import re
import socket
from typing import NamedTuple

from protocol.errors import ConfigError

KEY = "listeners.kafka_advertised"
EVERYWHERE = frozenset({"*", "0.0.0.0", "::"})  # noqa: S104 - compared with, not bound
NAME = re.compile(r"[\w.-]+")
"""A host name or an IPv4 address, as far as letters go: no URL, and no list of addresses."""


class Advertised(NamedTuple):
    """Host and port that clients are told, and what may be wrong with them."""

    host: str
    port: int
    doubt: str | None = None
    """A sentence for the operator."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def advertised_address(setting: str, listen_host: str, port: int) -> Advertised:
    """Return what to tell clients.

    Args:
        setting: `host`, `host:port` or `[address]:port`; empty: the host that is listened on, and
            where that is every interface, this machine's name.
        port: The one that is listened on, told unless the setting names another.

    Raises:
        ConfigError: the setting is no address.
    """
    if setting:
        host, port = _parse(setting, port)
        return Advertised(host, port, _doubt(host, listen_host))
    if listen_host not in EVERYWHERE:
        return Advertised(listen_host, port)
    host = socket.gethostname()
    doubt = (
        f"Kafka clients are told to connect to {host}:{port}, this machine's name: where they"
        f" cannot resolve it, set {KEY} to an address that they can reach"
    )
    return Advertised(host, port, doubt)


def _doubt(host: str, listen_host: str) -> str | None:
    if _is_loopback(host) and not _is_loopback(listen_host):
        return (
            f"Kafka clients are told to connect to {host}, which is their own machine for all that"
            f" are not on this one: set {KEY} to an address that they can reach"
        )
    if _is_loopback(listen_host) and not _is_loopback(host):
        return (
            f"Kafka clients are told to connect to {host}, but only this machine is listened to:"
            ' unless something passes connections on, set listeners.host to that address or "*"'
        )
    return None


def _is_loopback(host: str) -> bool:
    return host.lower() in ("localhost", "::1") or host.startswith("127.")


def _parse(setting: str, port: int) -> tuple[str, int]:
    host, separator, number = setting.rpartition(":")
    if not separator or setting.endswith("]") or _is_ipv6(setting):
        host, number = setting, str(port)
    if host.startswith("[") and host.endswith("]") and _is_ipv6(host[1:-1]):
        host = host[1:-1]
    is_host = _is_ipv6(host) or NAME.fullmatch(host)
    if not is_host or host in EVERYWHERE or not number.isascii() or not number.isdigit():
        raise ConfigError(
            KEY, f"{setting!r} is no address of one host; say for example kafka.example.com:9092"
        )
    if not 0 < int(number) < 65_536:
        raise ConfigError(KEY, f"{number} is no port")
    return host, int(number)


def _is_ipv6(text: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET6, text.partition("%")[0])
    except (OSError, ValueError):  # ValueError: a zero byte
        return False
    return True
