"""Temporary directories: gone with their process, also with one that had no time to clean up."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tidelog.spark.temporary import temporary_directory

PREFIX = "tidelog-tests-"
PROGRAM = f"""
import sys
from tidelog.spark.temporary import temporary_directory
print(temporary_directory({PREFIX!r}), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def started() -> tuple[subprocess.Popen[str], Path]:
    """Start a process that makes a directory and waits; return both."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_given_a_process_that_was_killed_when_the_next_one_makes_its_own_then_it_removes_the_left(
    temporary,
):
    killed, left = started()
    alive, used = started()
    ended, gone = started()
    (left / "bin").mkdir()
    (temporary / f"{PREFIX}somebody-elses").mkdir()
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    ended.communicate("")
    before = left.is_dir(), used.is_dir(), gone.exists()

    made = temporary_directory(PREFIX)

    assert before == (True, True, False)
    assert sorted(temporary.iterdir()) == sorted(
        [made, used, temporary / f"{PREFIX}somebody-elses"]
    )
    alive.communicate("")
    assert not used.exists()
