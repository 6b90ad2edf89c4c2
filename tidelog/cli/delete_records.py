"""`tidelog delete-records`: moves the beginning of partitions forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from tidelog.cli import output
from tidelog.cli.errors import CommandError, ExitCode, broker_error_text
from tidelog.cli.options import DEFAULT_BROKER, BrokerOption, JsonOption, TopicArgument

if TYPE_CHECKING:
    from tidelog.client import DeletedRecords, TopicInfo

END: Final = "end"


PartitionsOption: TypeAlias = Annotated[
    list[int],
    typer.Option("--partition", min=0, metavar="N", help="The partition; may be given again."),
]

BeforeOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="OFFSET",
        help="Delete the messages below this offset; end deletes all there are.",
    ),
]


def delete_records(
    topic: TopicArgument,
    *,
    partition: PartitionsOption,
    before: BeforeOption,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    broker: BrokerOption = DEFAULT_BROKER,
    as_json: JsonOption = False,
) -> None:
    """Delete the oldest messages of a partition, for good.

    Readers find none of them from then on, and after a crash they stay gone. The space is given
    back by whole segments, as `tidelog segments explain` tells. To delete a topic with all that it
    is, use `tidelog topics delete`.

    Examples:
      tidelog delete-records logs --partition 0 --before 1000
      tidelog delete-records logs --partition 0 --partition 1 --before end --yes
    """
    from tidelog.client import Client

    numbers = sorted(set(partition))
    offset = _offset(before)
    with Client(broker) as client:
        info = client.topics(topic)[0]
        if info.error:
            raise CommandError(broker_error_text(info.error, topic))
        if numbers[-1] >= len(info.partitions):
            raise CommandError(f"{topic} has no partition {numbers[-1]}")
        if not yes:
            _ask(info, numbers, offset)
        results = client.delete_records(topic, dict.fromkeys(numbers, offset))
    if as_json:
        output.write_json([_value(each) for each in results])
    for each in results:
        name = f"{topic}-{each.partition}"
        if each.error:
            output.say(_error_text(info, each, offset))
        elif not as_json:
            output.say(f"{name} begins at offset {each.log_start_offset}")
    if any(each.error for each in results):
        raise typer.Exit(ExitCode.FAILED)


def _value(result: DeletedRecords) -> dict[str, int | str | None]:
    from protocol.error_codes import error_name

    return {
        "partition": result.partition,
        "error": error_name(result.error) if result.error else None,
        "log_start_offset": None if result.error else result.log_start_offset,
    }


def _offset(text: str) -> int:
    from tidelog.client import LATEST

    if text == END:
        return LATEST
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 63):
        raise typer.BadParameter(f"--before {text}: write an offset or {END}")
    return int(text)


def _error_text(info: TopicInfo, result: DeletedRecords, offset: int) -> str:
    """Return why nothing of a partition was deleted; `info` is what it was before."""
    part, name = info.partitions[result.partition], f"{info.name}-{result.partition}"
    text = broker_error_text(result.error, name)
    if offset <= part.high_watermark:
        return text
    return f"{text}: it ends at {part.high_watermark}, there is no {offset} yet"


def _ask(info: TopicInfo, numbers: list[int], offset: int) -> None:
    count = 0
    for part in (info.partitions[number] for number in numbers):
        if part.error:
            raise CommandError(broker_error_text(part.error, f"{info.name}-{part.partition}"))
        stop = part.high_watermark if offset < 0 else min(offset, part.high_watermark)
        count += max(0, stop - part.log_start_offset)
    where = ", ".join(f"{info.name}-{number}" for number in numbers)
    if not output.confirm(f"Delete {output.counted(count)} of {where} for good?"):
        raise CommandError(f"nothing of {info.name} was deleted")
