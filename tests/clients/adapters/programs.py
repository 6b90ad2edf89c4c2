"""Clients of other languages: built or fetched once, run as programs.

Kept in `.client-programs/` beside the sources, by a name that changes with what they are made of.
Where a tool is missing, or cannot fetch what it needs, the test is skipped with the reason, which
the end of the run shows; with TIDELOG_REQUIRE_KAFKA=1, as in CI, it fails.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.kafka_jars import KafkaPrograms, skip_or_fail

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = ROOT / "tests" / "clients" / "programs"
CACHE = ROOT / ".client-programs"
BUILD_TIMEOUT_S = 600
SEPARATOR = b"\0"
DEBIAN = ("kcat", "librdkafka1", "libyajl2")
"""kcat, and the libraries that nothing else on a machine needs."""


def tool(name: str) -> str:
    """Return where a tool is; else skip the test, or fail it."""
    path = shutil.which(name)
    if path is None:
        skip_or_fail(f"a client is not tested: there is no {name}")
    return path


def kafkajs() -> list[str]:
    """Return the command of the program that uses KafkaJS."""
    node, npm = tool("node"), tool("npm")

    def build(directory: Path) -> Sequence[str]:
        return [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]

    return [node, str(_built("kafkajs", build) / "main.js")]


def franz_go() -> list[str]:
    """Return the command of the program that uses franz-go; the first build takes a minute."""
    go = tool("go")

    def build(directory: Path) -> Sequence[str]:
        return [go, "build", "-buildvcs=false", "-o", str(directory / "program"), "."]

    return [str(_built("franz_go", build) / "program")]


def java(kafka: KafkaPrograms) -> list[str]:
    """Return the command of the program that uses Kafka's Java client."""
    javac = tool("javac")

    def build(directory: Path) -> Sequence[str]:
        return [javac, "-cp", kafka.class_path, *map(str, directory.glob("*.java"))]

    directory = _built("java", build, of=kafka.class_path.encode())
    return kafka.with_classes(directory).command("Main")


def kcat() -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of kcat: the machine's, or Debian's unpacked."""
    installed = shutil.which("kcat") or shutil.which("kafkacat")
    if installed is not None:
        return [installed], dict(os.environ)
    apt, dpkg = tool("apt-get"), tool("dpkg")

    def build(directory: Path) -> Sequence[str]:
        unpack = f'for each in *.deb; do "{dpkg}" -x "$each" . || exit 1; done'
        return ["sh", "-c", f'"{apt}" download {" ".join(DEBIAN)} && {unpack}']

    directory = _built("kcat", build, of=" ".join(DEBIAN).encode())
    libraries = ":".join(str(path) for path in (directory / "usr" / "lib").glob("*-linux-*"))
    return [str(directory / "usr" / "bin" / "kcat")], os.environ | {"LD_LIBRARY_PATH": libraries}


def _built(name: str, build: Callable[[Path], Sequence[str]], of: bytes = b"") -> Path:
    """Return a directory with the sources where the command has been run, now or before."""
    sources = sorted(path for path in (PROGRAMS / name).glob("*") if path.is_file())
    parts = [of, *(part for path in sources for part in (path.name.encode(), path.read_bytes()))]
    directory = CACHE / f"{name}-{hashlib.sha256(SEPARATOR.join(parts)).hexdigest()[:12]}"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f".{name}.lock").open("w") as lock:  # one build for all test processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            unfinished = CACHE / f"{name}.part"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            for path in sources:
                shutil.copy(path, unfinished)
            done = subprocess.run(
                build(unfinished),
                cwd=unfinished,
                capture_output=True,
                text=True,
                timeout=BUILD_TIMEOUT_S,
                check=False,
            )
            if done.returncode:
                said = done.stderr[-500:]
                skip_or_fail(f"a client is not tested: {name} cannot be had: {said}")
            unfinished.rename(directory)
    return directory
