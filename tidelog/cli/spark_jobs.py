"""Spark jobs: what the commands of `tidelog spark` have in common: a session, progress, a result.

A command is three lines: it imports its job, makes the job's options, and calls `run_job`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import typer

from tidelog.cli import output
from tidelog.cli.errors import TRACEBACK_VARIABLE, CommandError, ExitCode
from tidelog.cli.spark_options import CommonOptions
from tidelog.cli.spark_progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.spark.jobs.job import Job, JobResult

__all__ = ["cause_of", "run_job"]

Options = TypeVar("Options")

OURS: Final = ("tidelog.", "protocol.")
"""Errors of these modules are sentences of their own; of others the type is told, too."""
TRACEBACK_BEGIN: Final = "Traceback (most recent call last):"


def run_job(
    name: str,
    run: Callable[[Options, Job], JobResult],
    options: Options,
    common: CommonOptions,
    *,
    goes_on: bool = False,
) -> None:
    """Run a job, write its result, and end the command with its exit code.

    The result is written as a table and a sentence, or with --json as one line of JSON.

    Args:
        goes_on: Run again after it was stopped, it does the rest, and the user is told so.

    Raises:
        CommandError: Spark failed, or a signal came. What the job itself raises goes through.
    """
    from tidelog.spark.jobs.job import Job

    sessions = _Sessions(name, common)
    progress = Progress(name)
    job = Job(
        name,
        sessions.make,
        is_dry_run=common.is_dry_run,
        on_progress=progress,
        metrics_file=common.metrics_file,
    )
    try:
        with _sigterm_as_ctrl_c(), _spark_failures():
            result = run(options, job)
    except KeyboardInterrupt as error:
        is_sigterm = isinstance(error, _SigtermError)
        raise CommandError(
            "stopped; the same command goes on where it was" if goes_on else "",
            ExitCode.TERMINATED if is_sigterm else ExitCode.INTERRUPTED,
        ) from error
    finally:
        progress.end()
        sessions.stop()
    _write(result, as_json=common.as_json)
    raise typer.Exit(ExitCode.DONE if result.is_ok else ExitCode.FAILED)


def _write(result: JobResult, *, as_json: bool) -> None:
    if as_json:
        output.write_line(msgspec.json.encode(result).decode())
        return
    rows = result.rows()
    if rows:
        columns = list(rows[0])
        output.write_table(
            [column.replace("_", " ") for column in columns],
            [[row[column] for column in columns] for row in rows],
        )
    output.say(result.sentence())


class _Sessions:
    """The session of one command, made when the job asks for it."""

    def __init__(self, job: str, common: CommonOptions) -> None:
        self._app_name, self._common = f"tidelog {job}", common
        self._made: SparkSession | None = None

    def make(self) -> SparkSession:
        from pyspark.sql import SparkSession

        from tidelog.spark.quiet_java import quiet_java
        from tidelog.spark.session import session

        is_new = SparkSession.getActiveSession() is None
        conf = self._common.spark_conf
        with quiet_java() if not os.environ.get(TRACEBACK_VARIABLE) else nullcontext():
            made = session(self._app_name, self._common.master, conf)
        if is_new:
            self._made = made
        return made

    def stop(self) -> None:
        """Stop it, unless it was there before."""
        if self._made is not None:
            self._made.stop()


class _SigtermError(KeyboardInterrupt):
    """SIGTERM came."""


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Have SIGTERM unwind what is done, as Ctrl-C does, where the command does not take it itself.

    Else Java's and our temporary files would stay.
    """

    def stop(number: int, frame: object) -> None:
        raise _SigtermError

    before = signal.getsignal(signal.SIGTERM)
    if before is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _spark_failures() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE) or not _is_of_spark(error):
            raise
        raise CommandError(cause_of(str(error))) from error


def _is_of_spark(error: BaseException) -> bool:
    root = type(error).__module__.partition(".")[0]
    return root in ("pyspark", "py4j")


def cause_of(text: str) -> str:
    """Return the sentence that matters in what Spark says about a failure.

    That is the Python error of a task or of a data source, if there is one: the last line of the
    last traceback. Else it is the last of Java's causes.
    """
    _, found, rest = text.rpartition(TRACEBACK_BEGIN)
    lines = rest.splitlines()
    if found:
        raised = next((line for line in lines if line and not line[0].isspace()), "")
        kind, _, message = raised.partition(": ")
        if message and kind.startswith(OURS):
            return message
        return f"a task of Spark failed: {raised}"
    causes = [line for line in lines if line.startswith("Caused by: ")]
    last = causes[-1] if causes else lines[0] if lines else "it does not say why"
    return f"Spark failed: {last.removeprefix('Caused by: ')}"
