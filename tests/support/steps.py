"""Running the steps of a conversion to their end, and looking at how they were cut."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from broker.steps import Job, Steps

T = TypeVar("T")


class Ran(NamedTuple):
    """What steps came to."""

    result: object
    steps: int
    jobs: list[Job]


def run_steps(steps: Steps[T]) -> T:
    """Run all steps, jobs included; return the result."""
    return observe_steps(steps).result  # type: ignore[return-value]


def observe_steps(steps: Steps[T]) -> Ran:
    """Run all steps; return the result, the number of turns, and the jobs."""
    jobs: list[Job] = []
    count = 1
    while True:
        try:
            job = next(steps)
        except StopIteration as stop:
            return Ran(stop.value, count, jobs)
        count += 1
        if job is not None:
            jobs.append(job)
            job()
