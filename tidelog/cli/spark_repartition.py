"""`tidelog spark repartition`: a topic goes to one with another number of partitions."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.options import DEFAULT_BROKER, BrokerOption, JsonOption, TopicArgument
from tidelog.cli.spark_jobs import run_job
from tidelog.cli.spark_options import (
    CommonOptions,
    ConfOption,
    DryRunOption,
    MasterOption,
    MetricsFileOption,
)
from tidelog.cli.spark_transfers import CompressionOption, IdOption, TargetOption


def repartition(
    topic: TopicArgument,
    *,
    partitions: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Of the target.", show_default=False),
    ],
    target: TargetOption,
    broker: BrokerOption = DEFAULT_BROKER,
    path: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Read the topic from this data directory, or its URL; without it the broker has "
            "it.",
            show_default=False,
        ),
    ] = None,
    id: IdOption = None,
    compression: CompressionOption = "none",
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
    dry_run: DryRunOption = False,
    metrics_file: MetricsFileOption = None,
) -> None:
    """Copy a topic to one with another number of partitions: each record once, by its key.

    A key goes where Kafka's default partitioner sends it, with its records in their order. Those of
    different partitions are put together by their timestamps. Run it again after it was killed, or
    for what has come to the topic since. Nobody else may write to the target meanwhile.

    Examples:
      tidelog spark repartition web-logs --partitions 12 --target web-logs-12
    """
    from protocol.compression import codec_from_name
    from tidelog.spark.jobs.repartition import RepartitionOptions, run

    options = RepartitionOptions(
        topic=topic,
        broker=broker,
        target=target,
        partitions=partitions,
        path=path,
        id=id,
        codec=codec_from_name(compression),
    )
    common = CommonOptions.of(master, conf, as_json, dry_run, metrics_file)
    run_job("repartition", run, options, common, goes_on=True)
