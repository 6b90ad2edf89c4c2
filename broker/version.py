"""Version: what is running. The distribution takes its version from here (pyproject.toml).

Not the other way round: importlib.metadata, which knows what is installed, brings fifty modules
into the process, among them email, csv and zipfile; with crc32c's own use of it (see
`protocol.checksum`) that was a tenth of a start.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"


def version() -> str:
    """Return the version of this code."""
    return VERSION
