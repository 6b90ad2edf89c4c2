"""Freed memory: glibc is told to keep some of it, because getting it anew costs a fault a page.

By default it gives back what is freed at the heap's end beyond 128 KB, and maps and unmaps blocks
above that one by one (both bounds move a little as it learns). A set of 500 KB that is converted
then costs 230 to 300 page faults, on the event loop, each time: an eighth of its CPU time.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

KEPT_BYTES: Final = 16 * 1024 * 1024
"""At the heap's end, more than a few requests free at once."""
MAPPED_BLOCK_BYTES_MIN: Final = 4 * 1024 * 1024
"""Blocks of this size on are mapped one by one still: they would leave large holes."""

M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
"""malloc.h of glibc; see mallopt(3)."""

OPERATORS_OWN: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
"""Variables by which an operator has said the same to glibc."""


def keep_freed_memory() -> bool:
    """Set it for the whole process; return False where it is left alone, as with other libcs."""
    if any(name in os.environ for name in OPERATORS_OWN):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    is_set = mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
    return bool(is_set and mallopt(M_MMAP_THRESHOLD, MAPPED_BLOCK_BYTES_MIN))
