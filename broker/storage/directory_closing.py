"""Directory closing: the end of a data directory's work, in steps that do not hold up a loop.

The order of a clean stop: logs flushed and closed; durable offsets; checkpoints; only then, when
all of it is durable, the clean marker; last, of every stop, the lock.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from broker.storage.deletion import rename_steps
from broker.storage.disk import Lock, replace_file
from protocol.stored import clean_shutdown
from protocol.stored.file_names import CLEAN_SHUTDOWN_MARKER

if TYPE_CHECKING:
    from broker.steps import Steps
    from broker.storage.log_directory import LogDirectory

LOGS_CLOSED_PER_STEP: Final = 8
"""A tenth of a millisecond each."""


def closing_steps(directory: LogDirectory, lock: Lock, *, clean: bool) -> Steps[None]:
    """Close all logs, some a step, and give the directory back; its jobs wait for the disk.

    Logs that were prepared and flushed (`PartitionLog.prepare_close`) wait for no disk here.

    Args:
        clean: Flush and checkpoint everything and leave the clean marker. Without, nothing is
            saved: the next start recovers.

    Raises:
        OSError: something could not be saved: there is no clean marker.
        StorageError: likewise.
    """
    context = directory.context
    try:
        if clean:
            for number, log in enumerate(directory.logs.values(), 1):
                log.close()
                if not number % LOGS_CLOSED_PER_STEP:
                    yield None
            while directory.note_touched():
                yield None
            task = directory.checkpoint_task()
            yield directory.durable_offsets.close  # log starts are durable here first
            yield task.run
            yield from rename_steps(context, task)
            marker = directory.path / CLEAN_SHUTDOWN_MARKER
            yield partial(replace_file, context.disk, marker, clean_shutdown.encode())
    finally:
        context.handles.close_all()
        lock.release()
