"""RecoveryJob: recovers one log in a worker process."""

from __future__ import annotations

from typing import Final

from broker.clock import SystemClock
from broker.storage.log_plan import LogPlan, RecoveredFacts
from broker.storage.log_recovery import recover_log
from broker.storage.os_disk import ObservedDisk
from broker.storage.storage_options import StorageOptions
from broker.worker_job import JobStoppedError, progress, should_stop

REPORT_BYTES: Final = 16 * 1024 * 1024


def recover(options: StorageOptions, plan: LogPlan) -> RecoveredFacts:
    """Recover a log; its progress are the bytes that were read.

    Raises:
        StorageError, OSError: as `recover_log`.
        JobStoppedError: it was told to stop, and did between two reads of the walk.
    """
    read_bytes = reported_bytes = 0

    def observe(count: int) -> None:
        nonlocal read_bytes, reported_bytes
        if should_stop():
            raise JobStoppedError
        read_bytes += count
        if read_bytes - reported_bytes >= REPORT_BYTES:
            progress(read_bytes)
            reported_bytes = read_bytes

    return recover_log(ObservedDisk(observe), SystemClock(), options, plan)
