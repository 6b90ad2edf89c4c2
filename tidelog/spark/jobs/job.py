"""Job: what every job is given: a session when it needs one, and somewhere to tell what it does.

A job is a function `run(options, job)` that returns a result and prints nothing: the command line,
a notebook and a test each have their own way to show progress.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Job", "JobError", "JobResult"]


class JobError(Exception):
    """A job that cannot be done: one sentence that says what to do about it."""


class JobResult(Protocol):
    """What a job comes to: a msgspec struct, so that --json can write it as it is."""

    def rows(self) -> Sequence[Mapping[str, object]]:
        """Return the table for people: column names to cells, the same names in each row."""

    def sentence(self) -> str:
        """Return what was done, in one line below the table."""

    @property
    def is_ok(self) -> bool:
        """False ends the command with exit code 1: it found something, or a limit was passed."""


class Job:
    """One run of one job."""

    def __init__(
        self,
        name: str,
        session: Callable[[], SparkSession],
        *,
        is_dry_run: bool = False,
        on_progress: Callable[[str, int, int | None], object] = lambda what, done, total: None,
        metrics_file: Path | None = None,
    ) -> None:
        """Args:
        session: Makes or returns the Spark session; asked for when the first task is due.
        is_dry_run: Say what would be done, and change nothing.
        on_progress: Told of (what is counted, how many are done, of how many; None: unknown).
        metrics_file: Where figures go for Prometheus' textfile collector, whole at any time.
        """
        self.name, self.is_dry_run = name, is_dry_run
        self._make_session = session
        self._session: SparkSession | None = None
        self._on_progress, self._metrics_file = on_progress, metrics_file
        self._registry = CollectorRegistry()
        self._gauges: dict[str, Gauge] = {}

    @property
    def session(self) -> Any:
        """The Spark session."""
        if self._session is None:
            self._session = self._make_session()
        return self._session

    def progress(self, what: str, done: int, total: int | None = None) -> None:
        """Tell how far it is; `what` is what is counted, such as `files`."""
        self._on_progress(what, done, total)
        self.metric(f"{what}_done", done, f"{what.capitalize()} done so far.")

    def metric(self, name: str, value: float, text: str) -> None:
        """Set `tidelog_spark_<job>_<name>`."""
        full = f"tidelog_spark_{self.name}_{name}"
        if full not in self._gauges:
            self._gauges[full] = Gauge(full, text, registry=self._registry)
        self._gauges[full].set(value)
        if self._metrics_file is not None:
            write_to_textfile(str(self._metrics_file), self._registry)
