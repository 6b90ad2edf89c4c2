"""Worker: what a task does once for the Python process that runs it."""

from __future__ import annotations

import gc

__all__ = ["freeze_modules"]

_is_frozen = False


def freeze_modules() -> None:
    """Leave all there is now out of garbage collections; call it behind the first decoded batch.

    Spark's workers collect after each task, which with NumPy, Arrow and numba loaded takes 30 ms.
    """
    global _is_frozen
    if not _is_frozen:
        gc.collect()
        gc.freeze()
        _is_frozen = True
