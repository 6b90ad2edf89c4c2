"""Arguments: the daemon's own command line, `python -m broker`; `tidelog serve` has the same.

argparse and what it imports cost a start 5 ms. Its help and its errors are worth that, a plain
command line is not. So a line of nothing but options written out in full, each with its value, is
read here, and any other by argparse, from the same table.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from broker.version import version


class ServeArguments(msgspec.Struct, frozen=True, kw_only=True):
    """What `serve` was told."""

    config_file: Path | None = None
    settings: tuple[str, ...] = ()
    """`table.key=value`, as given with --set; the other options are among them."""


OPTIONS: Final = {
    "--config": ("FILE", "TOML file with settings"),
    "--set": (
        "TABLE.KEY=VALUE",
        "one setting; wins over the file and the environment; may be given again",
    ),
    "--ready-file": ("FILE", "written, with the bound addresses, once ready"),
    "--allow-missing-dir": (
        "DIR",
        "start although this data directory is missing; may be given again",
    ),
}
"""Each has a value: its name in the help, and what it is."""


def parse_arguments(arguments: Sequence[str], program: str = "tidelog serve") -> ServeArguments:
    """Return what `arguments` say.

    Raises:
        SystemExit: wrong usage (2), or --help and --version were asked for (0).
    """
    given = _plain_options(arguments)
    if given is None:
        given = _options_by_argparse(arguments, program)
    config_file = Path(given["--config"][-1]) if given["--config"] else None
    settings = given["--set"]
    settings += [f"daemon.ready_file={path}" for path in given["--ready-file"][-1:] if path]
    if given["--allow-missing-dir"]:
        listed = ", ".join(_toml_string(path) for path in given["--allow-missing-dir"])
        settings.append(f"daemon.allow_missing_dirs=[{listed}]")
    return ServeArguments(config_file=config_file, settings=tuple(settings))


def _plain_options(arguments: Sequence[str]) -> dict[str, list[str]] | None:
    """Return the values of each option; None where argparse must look: help, mistakes, the rest."""
    given: dict[str, list[str]] = {name: [] for name in OPTIONS}
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name not in OPTIONS:
            return None
        if not equals:
            value = next(rest, "-")
            if value.startswith("-"):  # most likely the next option: then this one's is missing
                return None
        given[name].append(value)
    return given


def _options_by_argparse(arguments: Sequence[str], program: str) -> dict[str, list[str]]:
    """Return the same, or end the process with help or an error. Raises SystemExit."""
    import argparse  # here: most starts do without

    parser = argparse.ArgumentParser(
        prog=program, description="Run the Tidelog broker in the foreground until SIGTERM."
    )
    for name, (metavar, text) in OPTIONS.items():
        parser.add_argument(
            name, dest=name, metavar=metavar, action="append", default=[], help=text
        )
    parser.add_argument("--version", action="version", version=f"tidelog {version()}")
    given: dict[str, list[str]] = vars(parser.parse_args(list(arguments)))
    return given


def _toml_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
