"""Options that all jobs of `tidelog spark` have, or several."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from tidelog.cli.times import interval_ms, parse_time

__all__ = [
    "CommonOptions",
    "ConfOption",
    "DirectoryArgument",
    "DryRunOption",
    "MasterOption",
    "MetricsFileOption",
    "checked_interval",
    "checked_time",
]


def checked_interval(text: str | None) -> str | None:
    """Refuse what is no length of time; for an option's callback."""
    try:
        _ = text and interval_ms(text)
    except ValueError:
        raise typer.BadParameter(f"{text}: write a number and s, m, h or d, such as 10m") from None
    return text


def checked_time(text: str | None) -> str | None:
    """Refuse what is no point in time; for an option's callback."""
    try:
        _ = text and parse_time(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text}: write a time such as 2026-11-21T08:00:00+00:00"
        ) from None
    return text


def _checked_conf(pairs: list[str] | None) -> list[str]:
    for pair in pairs or ():
        key, equals, _ = pair.partition("=")
        if not (key.startswith("spark.") and equals):
            raise typer.BadParameter(
                f"--conf {pair}: write KEY=VALUE with a key of Spark's, such as "
                "spark.driver.memory=4g"
            )
    return pairs or []


def _checked_metrics_file(file: Path | None) -> Path | None:
    if file is not None and not file.absolute().parent.is_dir():
        raise typer.BadParameter(f"--metrics-file {file}: there is no directory {file.parent}")
    return file


DirectoryArgument: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="DIR",
        help="A data directory, or its URL in an object store; the broker may be running.",
        show_default=False,
    ),
]

MasterOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        envvar="TIDELOG_SPARK_MASTER",
        help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://... Without it: this "
        "machine, all cores.",
        show_default=False,
    ),
]

ConfOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="KEY=VALUE",
        help="A setting of Spark's; may be given again.",
        callback=_checked_conf,
        show_default=False,
    ),
]

DryRunOption: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")
]

MetricsFileOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--metrics-file",
        metavar="FILE",
        help="Keep figures in this file, whole at any time, for the textfile collector of "
        "Prometheus' node exporter.",
        callback=_checked_metrics_file,
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class CommonOptions:
    """What was said about a run of a job, whichever job it is."""

    master: str | None = None
    conf: tuple[str, ...] = ()
    """Pairs KEY=VALUE."""
    as_json: bool = False
    is_dry_run: bool = False
    metrics_file: Path | None = None

    @classmethod
    def of(
        cls,
        master: str | None,
        conf: list[str] | None,
        as_json: bool,
        dry_run: bool,
        metrics_file: Path | None,
    ) -> CommonOptions:
        """Return what a command's five parameters say."""
        return cls(master, tuple(conf or ()), as_json, dry_run, metrics_file)

    @property
    def spark_conf(self) -> dict[str, str]:
        """Spark's settings by name; of two of one name the later one."""
        return {key: value for key, _, value in (pair.partition("=") for pair in self.conf)}
