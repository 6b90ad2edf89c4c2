"""`tidelog consume`: messages of a topic to standard output."""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from tidelog.cli import message_format
from tidelog.cli.errors import CommandError
from tidelog.cli.options import DEFAULT_BROKER, BrokerOption, TopicArgument
from tidelog.cli.times import parse_time

if TYPE_CHECKING:
    from tidelog.client import Client, Message, Start, TopicInfo

FOLLOW_RETRIES: Final = 60
"""A second apart: a restart of the broker does not end `--follow`."""


class Format(enum.StrEnum):
    """How a message is written."""

    RAW = "raw"
    JSON = "json"
    TEMPLATE = "template"


PartitionOption: TypeAlias = Annotated[
    list[int] | None,
    typer.Option(min=0, metavar="N", help="Only this partition; may be given again."),
]

StartOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="START",
        help="Where to begin: beginning, end, an offset, or an ISO 8601 time (local, unless "
        "it has a zone) for the first message at or after it.",
    ),
]

FollowOption: TypeAlias = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on with what comes in, until Ctrl-C.")
]

MaxOption: TypeAlias = Annotated[
    int | None, typer.Option("--max", min=0, metavar="N", help="Stop after so many messages.")
]

FormatOption: TypeAlias = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="raw: the value and a newline; json: an object a line; template: see --template. "
        "Without it raw, or template if there is one.",
        show_default=False,
    ),
]

TemplateOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="What to write for each message, such as '{offset} {key} {value}'; also {topic}, "
        "{partition}, {timestamp} (ms) and {time}.",
    ),
]


def consume(
    topic: TopicArgument,
    *,
    partition: PartitionOption = None,
    start: StartOption = "beginning",
    follow: FollowOption = False,
    count_max: MaxOption = None,
    form: FormatOption = None,
    template: TemplateOption = None,
    broker: BrokerOption = DEFAULT_BROKER,
) -> None:
    r"""Write the messages of a topic to standard output.

    Messages of a partition come in the order of their offsets; several partitions come in turn.
    Without --follow it ends at what was the end when it began; with it, a broker that is away is
    waited for, a minute or so. With json, a key or value that is
    not UTF-8 is written as base64, beside a field such as "value_encoding" that says so. In a
    template \t, \n and \0 are a tab, a newline and a zero byte.

    Examples:
      tidelog consume logs --from beginning --max 10
      tidelog consume logs --from 2026-11-21T08:00:00+00:00 --follow --format json
      tidelog consume users --template '{partition}/{offset} {key}: {value}'
    """
    from tidelog.client import Client

    formatter = _formatter(form, template)
    begin = _start(start)
    if count_max == 0:
        return
    with Client(broker) as client:
        # Whether there is a broker is told soon, also with --follow.
        _check_start(client.topics(topic)[0], partition, begin)
    with Client(broker, retries=FOLLOW_RETRIES) if follow else Client(broker) as client:
        messages = _messages(client, topic, partition, begin, follow)
        _write(messages, formatter, count_max, sys.stdout.buffer)


def _check_start(info: TopicInfo, partitions: list[int] | None, start: Start) -> None:
    """Refuse an offset that no partition has come to, or that is gone in all of them.

    The first would give an empty output that does not tell why.
    """
    if not isinstance(start, int):
        return
    chosen = [part for part in info.partitions if not partitions or part.partition in partitions]
    if chosen and all(part.high_watermark < start for part in chosen):
        end = max(part.high_watermark for part in chosen)
        raise CommandError(
            f"{info.name} ends at offset {end}, there is no {start} yet (OFFSET_OUT_OF_RANGE)"
        )
    if chosen and all(start < part.log_start_offset for part in chosen):
        begin = min(part.log_start_offset for part in chosen)
        raise CommandError(
            f"{info.name} begins at offset {begin}, {start} is gone (OFFSET_OUT_OF_RANGE)"
        )


def _messages(
    client: Client, topic: str, partitions: list[int] | None, start: Start, follow: bool
) -> Iterator[list[Message]]:
    return client.message_lists(
        topic, sorted(set(partitions)) if partitions else None, start=start, follow=follow
    )


def _write(
    lists: Iterator[list[Message]],
    formatter: message_format.Formatter,
    count_max: int | None,
    stream: IO[bytes],
) -> None:
    """Write the messages, each list at once: whoever reads a pipe gets them as they come."""
    left = count_max
    for messages in lists:
        if left is not None:
            messages = messages[:left]
            left -= len(messages)
        stream.write(b"".join(formatter(message) + b"\n" for message in messages))
        stream.flush()
        if left == 0:
            return


def _formatter(form: Format | None, template: str | None) -> message_format.Formatter:
    if template is not None:
        if form not in (None, Format.TEMPLATE):
            raise typer.BadParameter("--template goes with --format template only")
        try:
            return message_format.template(template)
        except ValueError as error:
            raise typer.BadParameter(f"--template: {error}") from None
    if form is Format.TEMPLATE:
        raise typer.BadParameter("--format template needs --template")
    return message_format.as_json if form is Format.JSON else message_format.raw


def _start(text: str) -> Start:
    if text in ("beginning", "end"):
        return text  # type: ignore[return-value]
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return parse_time(text)
    except ValueError:
        raise typer.BadParameter(
            f"--from {text}: write beginning, end, an offset or a time such as "
            "2026-11-21T08:00:00+00:00"
        ) from None
