"""Numbers of index files: runs of big-endian, signed words of 32 bits, as arrays."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence

assert array("i").itemsize == 4
assert array("q").itemsize == 8


def words(data: bytes) -> array[int]:
    """Return big-endian signed 32-bit words as numbers."""
    result = array("i")
    result.frombytes(data)
    if sys.byteorder == "little":
        result.byteswap()
    return result


def words_to_bytes(numbers: Sequence[int]) -> bytes:
    """Return the numbers as big-endian signed 32-bit words."""
    result = array("i", numbers)
    if sys.byteorder == "little":
        result.byteswap()
    return result.tobytes()
