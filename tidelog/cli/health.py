"""`tidelog health`: asks a broker whether it is well, for HEALTHCHECK lines; the image has no curl.

It is run every few seconds, so it imports little: argparse, and HTTP by hand over a socket.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Final

DEFAULT_HOST: Final = "localhost"
DEFAULT_PORT: Final = 9644
ANSWER_BYTES_MAX: Final = 1024 * 1024
EVERY_ADDRESS: Final = ("", "*", "0.0.0.0", "::")  # noqa: S104 (what is listened on, not by us)

DESCRIPTION: Final = (
    "Ask the broker's HTTP port whether it is ready to serve clients. "
    "Exit code 0: it is; 1: it is not, or does not answer."
)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    made = argparse.ArgumentParser(
        prog="tidelog health",
        description=DESCRIPTION,
        epilog='example: HEALTHCHECK CMD ["tidelog", "health"]',
    )
    made.add_argument(
        "--url",
        metavar="URL",
        help="where the broker's HTTP port is (default: http://localhost:9644, or what "
        "TIDELOG__HTTP__HOST and TIDELOG__HTTP__PORT say)",
    )
    made.add_argument(
        "--live",
        action="store_true",
        help="ask only whether the process is alive (/healthz), not whether it is ready (/readyz)",
    )
    made.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        default=4.0,
        help="how long the answer may take (default: 4)",
    )
    made.add_argument("--json", action="store_true", help="write the broker's answer as JSON")
    return made


def health(arguments: Sequence[str]) -> int:
    """Ask, write what the broker says, and return the exit code."""
    options = parser().parse_args(list(arguments))
    try:
        host, port = http_address(options.url, os.environ)
    except ValueError as error:
        parser().error(str(error))
    path = "/healthz" if options.live else "/readyz"
    try:
        status, body = _get(host, port, path, options.timeout)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        sys.stderr.write(f"tidelog: {host}:{port} does not answer: {reason}\n")
        return 1
    sys.stdout.write((json.dumps(body) if options.json else _sentence(body)) + "\n")
    return 0 if status == 200 else 1


def http_address(url: str | None, environment: Mapping[str, str]) -> tuple[str, int]:
    """Return host and port of a URL; without one, of the broker with this environment."""
    if url is None:
        host = environment.get("TIDELOG__HTTP__HOST", DEFAULT_HOST)
        host = DEFAULT_HOST if host in EVERY_ADDRESS else host
        text = environment.get("TIDELOG__HTTP__PORT", str(DEFAULT_PORT))
        shown = f"TIDELOG__HTTP__PORT={text}"
    else:
        shown = url
        scheme, separator, rest = url.rpartition("://")
        if separator and scheme != "http":
            raise ValueError(f"{url}: only http:// is spoken here")
        host, _, text = rest.partition("/")[0].rpartition(":")
        if not host or (":" in host and not host.startswith("[")):
            host, text = rest.partition("/")[0], str(DEFAULT_PORT)
        host = host.strip("[]")
    if not text.isdigit() or not 1 <= int(text) <= 65_535:
        raise ValueError(f"{shown}: the port must be a number from 1 to 65535")
    return host, int(text)


def _get(host: str, port: int, path: str, timeout_s: float) -> tuple[int, object]:
    """Return status and body. HTTP/1.0: the answer ends where the connection does.

    Raises:
        OSError: no connection, or no answer in time.
        ValueError: an answer that is not a broker's.
    """
    with socket.create_connection((host, port), timeout_s) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n".encode())
        answer = b""
        while piece := connection.recv(64 * 1024):
            answer += piece
            if len(answer) > ANSWER_BYTES_MAX:
                raise ValueError("its answer has no end")
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if not head.startswith(b"HTTP/") or len(words) < 2 or not words[1].isdigit():
        raise ValueError("what answers there does not speak HTTP")
    try:
        return int(words[1]), json.loads(body)
    except ValueError:
        raise ValueError("what answers there is no Tidelog broker") from None


def _sentence(body: object) -> str:
    """Return e.g. "ready", "recovering: 3 of 8 partitions" or "ready, degraded: ..."."""
    if not isinstance(body, dict):
        return str(body)
    text = str(body.get("status", "unknown"))
    if body.get("reason"):
        text += f": {body['reason']}"
    if body.get("degraded"):
        text += f", degraded: {'; '.join(map(str, body['degraded']))}"
    return text
