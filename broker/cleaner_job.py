"""The cleaner's job: what runs in a worker process."""

from __future__ import annotations

from broker.clock import SystemClock
from broker.storage.compactor import CleaningJob, CleaningResult, clean_log
from broker.storage.os_disk import OsDisk
from broker.worker_job import progress, should_stop


def run_cleaning_job(job: CleaningJob) -> CleaningResult:
    """Clean a log once; each group of segments is told as progress, when it is durable.

    Errors as those of `clean_log`.
    """
    return clean_log(job, OsDisk(), SystemClock(), report=progress, should_stop=should_stop)
