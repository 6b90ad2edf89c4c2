"""Deletion: what becomes of deleted segments, over all logs of a data directory (R39).

In pieces, because there may be thousands of them, and what has their files open lives on the event
loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.storage.checkpoint import CheckpointTask
    from broker.storage.log_context import LogContext

CLOSED_SEGMENTS_MAX: Final = 16
"""In one go: their files are closed on the event loop, some tens of microseconds each."""


def rename_steps(context: LogContext, checkpoint: CheckpointTask) -> Iterator[None]:
    """Rename the deleted segments below log starts that will outlive a crash, one a step.

    Args:
        checkpoint: It has run. If it could not be written, one segment of each log goes all the
            same: on a full disk, deleting has to go on.
    """
    for trimmer in list(context.deleting):
        while trimmer.rename_deleted(checkpoint):
            yield
            if not checkpoint.is_written:
                break


def due_files(context: LogContext, now: float) -> list[Path]:
    """Close deleted segments whose time has come; return their files, to be unlinked.

    Args:
        now: Of the monotonic clock.

    Returns:
        Of some segments, where many are due.
    """
    paths: list[Path] = []
    left = CLOSED_SEGMENTS_MAX
    for trimmer in context.deleting:
        if trimmer.deleted and left > 0:
            taken, its_paths = trimmer.deleted.take_due(now, left)
            left -= taken
            paths += its_paths
    return paths
