"""Ready file: tells whoever started the daemon that it serves, and where.

    {"pid": 17, "native": ["127.0.0.1:9091", "[::1]:9091"], "http": ["127.0.0.1:9644"]}

Written whole or not at all (a rename), so a reader that finds it can trust it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_ready_file(path: Path, addresses: Mapping[str, Sequence[str]]) -> None:
    """Write the process id and the bound addresses by protocol.

    Raises:
        OSError: the file cannot be written.
    """
    body = json.dumps({"pid": os.getpid(), **addresses}) + "\n"
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(body, encoding="utf-8")
    os.replace(temporary, path)


def remove_ready_file(path: Path) -> None:
    """Remove it, if it is there."""
    path.unlink(missing_ok=True)
