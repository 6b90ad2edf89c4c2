"""Ready file: tells whoever started the daemon that it serves, and where.

    {"pid": 17, "native_port": 9091, "native": ["127.0.0.1:9091", "[::1]:9091"],
     "http_port": 9644, "http": ["127.0.0.1:9644", "[::1]:9644"]}

A port is 0 where nothing is listened on.
Written whole or not at all (a rename), so a reader that finds it can trust it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_ready_file(path: Path, addresses: Mapping[str, Sequence[str]]) -> None:
    """Write the process id and the bound addresses ("127.0.0.1:9091") by protocol.

    Raises:
        OSError: the file cannot be written.
    """
    body: dict[str, object] = {"pid": os.getpid()}
    for protocol, bound in addresses.items():
        body[f"{protocol}_port"] = int(bound[0].rpartition(":")[2]) if bound else 0
        body[protocol] = list(bound)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(body) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def remove_ready_file(path: Path) -> None:
    """Remove it, if it is there."""
    path.unlink(missing_ok=True)
