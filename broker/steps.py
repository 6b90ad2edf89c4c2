"""Steps: long work as a generator, so that who runs it can do other things in between.

Each step takes about a millisecond and then yields either None (go on when it suits) or a job that
holds up nothing but itself, such as decompressing a large batch: a call that may be made in a
thread before going on. An error of the job is raised where it was yielded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")

Job: TypeAlias = Callable[[], Any]
Steps: TypeAlias = Generator[Job | None, None, T]

SLICE_MESSAGES: Final = 1_000
"""Of tiny messages it is their number that costs: so many to a step."""


def run_to_end(steps: Steps[T]) -> T:
    """Run all steps and jobs, one after the other, here and now; return the result."""
    failure: Exception | None = None
    while True:
        try:
            job = next(steps) if failure is None else steps.throw(failure)
        except StopIteration as stop:
            result: T = stop.value
            return result
        failure = None
        if job is not None:
            try:
                job()
            except Exception as error:
                failure = error
