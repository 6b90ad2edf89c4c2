"""`tidelog topics`: list, describe, create, alter and delete topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli import output
from tidelog.cli.errors import CommandError, broker_error_text
from tidelog.cli.options import DEFAULT_BROKER, BrokerOption, JsonOption, TopicArgument

if TYPE_CHECKING:
    from tidelog.client import PartitionInfo, TopicInfo


def list_topics(broker: BrokerOption = DEFAULT_BROKER, as_json: JsonOption = False) -> None:
    """List all topics.

    "messages" counts the offsets between log start and high watermark.

    Examples:
      tidelog topics list
      tidelog topics list --json | jq -r '.[].name'
    """
    from tidelog.client import Client

    with Client(broker) as client:
        topics = sorted(client.topics())
    if as_json:
        output.write_json([_topic_value(topic) for topic in topics])
        return
    rows = [
        (
            topic.name,
            len(topic.partitions),
            sum(map(_message_count, topic.partitions)),
            output.size_text(sum(max(0, part.size_bytes) for part in topic.partitions)),
            _errors_text([topic.error, *(part.error for part in topic.partitions)]),
        )
        for topic in topics
    ]
    output.write_table(("topic", "partitions", "messages", "size", "errors"), rows)


def describe(
    topic: TopicArgument, broker: BrokerOption = DEFAULT_BROKER, as_json: JsonOption = False
) -> None:
    """Show the partitions of a topic: where each begins and ends, and its size on the disk.

    Example:
      tidelog topics describe logs
    """
    from tidelog.client import Client

    with Client(broker) as client:
        info = client.topics(topic)[0]
    if info.error:
        raise CommandError(broker_error_text(info.error, topic))
    if as_json:
        output.write_json(_topic_value(info))
        return
    rows = [
        (
            part.partition,
            None if part.error else part.log_start_offset,
            None if part.error else part.high_watermark,
            None if part.error else output.size_text(part.size_bytes),
            _errors_text([part.error]),
        )
        for part in info.partitions
    ]
    output.write_table(("partition", "log start", "high watermark", "size", "errors"), rows)


def create(
    topic: TopicArgument,
    partitions: Annotated[int, typer.Option(min=1, metavar="N", help="How many partitions.")] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting of the topic, under Kafka's name; may be given again.",
        ),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Be content if the topic is there already.")
    ] = False,
    broker: BrokerOption = DEFAULT_BROKER,
) -> None:
    """Create a topic.

    Examples:
      tidelog topics create logs --partitions 4
      tidelog topics create audit --set retention.ms=-1 --set flush.policy=commit
    """
    from tidelog.client import BrokerError, Client, ErrorCode

    values = _settings(settings or [])
    with Client(broker) as client:
        try:
            client.create_topic(topic, partitions, values)
        except BrokerError as error:
            if not (if_not_exists and error.number == ErrorCode.TOPIC_ALREADY_EXISTS):
                raise
            output.say(f"{topic} is there already")
            return
    output.say(f"created {topic} with {partitions} partition{'s' if partitions > 1 else ''}")


def alter(
    topic: TopicArgument,
    *,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting to change, under Kafka's name; may be given again.",
        ),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(
            "--unset",
            metavar="KEY",
            help="A setting to put back to the broker's default; may be given again.",
        ),
    ] = None,
    broker: BrokerOption = DEFAULT_BROKER,
    as_json: JsonOption = False,
) -> None:
    """Change settings of a topic, while it is in use.

    All of them are changed or none; what is not named stays as it is. They are durable and in
    effect at once: the next messages follow them, retention and compaction from their next round
    on.

    Examples:
      tidelog topics alter logs --set retention.ms=86400000 --set segment.bytes=268435456
      tidelog topics alter logs --unset retention.ms
    """
    from tidelog.client import Client

    changes: dict[str, str | None] = dict(_settings(settings or []))
    for key, value in changes.items():
        if not value:
            raise typer.BadParameter(f"--set {key}=: write --unset {key} for the broker's default")
    for key in unset or []:
        if key in changes:
            raise typer.BadParameter(f"{key} is given twice")
        changes[key] = None
    if not changes:
        raise typer.BadParameter("nothing to change: write --set key=value or --unset key")
    with Client(broker) as client:
        client.alter_topic(topic, changes)
    if as_json:
        output.write_json({"topic": topic, "changed": changes})
    else:
        output.say(f"altered {topic}: {', '.join(map(_change_text, changes.items()))}")


def _change_text(change: tuple[str, str | None]) -> str:
    key, value = change
    return f"{key} back to the default" if value is None else f"{key}={value}"


def delete(
    topic: TopicArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    broker: BrokerOption = DEFAULT_BROKER,
) -> None:
    """Delete a topic with everything in it.

    Example:
      tidelog topics delete logs --yes
    """
    from tidelog.client import Client

    with Client(broker) as client:
        if not yes:
            info = client.topics(topic)[0]
            if info.error:
                raise CommandError(broker_error_text(info.error, topic))
            count = sum(map(_message_count, info.partitions))
            if not output.confirm(f"Delete {topic} and its {output.counted(count)}?"):
                raise CommandError(f"{topic} was not deleted")
        client.delete_topic(topic)
    output.say(f"deleted {topic}")


def _settings(texts: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"--set {text}: write --set key=value")
        if key in values:
            raise typer.BadParameter(f"--set {key} is given twice")
        values[key] = value
    return values


def _message_count(partition: PartitionInfo) -> int:
    return 0 if partition.error else partition.high_watermark - partition.log_start_offset


def _errors_text(errors: Sequence[int]) -> str | None:
    from protocol.error_codes import error_name

    return ", ".join(sorted({error_name(error) for error in errors if error})) or None


def _topic_value(topic: TopicInfo) -> dict[str, Any]:
    return {
        "name": topic.name,
        "error": _errors_text([topic.error]),
        "partitions": [
            {
                "partition": part.partition,
                "error": _errors_text([part.error]),
                "log_start_offset": None if part.error else part.log_start_offset,
                "high_watermark": None if part.error else part.high_watermark,
                "size_bytes": None if part.error else part.size_bytes,
            }
            for part in topic.partitions
        ],
    }
