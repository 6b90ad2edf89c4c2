"""`tidelog segments`: which files a topic is kept in, and how long each of them stays."""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from tidelog.cli import output
from tidelog.cli.errors import CommandError, ExitCode
from tidelog.cli.health import http_address
from tidelog.cli.options import JsonOption, TopicArgument

if TYPE_CHECKING:
    from broker.offline import TopicExplanation

TIMEOUT_S = 30.0


PartitionsOption: TypeAlias = Annotated[
    list[int] | None,
    typer.Option(
        "--partition", min=0, metavar="N", help="Only this partition; may be given again."
    ),
]

UrlOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where the broker's HTTP port is; http://localhost:9644, or what "
        "TIDELOG__HTTP__HOST and TIDELOG__HTTP__PORT say.",
        show_default=False,
    ),
]

OfflineOption: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="DIR",
        help="Ask no broker: read this data directory of a stopped one; the first one first, "
        "if it has several.",
    ),
]

ConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="With --offline: the broker's settings, which topics without their own have.",
    ),
]


def explain(
    topic: TopicArgument,
    *,
    partition: PartitionsOption = None,
    url: UrlOption = None,
    offline: OfflineOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say of each segment of a topic why it is kept, or when it goes and by which rule.

    A segment goes as a whole, and the oldest goes first. By time it goes when its newest record
    is older than retention.ms; by size while the segments behind it fill retention.bytes; and when
    delete-records has moved the log start behind it. "next round" is within the broker's
    retention_check_ms. Changes nothing, neither of a broker nor of files.

    Examples:
      tidelog segments explain logs
      tidelog segments explain logs --partition 0 --offline ./tidelog-data
    """
    numbers = sorted(set(partition or []))
    if offline:
        if url is not None:
            raise typer.BadParameter("--url asks a broker, --offline does not: give one of them")
        value = _from_files(topic, numbers, offline, config)
    else:
        if config is not None:
            raise typer.BadParameter("--config is for --offline: a broker knows its settings")
        value = _from_broker(topic, numbers, url)
    if as_json:
        output.write_json(value)
    else:
        _write(value)
    if any(part["error"] for part in value["partitions"]):
        raise typer.Exit(ExitCode.FAILED)


def _from_files(
    topic: str, partitions: Sequence[int], directories: Sequence[Path], config: Path | None
) -> dict[str, Any]:
    import msgspec

    from broker import offline

    try:
        loaded = offline.load(config, environment=os.environ)
    except offline.InvalidConfigurationError as error:
        raise CommandError("; ".join(map(str, error.problems))) from None
    found: TopicExplanation = offline.explain_stopped(
        directories,
        topic,
        partitions,
        defaults=loaded.config.topics.log_config(),
        now_ms=time.time_ns() // 1_000_000,
    )
    value: dict[str, Any] = msgspec.to_builtins(found)
    return value


def _from_broker(topic: str, partitions: Sequence[int], url: str | None) -> dict[str, Any]:
    import http.client
    import urllib.parse

    try:
        host, port = http_address(url, os.environ)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    query = urllib.parse.urlencode([("partition", number) for number in partitions])
    path = f"/v1/topics/{urllib.parse.quote(topic)}/segments?{query}"
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or error
        raise CommandError(
            f"cannot reach the broker's HTTP port at {host}:{port}: {reason}", ExitCode.UNREACHABLE
        ) from error
    finally:
        connection.close()
    try:
        value: dict[str, Any] = json.loads(body)
        if answer.status != 200:
            raise CommandError(value["error"])
    except (ValueError, KeyError, TypeError):
        raise CommandError(f"what answers at {host}:{port} is no Tidelog broker") from None
    return value


def _write(value: dict[str, Any]) -> None:
    output.write_line(
        f"{value['topic']}: cleanup.policy={value['cleanup_policy']} "
        f"retention.ms={value['retention_ms']} retention.bytes={value['retention_bytes']}"
    )
    rows = [
        (
            part["partition"],
            segment["base_offset"],
            segment["end_offset"],
            output.size_text(segment["size_bytes"]),
            _time_text(segment["largest_timestamp_ms"]),
            "next round" if segment["goes_next_round"] else _time_text(segment["due_at_ms"]),
            _why(part, segment),
        )
        for part in value["partitions"]
        for segment in part["segments"]
    ]
    columns = ("partition", "from", "to below", "size", "newest record", "goes", "why")
    output.write_table(columns, rows)
    for part in value["partitions"]:
        if part["error"]:
            output.say(f"{value['topic']}-{part['partition']}: {part['error']}")


def _why(part: dict[str, Any], segment: dict[str, Any]) -> str:
    """Return why a segment is kept or goes, and which of its records nobody can read any more."""
    start, reason = part["log_start_offset"], str(segment["reason"])
    is_inside = segment["base_offset"] < start < segment["end_offset"]
    return f"{reason}; records below {start} are deleted already" if is_inside else reason


def _time_text(time_ms: int | None) -> str | None:
    """Return a time in the local zone, to the second; None where people would not read it."""
    if time_ms is None:
        return None
    try:
        moment = datetime.datetime.fromtimestamp(time_ms / 1000).astimezone()
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
    return moment.isoformat(timespec="seconds")
