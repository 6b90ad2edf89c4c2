"""`tidelog spark compact`: topics of a data directory compacted by key, into another directory."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from tidelog.cli.options import JsonOption
from tidelog.cli.spark_jobs import run_job
from tidelog.cli.spark_options import (
    CommonOptions,
    ConfOption,
    DryRunOption,
    MasterOption,
    MetricsFileOption,
    checked_interval,
)
from tidelog.cli.times import interval_ms

MIB = 1 << 20


DirectoryArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="DIR",
        help="A data directory, or its URL in an object store; it is only read, and its broker "
        "may be running.",
        show_default=False,
    ),
]

OutputOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="DIR",
        help="Where the compacted partitions go: a data directory to start a broker on.",
        show_default=False,
    ),
]

TopicsOption: TypeAlias = Annotated[
    list[str],
    typer.Option(
        metavar="TOPIC",
        help="What is compacted; may be given again. Records without a key go.",
        show_default=False,
    ),
]

DeleteRetentionOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="How long tombstones stay from now on, such as 1d: Kafka's delete.retention.ms.",
        callback=checked_interval,
    ),
]

SegmentBytesOption: TypeAlias = Annotated[
    int, typer.Option(min=1024, metavar="BYTES", help="Begin a new segment before this.")
]

MemoryOption: TypeAlias = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="MIB",
        help="What the table of keys of one partition may take. With more keys they are read "
        "several times.",
    ),
]


def compact(
    path: DirectoryArgument,
    *,
    output: OutputOption,
    topic: TopicsOption,
    delete_retention: DeleteRetentionOption = "1d",
    segment_bytes: SegmentBytesOption = 128 * MIB,
    memory: MemoryOption = 1024,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
    dry_run: DryRunOption = False,
    metrics_file: MetricsFileOption = None,
) -> None:
    """Compact topics by key: of each key the last record stays, at its offset.

    As a broker's cleaner does it, but all of a log, its newest segment too, and beside the
    original. Records of undecided transactions, and what follows them, stay as they are.

    Examples:
      tidelog spark compact ./tidelog-data --topic accounts --output ./compacted
    """
    from tidelog.spark.jobs.compact import CompactOptions, run

    options = CompactOptions(
        path=path,
        output=output,
        topics=tuple(topic),
        delete_retention_ms=interval_ms(delete_retention),
        segment_bytes=segment_bytes,
        memory_bytes=memory * MIB,
    )
    common = CommonOptions.of(master, conf, as_json, dry_run, metrics_file)
    run_job("compact", run, options, common)
