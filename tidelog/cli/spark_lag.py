"""`tidelog spark lag`: how far consumer groups are behind, now and over time."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from tidelog.cli.options import JsonOption, TopicsOption
from tidelog.cli.spark_jobs import run_job
from tidelog.cli.spark_options import (
    CommonOptions,
    ConfOption,
    DirectoryArgument,
    DryRunOption,
    MasterOption,
    MetricsFileOption,
    checked_interval,
    checked_time,
)
from tidelog.cli.times import interval_ms, parse_time, time_ms

LiveOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Instead: the Kafka listener of a running broker. Needs no Spark.",
        show_default=False,
    ),
]

GroupsOption: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="GROUP", help="Only this group; may be given again.")
]

EveryOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Show the past, too, at intervals such as 30s, 10m, 1h or 1d.",
        callback=checked_interval,
    ),
]

SinceOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="With --every: as far back as this ISO 8601 time.",
        callback=checked_time,
    ),
]

ParquetOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write the table as a Parquet file, too.")
]

MaxLagOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=0, metavar="N", help="Exit code 1 if a group is further behind now than this."
    ),
]


def lag(
    path: DirectoryArgument = None,
    *,
    broker: LiveOption = None,
    group: GroupsOption = None,
    topic: TopicsOption = None,
    every: EveryOption = None,
    since: SinceOption = None,
    parquet: ParquetOption = None,
    max_lag: MaxLagOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
    dry_run: DryRunOption = False,
    metrics_file: MetricsFileOption = None,
) -> None:
    """Show how far consumer groups are behind the ends of what they read, now and over time.

    The past is read from the files: what groups committed is in the topic `__consumer_offsets`,
    as fine as compaction has left it. "Lost" are offsets that retention took before a group came.

    Examples:
      tidelog spark lag --broker localhost:9092 --max-lag 10000
      tidelog spark lag ./tidelog-data --group billing --every 10m --parquet lag.parquet
    """
    from tidelog.spark.jobs.lag import LagOptions, run

    options = LagOptions(
        path=path,
        broker=broker,
        groups=tuple(group or ()),
        topics=tuple(topic or ()),
        every_ms=None if every is None else interval_ms(every),
        since_ms=0 if since is None else time_ms(parse_time(since)),
        parquet=parquet,
        max_lag=max_lag,
    )
    common = CommonOptions.of(master, conf, as_json, dry_run, metrics_file)
    run_job("lag", run, options, common)
