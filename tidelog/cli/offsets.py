"""`tidelog offsets`: where the partitions of a topic begin and end, and what lies at a time."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from tidelog.cli import output
from tidelog.cli.errors import CommandError, broker_error_text
from tidelog.cli.options import DEFAULT_BROKER, BrokerOption, JsonOption, TopicArgument
from tidelog.cli.times import parse_time, time_ms

PartitionOption: TypeAlias = Annotated[
    list[int] | None,
    typer.Option(min=0, metavar="N", help="Only this partition; may be given again."),
]

TimeOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Show the offset of the first message at or after an ISO 8601 time (local, "
        "unless it has a zone), or at the beginning or end.",
    ),
]


def offsets(
    topic: TopicArgument,
    *,
    partition: PartitionOption = None,
    time: TimeOption = None,
    broker: BrokerOption = DEFAULT_BROKER,
    as_json: JsonOption = False,
) -> None:
    """Show where the partitions of a topic begin and end, or which offset belongs to a time.

    The end is the high watermark: the offset that the next message to become readable will have.
    No message at or after a time is shown as "-", in JSON as null.

    Examples:
      tidelog offsets logs
      tidelog offsets logs --partition 0 --time 2026-11-21T08:00:00+00:00
    """
    from tidelog.client import Client

    when = None if time is None else _time(time)
    with Client(broker) as client:
        info = client.topics(topic)[0]
        if info.error:
            raise CommandError(broker_error_text(info.error, topic))
        numbers = range(len(info.partitions)) if not partition else sorted(set(partition))
        if numbers[-1] >= len(info.partitions):
            raise CommandError(f"{topic} has no partition {numbers[-1]}")
        if when is None:
            columns = ["partition", "log_start_offset", "high_watermark"]
            rows: list[list[int | None]] = []
            for part in (info.partitions[number] for number in numbers):
                if part.error:
                    raise CommandError(broker_error_text(part.error, f"{topic}-{part.partition}"))
                rows.append([part.partition, part.log_start_offset, part.high_watermark])
        else:
            columns = ["partition", "offset"]
            rows = [
                [number, next(iter(client.offsets(topic, number, time_ms=when)), None)]
                for number in numbers
            ]
    if as_json:
        output.write_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        output.write_table([column.replace("_", " ") for column in columns], rows)


def _time(text: str) -> int:
    from tidelog.client import EARLIEST, LATEST

    ends = {"beginning": EARLIEST, "end": LATEST}
    if text in ends:
        return ends[text]
    try:
        return time_ms(parse_time(text))
    except ValueError:
        raise typer.BadParameter(
            f"--time {text}: write beginning, end or a time such as 2026-11-21T08:00:00+00:00"
        ) from None
