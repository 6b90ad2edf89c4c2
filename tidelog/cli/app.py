"""App: the command line as typer has it: which commands there are, and what becomes of errors."""

from __future__ import annotations

import importlib.metadata
import inspect
import os
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from tidelog.cli import (
    config,
    consume,
    delete_records,
    doctor,
    dump,
    import_kafka,
    offsets,
    output,
    produce,
    segments,
    segments_data,
    spark_archive,
    spark_audit,
    spark_compact,
    spark_lag,
    spark_repartition,
    spark_replay,
    spark_stats,
    topics,
    verify,
)
from tidelog.cli.errors import TRACEBACK_VARIABLE, ExitCode, explained, usage_error
from tidelog.cli.health import health
from tidelog.cli.serve import serve

COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "produce": produce.produce,
    "consume": consume.consume,
    "topics list": topics.list_topics,
    "topics describe": topics.describe,
    "topics create": topics.create,
    "topics alter": topics.alter,
    "topics delete": topics.delete,
    "offsets": offsets.offsets,
    "delete-records": delete_records.delete_records,
    "segments explain": segments.explain,
    "segments head": segments_data.head,
    "segments count": segments_data.count,
    "segments to-parquet": segments_data.to_parquet,
    "segments to-arrow": segments_data.to_arrow,
    "doctor": doctor.doctor,
    "dump": dump.dump,
    "verify": verify.verify,
    "import-kafka": import_kafka.import_kafka,
    "config print": config.print_config,
    "config check": config.check,
    "spark archive": spark_archive.archive,
    "spark audit": spark_audit.audit,
    "spark compact": spark_compact.compact,
    "spark lag": spark_lag.lag,
    "spark repartition": spark_repartition.repartition,
    "spark replay": spark_replay.replay,
    "spark stats": spark_stats.stats,
}
"""Beside `serve` and `health`, which read their arguments themselves."""

GROUPS: Final = {
    "topics": "List, describe, create, alter and delete topics.",
    "segments": "Show the files of a topic and how long each stays; read records from them.",
    "config": "Show and check the daemon's configuration.",
    "spark": "Run jobs over topics, segments and lakes with Spark, here or on a cluster.",
}

PASSED_ON: Final = {"allow_extra_args": True, "ignore_unknown_options": True}


class CommandGroup(TyperGroup):
    """Turns what goes wrong in a command into one sentence on standard error and an exit code."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        try:
            return super().make_context(*args, **extra)
        except Exception as error:
            _end_command(error)
            raise

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            _end_command(error)
            raise


def _end_command(error: BaseException) -> None:
    """End the command if the error is one to be told; return if it is typer's or a bug."""
    usage = usage_error(error)
    known = (usage, ExitCode.USAGE) if usage is not None else explained(error)
    if known is None:
        return
    if known[0]:
        output.say(known[0])
    raise typer.Exit(known[1]) from error


def _version(is_asked: bool) -> None:
    if is_asked:
        try:
            output.write_line(f"tidelog {importlib.metadata.version('tidelog')}")
        except importlib.metadata.PackageNotFoundError:
            output.write_line("tidelog unknown")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Tidelog: a log-storage broker, its clients and its tools.

    Commands that ask a broker ask localhost:9091, or what --broker or TIDELOG_BROKER says.
    """


def _serve(ctx: typer.Context) -> None:
    """Run the broker in the foreground until SIGTERM."""
    raise typer.Exit(serve(ctx.args))


def _health(ctx: typer.Context) -> None:
    """Ask a broker whether it is well; for HEALTHCHECK lines and probes."""
    raise typer.Exit(health(ctx.args))


def paragraphs(function: Callable[..., None]) -> list[str]:
    """Return the paragraphs of a command's docstring, each on one line; examples as they are."""
    return [
        paragraph if paragraph.startswith("Example") else " ".join(paragraph.split())
        for paragraph in inspect.cleandoc(function.__doc__ or "").split("\n\n")
    ]


def _help(function: Callable[..., None]) -> str:
    first, *others = paragraphs(function)
    # The empty one keeps typer from taking the examples' indentation for that of the whole.
    return "\n\n".join([first, "", *others])


def _group(help_text: str, **settings: Any) -> typer.Typer:
    return typer.Typer(
        help=help_text,
        rich_markup_mode="rich",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        **settings,
    )


def make_app() -> typer.Typer:
    """Return the whole command line."""
    app = _group("", cls=CommandGroup)
    app.callback(help=_help(_root))(_root)
    for name, function in (("serve", _serve), ("health", _health)):
        app.command(name, add_help_option=False, context_settings=PASSED_ON)(function)
    groups = {name: _group(help_text) for name, help_text in GROUPS.items()}
    for name, function in COMMANDS.items():
        group, _, last = name.rpartition(" ")
        (groups[group] if group else app).command(last, help=_help(function))(function)
    for name, made in groups.items():
        app.add_typer(made, name=name)
    return app


app: Final = make_app()


def execute(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code."""
    try:
        app(list(arguments), prog_name="tidelog")
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else ExitCode.FAILED
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        bug = " ".join(f"{type(error).__name__}: {error}".split())
        output.say(f"this is a bug: {bug}; {TRACEBACK_VARIABLE}=1 in the environment shows where")
        return ExitCode.FAILED
    return ExitCode.DONE
