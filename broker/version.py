"""Version: what is running, as its distribution says."""

from __future__ import annotations

import importlib.metadata

DISTRIBUTION = "tidelog"


def version() -> str:
    """Return the version of the installed distribution; "unknown" in a bare source tree."""
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
