"""CRC-32 and CRC-32C: crcmod defines them, zlib and the crc32c package compute them.

crcmod holds the interpreter lock for milliseconds per megabyte, so it is the measure only: the
self-test at start-up and the tests hold the fast functions against it.

    CRC-32   polynomial 0x104C11DB7: legacy and simple message formats
    CRC-32C  polynomial 0x11EDC6F41: record batches (RFC 3720)

Both are reflected, with init and xor-out 0xFFFFFFFF.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Final, cast
from zlib import crc32

__all__ = ["CRC32C_CHECK", "CRC32_CHECK", "CRC_BYTES", "crc32", "crc32c", "self_test"]

CRC_BYTES: Final = 4

CHECK_INPUT: Final = b"123456789"
CRC32_CHECK: Final = 0xCBF43926
"""CRC-32 of b"123456789", from the catalogue of parametrised CRC algorithms."""
CRC32C_CHECK: Final = 0xE3069283
"""CRC-32C of b"123456789", from the same catalogue and RFC 3720, B.4."""

SELF_TEST_SIZES_BYTES: Final = (0, 1, 3, 8, 61, 255, 1024, 4099)
"""Around the borders where fast implementations change their loop; odd sizes catch tails."""


def _load_crc32c() -> Callable[..., int]:
    """Return the function of the crc32c package without what its `__init__` brings along.

    That asks importlib.metadata for the package's own version, and so for fifty modules more, among
    them email, csv and zipfile: a tenth of the daemon's start, and of every short command.
    """
    package = PathFinder.find_spec("crc32c")
    if package is not None:
        spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            extension = module_from_spec(spec)
            spec.loader.exec_module(extension)
            return cast(Callable[..., int], extension.crc32c)
    from crc32c import crc32c  # another layout than that of 2.7 to 2.9: the long way

    return cast(Callable[..., int], crc32c)


crc32c: Final = _load_crc32c()


def self_test() -> None:
    """Check the fast functions against crcmod's predefined ones and the published check values.

    Takes about a millisecond. A wrong build of a library would otherwise make every file of this
    broker unreadable to all others, silently.

    Raises:
        RuntimeError: a fast function gives another value than its definition.
    """
    from crcmod.predefined import mkPredefinedCrcFun  # here, because only this function needs it

    table = (
        ("crc-32", crc32, CRC32_CHECK),
        ("crc-32c", crc32c, CRC32C_CHECK),
    )
    for name, fast, check in table:
        defined = mkPredefinedCrcFun(name)
        if not fast(CHECK_INPUT) == defined(CHECK_INPUT) == check:
            raise RuntimeError(f"{name}: the check value is not {check:#010x}")
        pattern = bytes(i * 167 & 0xFF for i in range(256)) * 17
        for size in SELF_TEST_SIZES_BYTES:
            data = memoryview(pattern)[1 : 1 + size]  # off the natural alignment
            if fast(data) != defined(data):
                raise RuntimeError(f"{name}: wrong over {size} bytes")
            half = size // 2
            if fast(data[half:], fast(data[:half])) != defined(data):
                raise RuntimeError(f"{name}: wrong over {size} bytes in two pieces")
