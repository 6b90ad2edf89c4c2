"""Reference: the commands' part of docs/command-line.md, made from the commands themselves.

    python -m tidelog.cli.reference --update DIR     brings the file of a source tree up to date

A test compares the file with what this module makes, so it cannot fall behind the code.
"""

from __future__ import annotations

import enum
import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from typer.models import OptionInfo

from tidelog.cli.app import COMMANDS, paragraphs

FILE: Final = "docs/command-line.md"
BEGIN: Final = "<!-- begin: made by python -m tidelog.cli.reference -->"
END: Final = "<!-- end -->"
PIPE: Final = r"\|"


def reference_text() -> str:
    """Return a section for every command: usage, meaning, examples, options."""
    lines: list[str] = []
    for name, function in COMMANDS.items():
        parameters = list(_parameters(function))
        words = [
            shown if default == "required" else f"[{shown}]"
            for shown, is_option, default, _ in parameters
            if not is_option
        ]
        lines += [f"### `tidelog {' '.join([name, *words])}`", ""]
        for paragraph in paragraphs(function):
            if paragraph.startswith("Example"):
                lines += ["```", inspect.cleandoc(paragraph.partition("\n")[2]), "```", ""]
            else:
                lines += [_escaped(paragraph), ""]
        lines += ["| | Default | Meaning |", "|---|---|---|"]
        lines += [
            f"| `{shown.replace('|', PIPE)}` | {default} | {_escaped(meaning)} |"
            for shown, _, default, meaning in parameters
        ]
        lines.append("")
    return "\n".join(lines)


def with_reference(document: str) -> str:
    """Return `document` with what stands between the marks made anew."""
    before, _, rest = document.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n\n{reference_text()}\n{END}{after}"


def _parameters(function: Callable[..., None]) -> Iterator[tuple[str, bool, str, str]]:
    """Yield how a parameter is written, whether it is an option, its default and its meaning."""
    hints = typing.get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        kind, info = typing.get_args(hints[name])
        is_option = isinstance(info, OptionInfo)
        metavar = info.metavar or ("|".join(_choices(kind)) if _choices(kind) else "")
        if not is_option:
            shown = metavar
        else:
            # Typer puts the first name of an annotated option where the default used to stand.
            first = info.default if isinstance(info.default, str) else None
            names = ", ".join([first or f"--{name.replace('_', '-')}", *(info.param_decls or ())])
            shown = f"{names} {metavar}".strip()
        yield shown, is_option, _default_text(parameter.default), _meaning(info)


def _choices(kind: Any) -> tuple[str, ...]:
    for one in (kind, *typing.get_args(kind)):
        if isinstance(one, type) and issubclass(one, enum.StrEnum):
            return tuple(one)
    return ()


def _default_text(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return "required"
    return "" if default is None or default is False else f"`{default}`"


def _meaning(info: Any) -> str:
    variable = f" Also: `{info.envvar}` in the environment." if info.envvar else ""
    return f"{info.help}{variable}"


def _escaped(text: str) -> str:
    return text.replace("|", "&#124;").replace("\\", "\\\\").replace("<", "&lt;")


def main(arguments: list[str]) -> int:
    """Write the sections to standard output, or bring the file of the named tree up to date."""
    if arguments[:1] == ["--update"]:
        document = Path(*arguments[1:2]) / FILE
        document.write_text(with_reference(document.read_text()))
    else:
        sys.stdout.write(reference_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
