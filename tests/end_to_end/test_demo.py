"""`make demo` does what it says; what it does with Spark is in tests/spark."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOG = "tests/data/loghub/OpenSSH_2k.log"


def start(*arguments, **settings):
    """Start the demo without Spark, in a process group of its own, where it hears Ctrl-C."""
    return subprocess.Popen(
        [sys.executable, "-m", "tidelog.demo", *map(str, arguments), "--without-spark"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **settings,
    )


def test_given_the_demo_when_run_then_it_shows_every_step():
    demo = start(LOG)
    output, errors = demo.communicate(timeout=100)

    said = " ".join(output.split())
    assert (demo.returncode, errors) == (0, "")
    for step in (
        "1. a broker with its defaults is ready on port",
        "2. shipped 2,000 lines",
        "byte-equal",
        "4. killed the broker (SIGKILL)",
        "started it again on the same directory",
        "5. the producer went on by itself: 80,000 lines acknowledged",
        "none gone, none changed",
        "tidelog_topic_messages_in_total",
        "tidelog_flush_duration_seconds_count",
        "tidelog_fsync_failures_total 0.0",
        "7. stopped it (SIGTERM): exit code 0",
    ):
        assert step in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_given_a_demo_that_is_stopped_when_it_ends_then_nothing_of_it_is_left(number, tmp_path):
    environment = {"PYTHONUNBUFFERED": "1", "TMPDIR": str(tmp_path), "PATH": ""}
    demo = start(LOG, env=environment)
    first = demo.stdout.readline()

    demo.send_signal(number)
    _, errors = demo.communicate(timeout=100)  # the broker has this pipe, too: it is gone as well

    assert first.startswith("1. a broker")
    assert (demo.returncode, errors) == (128 + number, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere.log", "nowhere.log: No such file or directory\n"),
        ("", ": Is a directory\n"),
        ("empty.log", "empty.log is empty: name a file with some lines\n"),
    ],
)
def test_given_a_file_that_cannot_be_shipped_when_run_then_one_sentence(name, sentence, tmp_path):
    (tmp_path / "empty.log").touch()

    demo = start(tmp_path / name)
    output, errors = demo.communicate(timeout=100)

    assert (demo.returncode, output) == (1, "")
    assert errors.endswith(sentence)
    assert errors.count("\n") == 1
