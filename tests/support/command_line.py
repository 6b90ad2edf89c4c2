"""The command line, called in this process or as one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from tidelog.cli.app import app


@dataclass(frozen=True)
class Outcome:
    """What a command wrote and how it ended."""

    code: int
    output: bytes
    errors: str

    @property
    def text(self) -> str:
        return self.output.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.output)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.output.splitlines()]


def call(*arguments: str, stdin: bytes = b"", environment: dict[str, str] | None = None) -> Outcome:
    """Run a command in this process."""
    result = CliRunner().invoke(
        app, list(arguments), input=stdin, env=environment, prog_name="tidelog"
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, result.stdout_bytes, result.stderr_bytes.decode())


def start(*arguments: str, **settings: Any) -> subprocess.Popen[bytes]:
    """Start a command as a process of its own."""
    settings = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        **settings,
    }
    return subprocess.Popen([sys.executable, "-m", "tidelog", *arguments], **settings)


def run(*arguments: str, stdin: bytes = b"", **environment: str) -> Outcome:
    """Run a command as a process of its own, to its end."""
    process = start(*arguments, env=os.environ | environment)
    output, errors = process.communicate(stdin, timeout=60)
    return Outcome(process.returncode, output, errors.decode())
