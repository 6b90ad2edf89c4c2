"""`make demo` does what it says; what it does with Spark is in tests/spark."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOG = "tests/data/loghub/OpenSSH_2k.log"


def test_given_the_demo_when_run_then_it_shows_every_step():
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tidelog.demo",
            "tests/data/loghub/OpenSSH_2k.log",
            "--without-spark",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )

    said = " ".join(done.stdout.split())
    assert (done.returncode, done.stderr) == (0, "")
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
