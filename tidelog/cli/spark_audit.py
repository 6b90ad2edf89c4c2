"""`tidelog spark audit`: checks every byte of data directories, in parallel."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from tidelog.cli.errors import CommandError, ExitCode
from tidelog.cli.options import JsonOption, TopicsOption
from tidelog.cli.spark_jobs import run_job
from tidelog.cli.spark_options import (
    CommonOptions,
    ConfOption,
    DryRunOption,
    MasterOption,
    MetricsFileOption,
)

DirectoriesArgument: TypeAlias = Annotated[
    list[str],
    typer.Argument(
        metavar="DIR...",
        help="Data directories, directories of single partitions, or single .log files; or "
        "their URLs in an object store.",
        show_default=False,
    ),
]

DeepOption: TypeAlias = Annotated[
    bool, typer.Option("--deep", help="Also decode every record; takes far longer.")
]

NoGapsOption: TypeAlias = Annotated[
    bool,
    typer.Option("--no-gaps", help="Missing offsets are errors: nothing was ever compacted."),
]

NotesOption: TypeAlias = Annotated[
    bool, typer.Option("--notes", help="Show what is nothing to worry about, too.")
]


def audit(
    directories: DirectoriesArgument,
    *,
    topic: TopicsOption = None,
    deep: DeepOption = False,
    no_gaps: NoGapsOption = False,
    notes: NotesOption = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
    dry_run: DryRunOption = False,
    metrics_file: MetricsFileOption = None,
) -> None:
    """Check logs byte for byte: every CRC, the order of offsets, what the indexes say.

    Like `tidelog verify`, with its words, but over any number of directories at a time, of a
    running broker's as well. An "error" is damage; a "warning" is something that the next start
    mends; a "note" is nothing to worry about, such as the gaps that compaction leaves. Nothing is
    changed. Exit code 0: clean, notes aside; 1: errors or warnings were found; 2: something that
    was named is not there, or is no log.

    Examples:
      tidelog spark audit ./tidelog-data
      tidelog spark audit /backup/logs-0 /backup/logs-1 --deep --json
      tidelog spark audit s3://backup/logs --master spark://head:7077
    """
    from tidelog.segments.errors import SegmentError
    from tidelog.spark.jobs.audit import AuditOptions, run

    options = AuditOptions(
        paths=tuple(directories),
        topics=tuple(topic or ()),
        is_deep=deep,
        gaps_are_faults=no_gaps,
        shows_notes=notes,
    )
    common = CommonOptions.of(master, conf, as_json, dry_run, metrics_file)
    try:
        run_job("audit", run, options, common)
    except SegmentError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
