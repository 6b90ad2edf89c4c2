"""Worker: what a task does for the Python process that runs it."""

from __future__ import annotations

import gc
import sys

__all__ = ["freeze_modules"]

_frozen_modules = 0


def freeze_modules() -> None:
    """Leave all there is now out of garbage collections; call it behind what a task has imported.

    Spark's workers collect after each task, which with NumPy, Arrow and numba loaded takes 30 ms. A
    worker that serves one job after another imports more with each: then it is done again.
    """
    global _frozen_modules
    if len(sys.modules) > _frozen_modules:
        gc.collect()
        gc.freeze()
        _frozen_modules = len(sys.modules)
