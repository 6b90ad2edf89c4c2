"""What was measured on: printed above every table."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path


def describe() -> str:
    """Return a few lines: processor, memory, kernel, Python, and the packages that matter."""
    packages = ", ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in ("tidelog", "uvloop", "crc32c", "zstandard", "lz4", "cramjam")
    )
    return (
        f"machine: {_processor()}, {os.cpu_count()} CPUs, {_memory_gib():.0f} GiB, "
        f"Linux {platform.release()}\n"
        f"Python {platform.python_version()}; {packages}"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
