"""Spark jobs: what all their commands do alike. No Spark here: the jobs are made up."""

import io
import os
import signal
import sys
from pathlib import Path

import msgspec
import pytest
import typer
from pyspark.errors import PySparkException

from tests.support.command_line import call
from tidelog.cli import spark_jobs
from tidelog.cli.errors import CommandError, ExitCode, explained
from tidelog.cli.spark_options import CommonOptions
from tidelog.cli.spark_progress import Progress
from tidelog.segments.errors import DataLossError, OptionError
from tidelog.spark.errors import BrokerUnreachableError, JavaMissingError
from tidelog.spark.jobs.job import JobError
from tidelog.spark.quiet_java import quiet_java


class Found(msgspec.Struct):
    """What the made-up job comes to."""

    faults: int = 0
    lines: list[dict[str, object]] = []

    def rows(self):
        return self.lines

    def sentence(self):
        return f"{self.faults} faults"

    @property
    def is_ok(self):
        return self.faults == 0


def ended(run, common=CommonOptions()):  # noqa: B008
    with pytest.raises(typer.Exit) as end:
        spark_jobs.run_job("look", run, None, common)
    return end.value.exit_code


def test_given_a_result_when_written_then_as_a_table_with_a_sentence_below(capsys):
    code = ended(lambda options, job: Found(lines=[{"first_offset": 7, "topic": "logs"}]))

    written = capsys.readouterr()
    assert (code, written.out) == (0, "FIRST OFFSET  TOPIC\n           7  logs\n")
    assert written.err == "tidelog: 0 faults\n"


def test_given_a_result_that_is_not_well_when_written_as_json_then_one_line_and_code_1(capsys):
    code = ended(lambda options, job: Found(3), CommonOptions(as_json=True))

    assert (code, capsys.readouterr().out) == (1, '{"faults":3,"lines":[]}\n')


def test_given_a_dry_run_and_a_metrics_file_when_run_then_the_job_knows_and_writes(tmp_path):
    seen = []

    def run(options, job):
        seen.append(job.is_dry_run)
        job.progress("files", 2, 3)
        return Found()

    ended(run, CommonOptions(is_dry_run=True, metrics_file=tmp_path / "job.prom"))

    assert seen == [True]
    assert "tidelog_spark_look_files_done 2.0" in (tmp_path / "job.prom").read_text()


@pytest.mark.parametrize("code", [JobError("no"), OptionError("no"), CommandError("no")])
def test_given_an_error_of_the_job_when_it_ends_then_it_goes_through(code):
    def run(options, job):
        raise code

    with pytest.raises(type(code), match=r"^no$"):
        spark_jobs.run_job("look", run, None, CommonOptions())


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)],
)
@pytest.mark.parametrize(
    ("goes_on", "sentence"), [(True, "stopped; the same command goes on where it was"), (False, "")]
)
def test_given_a_signal_when_a_job_runs_then_it_is_unwound_and_what_to_do_is_said(
    number, code, goes_on, sentence
):
    before, unwound = signal.getsignal(signal.SIGTERM), []

    def run(options, job):
        try:
            signal.raise_signal(number)
        finally:
            unwound.append(True)

    with pytest.raises(CommandError) as raised:
        spark_jobs.run_job("look", run, None, CommonOptions(), goes_on=goes_on)

    assert (raised.value.message, raised.value.code, unwound) == (sentence, code, [True])
    assert signal.getsignal(signal.SIGTERM) is before


