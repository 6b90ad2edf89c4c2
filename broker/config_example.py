"""Config example: config.example.toml and docs/configuration.md, made from the config structs.

    python -m broker.config_example              writes the example file to standard output
    python -m broker.config_example --update DIR brings both files of a source tree up to date

A test compares both files with what this module makes, so neither can fall behind the code.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Final

from broker import config, config_groups, config_keys, config_topics
from broker.config_keys import Key

EXAMPLE_FILE: Final = "config.example.toml"
REFERENCE_FILE: Final = "docs/configuration.md"
BEGIN: Final = "<!-- begin: made by python -m broker.config_example -->"
END: Final = "<!-- end -->"
LINE_CHARS_MAX: Final = 100

_HEADING: Final = """\
# Every setting of Tidelog, with its default. Nothing here has to be set: copy what you change.
#
#   tidelog serve --config FILE            uses it
#   tidelog config check FILE              checks it
#   tidelog config print --config FILE     shows every value and where it came from
#
# Later wins: defaults, this file, TIDELOG__TABLE__KEY in the environment, --set table.key=value.
# Sizes are numbers of bytes or texts such as "64KiB", "1GiB" (2^30), "1GB" (10^9). Durations are
# numbers of milliseconds or texts such as "250ms", "30s", "1h30m", "7d".
# Made by: python -m broker.config_example
"""


def example_text() -> str:
    """Return config.example.toml: every table and key with meaning, unit and default."""
    lines = [_HEADING]
    for table in config_keys.tables():
        lines += [*_comment(documentation(table)), f"[{table}]"]
        for key in config_keys.all_keys().values():
            if key.table == table:
                lines += ["", *_comment(documentation(key.path)), f"# Allowed: {_allowed(key)}."]
                lines.append(f"{key.name} = {config_keys.toml_text(key, key.default)}")
        lines += ["", ""]
    return "\n".join(lines).rstrip() + "\n"


def reference_text() -> str:
    """Return the tables of docs/configuration.md."""
    lines: list[str] = []
    for table in config_keys.tables():
        lines += [f"### `[{table}]`", "", documentation(table), ""]
        lines += ["| Key | Default | Allowed | Meaning |", "|---|---|---|---|"]
        for key in config_keys.all_keys().values():
            if key.table == table:
                default = config_keys.toml_text(key, key.default)
                cells = [f"`{key.name}`", f"`{default}`", _allowed(key), documentation(key.path)]
                lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
        lines.append("")
    return "\n".join(lines)


def with_reference(document: str) -> str:
    """Return `document` with what stands between the marks made anew."""
    before, _, rest = document.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n\n{reference_text()}\n{END}{after}"


def documentation(path: str) -> str:
    """Return the meaning of a table or key, one line: the text under the field in its struct."""
    return _documentation()[path]


@functools.cache
def _documentation() -> dict[str, str]:
    found: dict[str, str] = {}
    structs = {**_structs(config), **_structs(config_topics), **_structs(config_groups)}
    for table in config_keys.tables():
        struct = structs[type(getattr(config.Config(), table)).__name__]
        found[table] = _flat(ast.get_docstring(struct) or "")
        for field, text in zip(struct.body, struct.body[1:], strict=False):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                    value=ast.Constant(value=str(doc))
                ):
                    found[f"{table}.{name}"] = _flat(doc)
    return found


def _structs(module: ModuleType) -> dict[str, ast.ClassDef]:
    tree = ast.parse(inspect.getsource(module))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _flat(text: str) -> str:
    return " ".join(text.split())


def _allowed(key: Key) -> str:
    """Return what `key` may be, such as "a size of at least 1MiB"."""
    return config_keys.wanted(key).removeprefix("must be ")


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        text, LINE_CHARS_MAX, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )


def main(arguments: list[str]) -> int:
    """Write the example to standard output, or both files of the tree named after --update."""
    if arguments[:1] == ["--update"]:
        root = Path(*arguments[1:2])
        reference = root / REFERENCE_FILE
        (root / EXAMPLE_FILE).write_text(example_text())
        reference.write_text(with_reference(reference.read_text()))
    else:
        sys.stdout.write(example_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
