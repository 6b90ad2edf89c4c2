"""`tidelog spark stats`: what is in topics: rates, sizes, keys, codecs, gaps, lateness."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from tidelog.cli.options import JsonOption, TopicsOption
from tidelog.cli.spark_jobs import run_job
from tidelog.cli.spark_options import (
    CommonOptions,
    ConfOption,
    DryRunOption,
    MasterOption,
    MetricsFileOption,
    checked_interval,
    checked_time,
)
from tidelog.cli.times import interval_ms, parse_time, time_ms

PathArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="DIR",
        help="A data directory, a partition's directory or a single .log file, or its URL in "
        "an object store; the broker may be running.",
        show_default=False,
    ),
]

SinceOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Only records of this ISO 8601 time or a later one.",
        callback=checked_time,
    ),
]

UntilOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Only records of an earlier time than this.", callback=checked_time
    ),
]

EveryOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="Interval of the rates over time, such as 30s, 10m, 1h or 1d.",
        callback=checked_interval,
    ),
]

LateOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="A record is late if it is older than one before it by more than this.",
        callback=checked_interval,
    ),
]

ParquetOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Write all figures as Parquet files into this directory."),
]

HtmlOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Write a report with charts as one HTML file."),
]


def stats(
    path: PathArgument,
    *,
    topic: TopicsOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    every: EveryOption = "1m",
    late: LateOption = "1m",
    parquet: ParquetOption = None,
    html: HtmlOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
    dry_run: DryRunOption = False,
    metrics_file: MetricsFileOption = None,
) -> None:
    """Show what is in topics: rates, sizes, keys, codecs, gaps, late and out-of-order records.

    By partition; --json has all figures and the frequent keys, --parquet and --html have the rates
    over time and the distributions of sizes as well. Quantiles of sizes are within 1 %. Of up to
    1,024 keys a topic's counts are exact; of more, their number is known to 0.8 % (one standard
    deviation), and of the frequent ones what their counts may lack. What is damaged is left out,
    and its bytes are counted.

    Examples:
      tidelog spark stats ./tidelog-data
      tidelog spark stats ./tidelog-data --topic web-logs --every 1h --html web-logs.html
      tidelog spark stats s3://backup/logs --parquet stats --since 2026-11-01
    """
    from tidelog.spark.jobs.stats import StatsOptions, run

    options = StatsOptions(
        path=path,
        topics=tuple(topic or ()),
        start_timestamp_ms=None if since is None else time_ms(parse_time(since)),
        end_timestamp_ms=None if until is None else time_ms(parse_time(until)),
        bucket_ms=interval_ms(every),
        late_ms=interval_ms(late),
        parquet=parquet,
        html=html,
    )
    common = CommonOptions.of(master, conf, as_json, dry_run, metrics_file)
    run_job("stats", run, options, common)
