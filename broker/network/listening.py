"""Listening sockets: from a host name and a port to sockets bound on every address family."""

from __future__ import annotations

import errno
import socket
from typing import Final

import structlog

from protocol.errors import ConfigError

log = structlog.get_logger("tidelog.network")

BACKLOG: Final = 1024
SAME_PORT_TRIES: Final = 16
EVERYWHERE: Final = "*"


def bind_all(host: str, port: int, setting: str) -> list[socket.socket]:
    """Bind and listen on every address that `host` names, IPv4 and IPv6, on one port.

    Args:
        host: A name or address; "*" is every interface; "localhost" is 127.0.0.1 and ::1
            (some clients resolve it to the one, some to the other).
        port: 0 takes a free one, the same on all addresses.
        setting: The configuration key of the port, for the error; beside it there is `host`.

    Raises:
        ConfigError: the name does not resolve, or no address of it can be bound.
    """
    host_setting = f"{setting.rpartition('.')[0]}.host"
    for _ in range(SAME_PORT_TRIES):
        sockets = _bind_addresses(_addresses(host, host_setting), port, setting)
        if sockets is not None:
            return sockets
    raise ConfigError(setting, f"found no free port common to all addresses of {host!r}")


def _addresses(host: str, setting: str) -> list[tuple[socket.AddressFamily, str]]:
    if host == EVERYWHERE:
        return [(socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")]  # noqa: S104 asked for
    if host == "localhost":
        return [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
    # Text goes through Python's "idna" codec, whose import takes 4 ms; ASCII needs it not.
    name = host.encode() if host.isascii() else host
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # UnicodeError: no name that DNS could hold
        raise ConfigError(setting, f"{host!r} does not resolve: {error}") from error
    unique = dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found)
    return [pair for pair in unique if pair[0] in (socket.AF_INET, socket.AF_INET6)]


def _bind_addresses(
    addresses: list[tuple[socket.AddressFamily, str]], port: int, setting: str
) -> list[socket.socket] | None:
    """Bind them all; None if a port that was free on the first is taken on another."""
    sockets: list[socket.socket] = []
    chosen, first_error = port, None
    for family, address in addresses:
        try:
            sockets.append(_listen(family, address, chosen))
        except OSError as error:
            if error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT):
                first_error = first_error or error  # a machine without IPv6, say
                continue
            for opened in sockets:
                opened.close()
            if error.errno == errno.EADDRINUSE and port == 0 and sockets:
                return None
            raise ConfigError(
                setting, f"cannot listen on {address} port {chosen}: {error.strerror}"
            ) from error
        chosen = int(sockets[-1].getsockname()[1])
    if not sockets:
        tried = ", ".join(address for _, address in addresses) or "no address"
        raise ConfigError(setting, f"cannot listen on {tried}: {first_error}")
    return sockets


def _listen(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    # With proto named, asyncio switches Nagle's algorithm off on what it accepts; without, every
    # small answer would wait 40 ms for the client's delayed acknowledgement.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.bind((address, port))
        opened.listen(BACKLOG)
        opened.setblocking(False)
    except OSError:
        opened.close()
        raise
    return opened


def address_text(opened: socket.socket) -> str:
    """Return "127.0.0.1:9091" or "[::1]:9091"."""
    address, port = opened.getsockname()[:2]
    return f"[{address}]:{port}" if opened.family == socket.AF_INET6 else f"{address}:{port}"
