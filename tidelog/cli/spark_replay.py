"""`tidelog spark replay`: a topic of a lake goes back to a topic."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.options import DEFAULT_BROKER, BrokerOption, JsonOption
from tidelog.cli.spark_jobs import run_job
from tidelog.cli.spark_options import (
    CommonOptions,
    ConfOption,
    DryRunOption,
    MasterOption,
    MetricsFileOption,
)
from tidelog.cli.spark_transfers import CompressionOption, IdOption, TargetOption


def replay(
    lake: Annotated[
        str,
        typer.Argument(
            metavar="LAKE",
            help="What `tidelog spark archive` has written; a directory, or a URL.",
            show_default=False,
        ),
    ],
    *,
    topic: Annotated[
        str,
        typer.Option("--topic", metavar="TOPIC", help="Of the lake.", show_default=False),
    ],
    target: TargetOption,
    broker: BrokerOption = DEFAULT_BROKER,
    id: IdOption = None,
    compression: CompressionOption = "none",
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
    dry_run: DryRunOption = False,
    metrics_file: MetricsFileOption = None,
) -> None:
    """Write a topic of a lake to a topic of a broker: each record once, in order, with its time.

    Kill it, lose the connection, run it again: what is there already is not written again. After
    it is done, another run writes what the lake has got since. Offsets are given anew, without
    gaps. Nobody else may write to the target meanwhile; that is found out, and an error.

    Examples:
      tidelog spark replay ./lake --topic web-logs --target web-logs-again
    """
    from protocol.compression import codec_from_name
    from tidelog.spark.jobs.replay import ReplayOptions, run

    options = ReplayOptions(
        lake=lake,
        topic=topic,
        broker=broker,
        target=target,
        id=id,
        codec=codec_from_name(compression),
    )
    common = CommonOptions.of(master, conf, as_json, dry_run, metrics_file)
    run_job("replay", run, options, common, goes_on=True)
