"""The garbage collector, kept from looking through what stays.

A partition is some hundred objects, which live as long as its topic. To look through those of a
thousand again and again, while they are made and whenever enough of them are new, holds the event
loop up for 50 to 200 ms at a time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PARTITIONS_MIN: Final = 64
"""Fewer are left to the collector."""
DELETED_MAX: Final = 2_000
"""Their memory, some tens of megabytes, may wait."""


class Collector:
    """Of the process, as far as partitions that come and go are concerned."""

    __slots__ = ("_deleted",)

    def __init__(self) -> None:
        self._deleted = 0

    @contextmanager
    def making(self, partitions: int) -> Iterator[None]:
        """Collect nothing while so many are made; then leave them, and all there is, alone."""
        if partitions < PARTITIONS_MIN or not gc.isenabled():
            yield
            return
        gc.disable()
        try:
            yield
            gc.freeze()
        finally:
            gc.enable()

    def deleted(self, partitions: int) -> None:
        """So many are gone. Some of their objects refer to each other: from time to time what was
        left alone is looked through once more, or they would stay for ever."""
        self._deleted += partitions
        if self._deleted >= DELETED_MAX:
            self._deleted = 0
            gc.unfreeze()
