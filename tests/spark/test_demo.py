"""`make demo`, the part with Spark."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 280


@pytest.mark.timeout(TIMEOUT_S)
def test_given_the_demo_when_run_whole_then_spark_streams_and_archives_the_lines():
    done = subprocess.run(
        [sys.executable, "-m", "tidelog.demo", "tests/data/loghub/OpenSSH_2k.log"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )

    said = " ".join(done.stdout.split())
    assert (done.returncode, done.stderr) == (0, "")
    for step in (
        "a streaming query read the 2,000 lines",
        "the addresses named most: 183.62.140.253 (867), 187.141.143.180 (349), 103.99.0.122 (172)",
        "8. archived the topic as 4 Parquet files",
        "read them without Spark and put the lines in order: byte-equal",
        "9. stopped it (SIGTERM): exit code 0",
    ):
        assert step in said
