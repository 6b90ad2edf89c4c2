"""Source: Python text of a function being written, and what it refers to."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

__all__ = ["Source"]


class Source:
    """Lines at a growing and shrinking indent, with fresh names and named constants.

    Consecutive numbers are gathered (`fixed`) and unpacked or packed by one call (`flush`).
    """

    def __init__(self, indent: int = 1) -> None:
        self._lines: list[str] = []
        self._indent = indent
        self._numbers = count()
        self._formats: list[str] = []
        self.operands: list[str] = []
        """Of the gathered numbers: names to unpack to, or expressions to pack."""
        self.constants: dict[str, Any] = {}

    def line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write a line that ends in a colon, and indent what follows; never empty."""
        self.line(head)
        self._indent += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._indent -= 1

    def name(self, stem: str) -> str:
        """Return a name that no other line uses."""
        return f"{stem}_{next(self._numbers)}"

    def constant(self, stem: str, value: Any) -> str:
        """Return a name for a value; the same value has the same name."""
        for name, known in self.constants.items():
            if known is value:
                return name
        name = self.name(stem)
        self.constants[name] = value
        return name

    def fixed(self, form: str, operand: str | None = None) -> None:
        """Gather a number of a `struct` format; without an operand a zero byte (`x`)."""
        self._formats.append(form)
        if operand is not None:
            self.operands.append(operand)

    def take_group(self) -> tuple[struct.Struct, list[str]] | None:
        """Return what was gathered, None if nothing was, and begin anew."""
        if not self._formats:
            return None
        taken = struct.Struct(">" + "".join(self._formats)), self.operands
        self._formats, self.operands = [], []
        return taken

    def compiled(self, name: str, arguments: str, namespace: dict[str, Any]) -> Callable[..., Any]:
        """Return the function."""
        text = f"def {name}({arguments}):\n" + "\n".join(self._lines) + "\n"
        scope = {**namespace, **self.constants}
        exec(compile(text, f"<{name}>", "exec"), scope)  # noqa: S102 - of our own declarations
        function: Callable[..., Any] = scope[name]
        return function
