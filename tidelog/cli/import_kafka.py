"""`tidelog import-kafka`: takes over the topics of a stopped Apache Kafka broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from tidelog.cli import output
from tidelog.cli.errors import ExitCode

if TYPE_CHECKING:
    from broker.offline import FileFinding, ImportPlan

LEFT_OUT_SHOWN = 20


SourcesArgument: TypeAlias = Annotated[
    list[Path],
    typer.Argument(
        metavar="DIR...",
        help="Kafka's data directories (log.dirs), its broker stopped.",
        show_default=False,
    ),
]

IntoOption: TypeAlias = Annotated[
    Path,
    typer.Option(
        "--into",
        metavar="DIR",
        help="The data directory to fill: the first of storage.data_dirs. Made if missing.",
        show_default=False,
    ),
]

TopicsOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="NAME", help="Only this topic; may be repeated."),
]

LinkOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--link/--copy",
        help="Hard-link sealed segments instead of copying them: fast, takes no space, and "
        "Kafka must not be started on DIR again.",
    ),
]

DryRunOption: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Look and check, but bring nothing.")
]

TakeDamagedOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--take-damaged",
        help="Bring files with errors too; reads inside the damage answer CORRUPT_MESSAGE.",
    ),
]

ProgressOption: TypeAlias = Annotated[
    bool | None,
    typer.Option("--progress/--quiet", help="Show progress bars, or none.", show_default=False),
]

JsonOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Write what is brought and left out as one object.")
]


def import_kafka(
    sources: SourcesArgument,
    *,
    into: IntoOption,
    topics: TopicsOption = None,
    link: LinkOption = False,
    dry_run: DryRunOption = False,
    take_damaged: TakeDamagedOption = False,
    progress: ProgressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take over the topics of a stopped Apache Kafka broker, with their settings and offsets.

    The source is only read. Every file is checked first, as by `tidelog verify`; with errors
    nothing is brought, unless --take-damaged says so. Settings come from Kafka's own metadata
    where it is there; a topic whose retention is not known deletes nothing until you set it with
    `tidelog topics alter`. Tidelog can also be started on a copy of DIR as it is.

    Examples:
      tidelog import-kafka /var/lib/kafka/data --into ./tidelog-data --dry-run
      tidelog import-kafka /data/kafka-1 /data/kafka-2 --into /data/tidelog --link
    """
    from broker.offline import carry_out, check_import, plan_import

    plan = plan_import(sources, into, topics=topics or ())
    errors = 0
    with output.progress_bar("checking", plan.size_bytes, is_shown=progress) as advance:
        for finding in check_import(plan, on_bytes=advance):
            errors += _tell(finding)
    is_refused = bool(errors) and not take_damaged
    if not (dry_run or is_refused):
        with output.progress_bar("bringing", plan.size_bytes, is_shown=progress) as advance:
            carry_out(plan, link=link, on_bytes=advance)
    is_done = not (dry_run or is_refused)
    if as_json:
        output.write_json(_value(plan, errors, is_done=is_done))
    else:
        _write(plan, is_done=is_done)
    if is_refused:
        output.say(
            f"{_counted(errors, 'error')} found, nothing brought: mend them with Kafka, name the "
            "other topics with --topic, or say --take-damaged"
        )
        raise typer.Exit(ExitCode.FAILED)


def _tell(finding: FileFinding) -> int:
    """Say what is wrong with a file on standard error; return how many errors it has."""
    errors = 0
    for problem in finding.problems:
        if problem.severity != "note":
            output.say(f"{finding.path}: {problem.severity}: {problem.text}")
        errors += problem.severity == "error"
    return errors


def _write(plan: ImportPlan, *, is_done: bool) -> None:
    rows = [
        (
            topic.entry.name,
            len(topic.partitions),
            output.size_text(sum(each.size_bytes for each in topic.partitions)),
            "Kafka's" if topic.are_settings_known else "not known: deletes nothing",
        )
        for topic in plan.topics
    ]
    output.write_table(("topic", "partitions", "size", "settings"), rows)
    for topic in plan.topics:
        if topic.missing:
            numbers = ", ".join(map(str, topic.missing))
            output.say(f"{topic.entry.name}: partitions {numbers} are in no source: empty here")
    for each in plan.left_out[:LEFT_OUT_SHOWN]:
        output.say(f"left out: {each.path}: {each.reason}")
    if len(plan.left_out) > LEFT_OUT_SHOWN:
        output.say(f"left out: {len(plan.left_out) - LEFT_OUT_SHOWN} more; --json names all")
    brought = "brought" if is_done else "would be brought"
    output.write_line(
        f"{_counted(len(plan.topics), 'topic')}, {_counted(len(plan.partitions), 'partition')}, "
        f"{output.size_text(plan.size_bytes)} {brought} into {plan.target}"
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _value(plan: ImportPlan, errors: int, *, is_done: bool) -> dict[str, Any]:
    return {
        "done": is_done,
        "errors": errors,
        "target": str(plan.target),
        "topics": [
            {
                "topic": topic.entry.name,
                "topic_id": str(topic.entry.topic_id),
                "partitions": [each.topic_partition.partition for each in topic.partitions],
                "missing_partitions": topic.missing,
                "size_bytes": sum(each.size_bytes for each in topic.partitions),
                "settings": dict(topic.entry.settings),
                "settings_known": topic.are_settings_known,
            }
            for topic in plan.topics
        ],
        "left_out": [{"path": str(each.path), "reason": each.reason} for each in plan.left_out],
    }
