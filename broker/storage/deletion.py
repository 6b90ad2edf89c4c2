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

UNLINKED_FILES_MAX: Final = 256
"""In one task, or some more: their segments are closed on the event loop."""

RENAMED_SEGMENTS_PER_STEP: Final = 16
"""Some tens of microseconds each."""


def rename_steps(context: LogContext, checkpoint: CheckpointTask) -> Iterator[None]:
    """Rename the deleted segments below log starts that will outlive a crash, step by step.

    Args:
        checkpoint: It has run. If it could not be written, one segment of each log goes all the
            same: on a full disk, deleting has to go on.
    """
    left = RENAMED_SEGMENTS_PER_STEP
    for trimmer in list(context.deleting):
        while renamed := trimmer.rename_deleted(checkpoint, left):
            left -= renamed
            if left <= 0:
                left = RENAMED_SEGMENTS_PER_STEP
                yield
            if not checkpoint.is_written:
                break


def due_files(context: LogContext, now: float) -> list[Path]:
    """Close deleted segments whose time has come; return their files, to be unlinked.

    Args:
        now: Of the monotonic clock.

    Returns:
        Not all of them where they are very many.
    """
    paths: list[Path] = []
    for trimmer in context.deleting:
        if len(paths) >= UNLINKED_FILES_MAX:
            break
        if trimmer.deleted:
            paths += trimmer.deleted.take_due(now)
    return paths
