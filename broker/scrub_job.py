"""The scrubber's job: what runs in a worker process."""

from __future__ import annotations

from broker.storage.scrubbing import PoliteDisk, ScrubPlan, ScrubResult, Throttle, scrub_segment
from broker.worker_job import should_stop


def run_scrub_job(plan: ScrubPlan, bytes_per_second: int) -> ScrubResult:
    """Look at a segment, without haste.

    Errors as those of `scrub_segment`.
    """
    throttle = Throttle(bytes_per_second, should_stop)
    return scrub_segment(plan, PoliteDisk(throttle), throttle)
