"""What was measured on: printed above every table."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import struct
import time
import zlib
from pathlib import Path
from typing import Final

FIXED_BYTES: Final = bytes(range(256)) * 256
FIXED_STEPS: Final = 20_000
UNPACK: Final = struct.Struct("<HxBHBH").unpack_from


def fixed_work_s() -> float:
    """Return the CPU time of a fixed piece of work: how slow the machine is just now.

    A virtual CPU shares its core with strangers, so a second of CPU time is worth more at one time
    than at another, by 1.8 where this was measured. The work is like the broker's: unpack, slice,
    checksum.
    """
    started_s = time.thread_time()
    position = 0
    for _ in range(FIXED_STEPS):
        UNPACK(FIXED_BYTES, position)
        zlib.crc32(FIXED_BYTES[position + 9 : position + 209])
        position = (position + 210) % 60_000
    return time.thread_time() - started_s


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
