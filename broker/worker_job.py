"""What a job says and asks while it runs: `progress` and `should_stop`.

A job is a function that a `worker.WorkerPool` runs in another process (or an `InlineWorker` in this
one). This module imports nothing, so that a job's module stays quick to import; where no job runs,
progress goes nowhere and nothing asks to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class JobStoppedError(Exception):
    """Raised by a job that has no result yet and was told to stop."""


Report = Callable[[Any], object]
Ask = Callable[[], bool]


def _nobody(_value: Any) -> None:
    pass


def _never() -> bool:
    return False


_report: Report = _nobody
_ask: Ask = _never


def progress(value: object) -> None:
    """Tell whoever started the job how far it is: anything picklable, some times a second."""
    _report(value)


def should_stop() -> bool:
    """Whether the job should end soon, with what it has: cheap, to be asked often."""
    return _ask()


def connect(report: Report | None, ask: Ask | None) -> tuple[Report, Ask]:
    """Set where progress goes and who is asked (None: nobody); return what was set before."""
    global _report, _ask
    before = _report, _ask
    _report, _ask = report or _nobody, ask or _never
    return before
