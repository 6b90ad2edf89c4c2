"""Apache Kafka's jars, fetched once by Maven, and its programs run with them.

Kept in `.kafka-jars/` beside the sources, by a name that changes with the pom. Where there is no
Java or no Maven the tests that need them are skipped, and the end of the run says so; with
TIDELOG_REQUIRE_KAFKA=1, as in CI, they fail instead.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[2]
POM = ROOT / "tests" / "kafka" / "pom.xml"
SKIP_WORDS = "Apache Kafka's own programs"
FETCH_TIMEOUT_S = 600


class KafkaPrograms:
    """Runs Java classes with Kafka's jars on the class path."""

    def __init__(self, java: str, class_path: str) -> None:
        self._java, self.class_path = java, class_path

    def with_classes(self, directory: Path) -> KafkaPrograms:
        """The same with classes of our own, which lie in a directory."""
        return KafkaPrograms(self._java, f"{self.class_path}:{directory}")

    def command(self, main_class: str, *arguments: str | Path) -> list[str]:
        """The command line of a program; short-lived ones start faster without the big compiler."""
        options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        return [self._java, *options, "-cp", self.class_path, main_class, *map(str, arguments)]

    def run(self, main_class: str, *arguments: str | Path, timeout_s: float = 60) -> str:
        """Run a program to its end; return what it printed, standard error behind it."""
        done = subprocess.run(
            self.command(main_class, *arguments),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, f"{main_class}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def dump(self, files: Sequence[Path], *options: str) -> str:
        """What DumpLogSegments says of the files."""
        names = ",".join(map(str, files))
        return self.run("org.apache.kafka.tools.DumpLogSegments", "--files", names, *options)


@functools.cache
def kafka_programs() -> KafkaPrograms:
    """Return Kafka's programs, fetched now if need be; else skip the test, or fail it."""
    java = shutil.which("java")
    if java is None:
        give_up("there is no java")
    return KafkaPrograms(java, f"{fetched_jars(POM)}/*")


def fetched_jars(pom: Path) -> Path:
    """Return a directory with the jars that a pom names, fetched now if need be; else skip."""
    jars = ROOT / ".kafka-jars" / hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    jars.parent.mkdir(exist_ok=True)
    with (jars.parent / ".lock").open("w") as lock:  # one fetch for all test processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.exists():
            maven = shutil.which("mvn")
            if maven is None:
                give_up("there is no mvn to fetch them")
            _fetch(maven, pom, jars)
    return jars


def _fetch(maven: str, pom: Path, jars: Path) -> None:
    """Copy the jars and all they need into a directory that appears whole."""
    unfinished = jars.with_name(jars.name + ".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
    done = subprocess.run(
        [maven, "-q", "-B", "-f", pom, goal, f"-DoutputDirectory={unfinished}"],
        capture_output=True,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        give_up(f"mvn could not fetch them: {done.stdout[-500:]}{done.stderr[-500:]}")
    unfinished.rename(jars)


def give_up(reason: str) -> NoReturn:
    """Skip, or fail where the machine is known to have all it takes."""
    skip_or_fail(f"{SKIP_WORDS} are missing: {reason}")


def skip_or_fail(text: str) -> NoReturn:
    """Skip with a reason; on a machine that is known to have all it takes, as CI is, fail."""
    if os.environ.get("TIDELOG_REQUIRE_KAFKA") == "1":
        pytest.fail(text)
    pytest.skip(text)
