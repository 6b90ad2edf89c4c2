"""`tidelog config`: what the daemon is configured with, and whether a file can be used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidelog.cli import output
from tidelog.cli.errors import ExitCode
from tidelog.cli.options import JsonOption

if TYPE_CHECKING:
    from broker.offline import InvalidConfigurationError, LoadedConfig

ORIGIN_COLUMN: Final = 44


def print_config(
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The TOML file that serve would be given."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="TABLE.KEY=VALUE",
            help="A setting as serve would be given it; may be given again.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show every setting, its value, and where the value comes from.

    What is shown is what serve would use if it were started here, with this environment. It is
    TOML: it can be saved and used as a configuration file.

    Examples:
      tidelog config print --config tidelog.toml
      tidelog config print --set log.level=debug | grep -v default
    """
    from broker import offline

    try:
        loaded = offline.load(config, environment=os.environ, settings=settings or [])
    except offline.InvalidConfigurationError as error:
        _say_problems(error)
        raise typer.Exit(ExitCode.FAILED) from None
    if as_json:
        output.write_json(_values(loaded))
        return
    table = None
    for path, key in offline.all_keys().items():
        if key.table != table:
            output.write_line(f"[{key.table}]" if table is None else f"\n[{key.table}]")
            table = key.table
        line = f"{key.name} = {offline.toml_text(key, offline.value_at(loaded.config, path))}"
        output.write_line(f"{line:{ORIGIN_COLUMN}}  # {loaded.origins[path]}")


def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The TOML file.", show_default=False)
    ],
    as_json: JsonOption = False,
) -> None:
    """Say whether a configuration file can be used, and what is wrong with it if not.

    The file alone is checked, without the environment. Exit code 0: serve would take it; 1: it has
    mistakes, each named with its line and how to mend it.

    Example:
      tidelog config check tidelog.toml
    """
    from broker import offline

    problems: list[dict[str, str]] = []
    try:
        offline.load(file)
    except offline.InvalidConfigurationError as error:
        problems = [
            {"path": one.path, "where": one.where, "text": one.text} for one in error.problems
        ]
        if not as_json:
            _say_problems(error)
    if as_json:
        output.write_json({"file": str(file), "problems": problems})
    elif not problems:
        output.write_line(f"{file} can be used")
    if problems:
        raise typer.Exit(ExitCode.FAILED)


def _say_problems(error: InvalidConfigurationError) -> None:
    for problem in error.problems:
        output.say(str(problem))


def _values(loaded: LoadedConfig) -> list[dict[str, Any]]:
    """Return the settings for JSON; sizes in bytes, durations in milliseconds."""
    from broker import offline

    return [
        {
            "key": path,
            "value": offline.value_at(loaded.config, path),
            "source": str(loaded.origins[path].source),
            "where": loaded.origins[path].where or None,
        }
        for path in offline.all_keys()
    ]
