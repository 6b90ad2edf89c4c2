"""`tidelog spark archive`: topics to a lake of Parquet files, each record once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from tidelog.cli import output
from tidelog.cli.options import JsonOption, TopicsOption
from tidelog.cli.segments_options import Isolation, IsolationOption
from tidelog.cli.spark_jobs import run_job
from tidelog.cli.spark_options import (
    CommonOptions,
    ConfOption,
    DirectoryArgument,
    DryRunOption,
    MasterOption,
    MetricsFileOption,
    checked_interval,
)
from tidelog.cli.stop_signals import StoppedError, StopSignals
from tidelog.cli.times import interval_ms

if TYPE_CHECKING:
    from tidelog.spark.jobs.archive_options import ArchiveOptions

TABLES: Final = ("delta", "iceberg")
ON_CORRUPT: Final = ("fail", "skip")
MEBIBYTE: Final = 1 << 20


def _checked_tables(names: list[str] | None) -> list[str]:
    for name in names or ():
        if name not in TABLES:
            raise typer.BadParameter(f"{name}: there are tables of {' and '.join(TABLES)}")
    return names or []


def _checked_on_corrupt(text: str) -> str:
    if text not in ON_CORRUPT:
        raise typer.BadParameter(f"{text}: it may be {' or '.join(ON_CORRUPT)}")
    return text


LakeOption: TypeAlias = Annotated[
    str, typer.Option("--to", metavar="LAKE", help="The lake's directory or URL; made if needed.")
]

SourceBrokerOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--broker", metavar="HOST:PORT", help="Instead of DIR: a running broker."),
]

IntervalOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--interval",
        metavar="TIME",
        help="Go on for ever, looking for new records so often, such as 30s or 10m.",
        callback=checked_interval,
    ),
]

CompactOption: TypeAlias = Annotated[
    bool, typer.Option("--compact", help="Merge small files of the lake; without DIR only that.")
]

TableOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="FORMAT",
        help="Keep a table over the same files, too: delta or iceberg; may be given again.",
        callback=_checked_tables,
    ),
]

IcebergCatalogOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--iceberg-catalog",
        metavar="NAME",
        help="A catalog in pyiceberg's configuration; else a SQLite file in the lake.",
    ),
]

FileMibOption: TypeAlias = Annotated[
    int, typer.Option("--file-mib", min=1, help="Size of a Parquet file that is large enough.")
]

TaskMibOption: TypeAlias = Annotated[
    int, typer.Option("--task-mib", min=1, help="Log read by one task.")
]

OnCorruptOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--on-corrupt",
        metavar="fail|skip",
        help="At damage: fail, or leave out what cannot be read.",
        callback=_checked_on_corrupt,
    ),
]

DataLossOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--fail-on-data-loss/--record-data-loss",
        help="If retention was faster: fail, or record the gap and go on (exit code 1).",
    ),
]

SingleWriterOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--single-writer",
        help="Nobody else writes to the lake. Needed where the object store cannot create a "
        "file only if there is none.",
    ),
]


def archive(
    path: DirectoryArgument = None,
    *,
    to: LakeOption,
    broker: SourceBrokerOption = None,
    topic: TopicsOption = None,
    interval: IntervalOption = None,
    compact: CompactOption = False,
    table: TableOption = None,
    iceberg_catalog: IcebergCatalogOption = None,
    file_mib: FileMibOption = 128,
    task_mib: TaskMibOption = 128,
    isolation: IsolationOption = Isolation.READ_COMMITTED,
    on_corrupt: OnCorruptOption = "fail",
    fail_on_data_loss: DataLossOption = True,
    single_writer: SingleWriterOption = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
    dry_run: DryRunOption = False,
    metrics_file: MetricsFileOption = None,
) -> None:
    """Archive topics as Parquet files: LAKE/TOPIC/data/partition=P/START-END.parquet.

    Each record is there exactly once, also for a reader that knows nothing of Tidelog and lists
    the directory, and whenever this command is killed: start it again, and it goes on. Several may
    run at a time. SIGTERM ends it behind the commit that is under way.

    Examples:
      tidelog spark archive ./tidelog-data --to ./lake
      tidelog spark archive --broker localhost:9091 --topic web-logs --to ./lake --interval 1m
      tidelog spark archive --to ./lake --compact --table delta
    """
    from tidelog.spark.jobs.archive import ArchiveOptions

    options = ArchiveOptions(
        lake=to, path=path, broker=broker, compact=compact,
        topics=tuple(topic) if topic else None,
        interval_s=None if interval is None else interval_ms(interval) / 1_000,
        tables=tuple(table or ()),  # type: ignore[arg-type]  # checked above
        iceberg_catalog=iceberg_catalog,
        file_bytes=file_mib * MEBIBYTE, task_bytes=task_mib * MEBIBYTE,
        isolation=isolation.value,
        on_corrupt="skip" if on_corrupt == "skip" else "fail",
        fail_on_data_loss=fail_on_data_loss, is_single_writer=single_writer,
    )  # fmt: skip
    _run(options, CommonOptions.of(master, conf, as_json, dry_run, metrics_file))


def _run(options: ArchiveOptions, common: CommonOptions) -> None:
    """Run the job; a signal ends it behind the commit that is under way, a second one at once."""
    from tidelog.spark.jobs.archive import run

    with StopSignals("it ends behind the commit under way; again, and it ends at once") as signals:
        try:
            job = partial(run, wait=signals.wait, is_stopped=lambda: signals.requested is not None)
            run_job("archive", job, options, common, goes_on=True)
        except (typer.Exit, StoppedError):
            if signals.requested is None:
                raise
            output.say("stopped; the same command goes on where it was")
            raise typer.Exit(signals.requested) from None
