"""Arguments: the daemon's own command line, `python -m broker`; `tidelog serve` has the same.

argparse, for it loads in a few milliseconds; the rest of the CLI may take its time.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from broker.version import version


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeArguments:
    """What `serve` was told."""

    config_file: Path | None = None
    settings: tuple[str, ...] = ()
    """`table.key=value`, as given with --set; the other options are among them."""


def parse_arguments(arguments: Sequence[str], program: str = "tidelog serve") -> ServeArguments:
    """Return what `arguments` say.

    Raises:
        SystemExit: wrong usage (2), or --help and --version were asked for (0).
    """
    parser = argparse.ArgumentParser(
        prog=program, description="Run the Tidelog broker in the foreground until SIGTERM."
    )
    parser.add_argument("--config", metavar="FILE", type=Path, help="TOML file with settings")
    parser.add_argument(
        "--set",
        metavar="TABLE.KEY=VALUE",
        action="append",
        default=[],
        help="one setting; wins over the file and the environment; may be given again",
    )
    parser.add_argument(
        "--ready-file", metavar="FILE", help="written, with the bound addresses, once ready"
    )
    parser.add_argument(
        "--allow-missing-dir",
        metavar="DIR",
        action="append",
        default=[],
        help="start although this data directory is missing; may be given again",
    )
    parser.add_argument("--version", action="version", version=f"tidelog {version()}")
    parsed = parser.parse_args(list(arguments))
    settings = list(parsed.set)
    if parsed.ready_file:
        settings.append(f"daemon.ready_file={parsed.ready_file}")
    if parsed.allow_missing_dir:
        listed = ", ".join(_toml_string(path) for path in parsed.allow_missing_dir)
        settings.append(f"daemon.allow_missing_dirs=[{listed}]")
    return ServeArguments(config_file=parsed.config, settings=tuple(settings))


def _toml_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