TASK = """\
An error occurred while calling o55.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 \
times, most recent failure: Lost task 0.0: org.apache.spark.api.python.PythonException: \
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
{raised}

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
{raised}

\tat org.apache.spark.scheduler.Task.run(Task.scala:1)
\t... 1 more
"""
JAVA = """\
org.apache.spark.SparkException: Job aborted
\tat x.y(Z.scala:1)
Caused by: java.io.IOException: No space left on device
\t... 1 more
"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            TASK.format(raised="tidelog.segments.errors.DataLossError: offsets 0 to 9 are gone"),
            "offsets 0 to 9 are gone",
        ),
        (TASK.format(raised="ValueError: 5: no"), "a task of Spark failed: ValueError: 5: no"),
        (TASK.format(raised="MemoryError"), "a task of Spark failed: MemoryError"),
        (
            JAVA,
            "Spark failed: java.io.IOException: No space left on device",
        ),
        ("[NO_TABLE] There is no x.", "Spark failed: [NO_TABLE] There is no x."),
        ("", "Spark failed: it does not say why"),
    ],
)  # fmt: skip
def test_given_what_spark_says_when_boiled_down_then_its_cause_remains(text, sentence):
    assert spark_jobs.cause_of(text) == sentence


def test_given_a_failure_of_spark_when_the_job_ends_then_it_is_one_sentence():
    def run(options, job):
        raise PySparkException(TASK.format(raised="ValueError: no"))

    with pytest.raises(CommandError, match=r"^a task of Spark failed: ValueError: no$"):
        spark_jobs.run_job("look", run, None, CommonOptions())


def test_given_a_java_that_ends_at_once_when_started_then_its_first_words_are_told():
    def start():
        os.write(2, b"WARNING: x\nError: Could not find or load main class Nonsense\nError: b\n")
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited")

    with pytest.raises(JobError) as raised, quiet_java():
        start()

    assert str(raised.value) == (
        "Spark's Java did not start: Error: Could not find or load main class Nonsense"
    )


@pytest.mark.parametrize(
    ("error", "sentence", "code"),
    [
        (JobError("the lake is of another topic"), "the lake is of another topic", 1),
        (DataLossError("offsets 0 to 9 are gone"), "offsets 0 to 9 are gone", 1),
        (OptionError("there is no option x"), "there is no option x", ExitCode.USAGE),
        (
            BrokerUnreachableError("h:1", 30.0, "refused"),
            "no broker answered at h:1 for 30 s: refused",
            ExitCode.UNREACHABLE,
        ),
        (
            ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql"),
            "this needs pyspark, which is not installed: pip install 'tidelog[spark]'",
            1,
        ),
    ],
)
def test_given_an_error_of_the_pipeline_when_explained_then_a_sentence_and_a_code(
    error, sentence, code
):
    assert explained(error) == (sentence, code)


def test_given_a_module_of_nobodys_when_missing_then_it_is_a_bug():
    assert explained(ModuleNotFoundError("No module named 'x'", name="x")) is None


def test_given_no_java_when_explained_then_the_sentence_says_where_it_was_looked_for():
    sentence, code = explained(JavaMissingError(17, ["/usr/bin/java is Java 8"]))

    assert code == 1
    assert "Java 17 or newer" in sentence
    assert "/usr/bin/java is Java 8" in sentence


@pytest.mark.parametrize("pair", ["spark.executor.memory", "executor.memory=1g"])
def test_given_a_setting_that_is_none_of_sparks_when_given_then_the_usage_is_explained(pair):
    done = call("spark", "lag", "nowhere", "--conf", pair)

    assert done.code == ExitCode.USAGE
    assert f"--conf {pair}: write KEY=VALUE" in done.errors


def test_given_settings_when_read_then_the_later_one_of_a_name_wins():
    common = CommonOptions.of(None, ["spark.a=1=2", "spark.b=x", "spark.b=y"], False, False, None)

    assert common.spark_conf == {"spark.a": "1=2", "spark.b": "y"}


def told(monkeypatch, calls, *, is_terminal):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    now = [0.0]
    progress = Progress("look", is_terminal=is_terminal, clock=lambda: now[0])
    for now[0], *what in calls:
        progress(*what)
    progress.end()
    return sys.stderr.getvalue()


def test_given_a_file_when_progress_is_told_then_plain_lines_and_not_too_many(monkeypatch):
    calls = [
        (0.0, "files", 1, 4000), (0.1, "files", 2, 4000), (0.2, "records", 9, None),
        (6.0, "files", 3000, 4000), (6.1, "files", 4000, 4000), (20.0, "files", 4000, 4000),
    ]  # fmt: skip

    text = told(monkeypatch, calls, is_terminal=False)

    assert text.splitlines() == [
        "tidelog: look: 1 of 4,000 files",
        "tidelog: look: 9 records",
        "tidelog: look: 3,000 of 4,000 files",
        "tidelog: look: 4,000 of 4,000 files",
    ]


def test_given_a_terminal_when_progress_is_told_then_one_line_that_is_gone_at_the_end(monkeypatch):
    text = told(monkeypatch, [(0.0, "files", 1, 2), (1.0, "files", 2, 2)], is_terminal=True)

    assert text == "\r\x1b[2Klook: 1 of 2 files\r\x1b[2Klook: 2 of 2 files\r\x1b[2K"


def test_given_the_processes_standard_error_when_quiet_then_it_is_back_afterwards(capfd):
    with quiet_java():
        os.write(2, b"noise\n")
    os.write(2, b"heard\n")

    assert capfd.readouterr().err == "heard\n"


def test_given_a_metrics_file_that_cannot_be_written_when_run_then_its_path_is_told():
    def run(options, job):
        job.progress("files", 1)
        return Found()

    with pytest.raises(OSError, match="no/such") as raised:
        spark_jobs.run_job("look", run, None, CommonOptions(metrics_file=Path("no/such/job.prom")))

    assert "no/such" in explained(raised.value)[0]
