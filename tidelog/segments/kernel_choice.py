"""KernelChoice: which of the two kernels works.

TIDELOG_KERNEL=numba or numpy decides; else numba is used where it is installed.
"""

from __future__ import annotations

import os
from functools import cache
from types import ModuleType
from typing import Final

from tidelog.segments.errors import OptionError

__all__ = ["chosen_kernel", "kernel_name"]

VARIABLE: Final = "TIDELOG_KERNEL"


@cache
def chosen_kernel() -> ModuleType:
    """Return the module; its import takes tenths of a second. OptionError: no such kernel."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "numba", "numpy"):
        raise OptionError(f"{VARIABLE} is {wanted!r}; it may be numba or numpy")
    if wanted != "numpy":
        try:
            from tidelog.segments import kernel_numba
        except ImportError:
            if wanted:
                raise
        else:
            return kernel_numba
    from tidelog.segments import kernel_numpy

    return kernel_numpy


def kernel_name() -> str:
    """Return `numba` or `numpy`."""
    return chosen_kernel().__name__.rpartition("_")[2]
