"""KernelSyncs: files synced by the kernel while the event loop goes on (`KernelAio`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from broker.storage.kernel_aio import KernelAio

if TYPE_CHECKING:
    import asyncio

_log = structlog.get_logger("tidelog.flusher")

SYNCS_MAX: Final = 256
"""At a time; the machine has 65,536 for all its processes, unless it is set otherwise."""


class Aio(Protocol):
    """What is needed of a `KernelAio`."""

    event_descriptor: int
    requests_max: int

    def begin(self, descriptors: Sequence[int]) -> int: ...
    def ended(self) -> list[int]: ...
    def close(self) -> None: ...


class KernelSyncs:
    """One round of syncs at a time, on one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, aio: Aio) -> None:
        self._loop = loop
        self._aio: Aio | None = aio
        self._under_way = 0
        self._error: OSError | None = None
        self._on_ended: Callable[[OSError | None], object] = lambda error: None
        loop.add_reader(aio.event_descriptor, self._collect)

    @classmethod
    def opened(cls, loop: asyncio.AbstractEventLoop) -> KernelSyncs | None:
        """Return syncs by this machine's kernel; None where it offers none: threads do it then."""
        try:
            return cls(loop, KernelAio(SYNCS_MAX))
        except OSError as error:
            _log.info("files are synced in threads: no Linux AIO", reason=error.strerror)
            return None

    def begin(
        self, descriptors: Sequence[int], on_ended: Callable[[OSError | None], object]
    ) -> int:
        """Start to sync open files; return how many of them, the first: the others are not begun.

        Args:
            on_ended: Called on the loop when all that were begun have ended, with the first error;
                an error is that of a sync: final. Not called if none was begun.
        """
        if self._aio is None:
            return 0
        assert not self._under_way, "a round is under way"
        try:
            self._under_way = self._aio.begin(descriptors[: self._aio.requests_max])
        except OSError as error:
            # No sync has failed, for none was begun. Older kernels know no syncs here (before
            # 4.18), and a filter of system calls may show itself only now.
            _log.info("files are synced in threads from now on", reason=error.strerror)
            self.close()
            return 0
        self._error, self._on_ended = None, on_ended
        return self._under_way

    def _collect(self) -> None:
        if self._aio is None:
            return
        try:
            results = self._aio.ended()
        except OSError as error:  # nobody will ever know how they went: as final as a failed sync
            self._under_way = 0
            self._on_ended(error)
            return
        for number in results:
            if number and self._error is None:
                self._error = OSError(number, os.strerror(number))
        self._under_way -= len(results)
        if results and not self._under_way:
            self._on_ended(self._error)

    def close(self) -> None:
        """Begin nothing any more; a second call does nothing."""
        if self._aio is None:
            return
        self._loop.remove_reader(self._aio.event_descriptor)
        if not self._under_way:  # else it would wait for a disk that may be stuck
            self._aio.close()
        self._aio = None
