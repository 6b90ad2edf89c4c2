"""Kafka's command line tools in one JVM (see programs/Tools.java)."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.support.kafka_jars import KafkaPrograms

SOURCE = Path(__file__).resolve().parents[1] / "programs" / "Tools.java"
TOOLS = "org.apache.kafka.tools."


class Said(NamedTuple):
    """How a tool ended, and what it printed on standard output and error."""

    code: int
    text: str


class JavaTools:
    """Runs one tool after the other, each told where the broker is."""

    def __init__(self, kafka: KafkaPrograms, address: str) -> None:
        self._address = address
        self._process = subprocess.Popen(
            kafka.command(str(SOURCE)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def run(self, tool: str, *arguments: str | Path, reads: str = "") -> str:
        """Run a tool that must succeed; return what it printed."""
        said = self.attempt(tool, *arguments, reads=reads)
        assert said.code == 0, said.text
        return said.text

    def attempt(self, tool: str, *arguments: str | Path, reads: str = "") -> Said:
        """Run a tool; `reads` is its standard input.

        Args:
            tool: The class: of `org.apache.kafka.tools`, if it is in no other package.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        main_class = tool if tool.startswith(("org.", "kafka.")) else TOOLS + tool
        call = [main_class, "--bootstrap-server", self._address, *map(str, arguments)]
        lines = [str(len(call)).encode()]
        lines += [base64.b64encode(each.encode()) for each in (*call, reads)]
        process.stdin.write(b"\n".join(lines) + b"\n")
        process.stdin.flush()
        code, _, text = process.stdout.readline().partition(b" ")
        assert code, f"the JVM ended in {tool}: {process.poll()}"
        return Said(int(code), base64.b64decode(text).decode())

    def close(self) -> None:
        """End the JVM."""
        self._process.kill()
        self._process.communicate()
