"""`tidelog spark archive`, without Spark: dry runs, and command lines that cannot be."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.support.command_line import call
from tests.support.spark_logs import some_records, write_partition
from tidelog.cli.errors import ExitCode
from tidelog.spark.jobs import archive as archive_module
from tidelog.spark.jobs.archive_result import ArchiveResult


def test_given_a_directory_when_run_dry_then_it_is_said_what_would_be_done(tmp_path):
    write_partition(tmp_path / "logs", "web-logs", 0, some_records(20))

    outcome = call(
        "spark", "archive", str(tmp_path / "logs"), "--to", str(tmp_path / "lake"),
        "--dry-run", "--json",
    )  # fmt: skip

    assert outcome.code == 0
    assert json.loads(outcome.text)["partitions"] == [
        {
            "topic": "web-logs", "partition": 0, "start_offset": 0, "end_offset": 20,
            "files": 1, "records": 0, "size_bytes": 0, "lost_offsets": 0,
        }
    ]  # fmt: skip
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("signals", [1, 2])
def test_given_a_signal_when_it_waits_then_it_ends_with_its_result_and_a_second_one_at_once(
    tmp_path, monkeypatch, signals
):
    def run(options, job, *, wait, is_stopped):
        assert not is_stopped()
        for _ in range(signals):
            os.kill(os.getpid(), signal.SIGTERM)
        assert not wait(3_600.0)
        assert is_stopped()
        return ArchiveResult(is_dry_run=False)

    monkeypatch.setattr(archive_module, "run", run)

    outcome = call("spark", "archive", "logs", "--to", str(tmp_path), "--interval", "1h", "--json")

    assert outcome.code == ExitCode.TERMINATED
    assert bool(outcome.text) == (signals == 1)
    assert outcome.errors == "tidelog: stopped; the same command goes on where it was\n"


def test_given_a_directory_when_run_dry_then_people_are_told_what_would_be_and_no_more(tmp_path):
    write_partition(tmp_path / "logs", "web-logs", 0, some_records(20))

    outcome = call(
        "spark", "archive", str(tmp_path / "logs"), "--to", str(tmp_path / "lake"), "--dry-run"
    )

    assert [line.split() for line in outcome.text.splitlines()] == [
        ["TOPIC", "PARTITION", "START", "OFFSET", "END", "OFFSET"],
        ["web-logs", "0", "0", "20"],
    ]
    assert outcome.errors == "tidelog: 20 offsets of 1 partition would be archived\n"


@pytest.mark.parametrize("topic", [(), ("--topic", "typo")])
def test_given_no_lake_when_only_merges_are_asked_for_then_that_is_an_error(tmp_path, topic):
    outcome = call("spark", "archive", "--to", str(tmp_path / "lake"), "--compact", *topic)

    assert outcome.code == 1
    assert outcome.errors.startswith(f"tidelog: {tmp_path}/lake has no topic")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a data directory or a broker to archive, or ask for compaction"),
        (["logs", "--table", "hudi"], "hudi: there are tables of delta and iceberg"),
        (["logs", "--interval", "soon"], "soon: write a number and s, m, h or d"),
        (["logs", "--on-corrupt", "tag"], "tag: it may be fail or skip"),
        (["no-such-directory"], "is not there"),
    ],
)
def test_given_what_cannot_be_when_called_then_one_sentence(tmp_path, arguments, message):
    outcome = call("spark", "archive", *arguments, "--to", str(tmp_path / "lake"), "--dry-run")

    assert outcome.code != 0
    assert message in outcome.errors
