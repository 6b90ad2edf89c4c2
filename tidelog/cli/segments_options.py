"""What can be said on the command line about records of log files."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from tidelog.cli import output
from tidelog.cli.times import parse_time, time_ms

if TYPE_CHECKING:
    from tidelog.segments.reader import Selection

ALL_COLUMNS: Final = (
    "topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers",
)  # fmt: skip


class OnCorrupt(enum.StrEnum):
    """What to do at damage."""

    FAIL = "fail"
    SKIP = "skip"
    TAG = "tag"


class Isolation(enum.StrEnum):
    """Whether records of aborted transactions are records."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class Compression(enum.StrEnum):
    """How columns of Parquet are compressed."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    GZIP = "gzip"
    NONE = "none"


PathArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="PATH",
        help="A data directory, a partition's directory or one .log file; or a URL such as "
        "s3://bucket/logs.",
        show_default=False,
    ),
]

FileArgument: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FILE", help="The file to make.", show_default=False)
]

StreamArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="The file to make; - writes a stream of Arrow to standard output.",
        show_default=False,
    ),
]

PartitionsOption: TypeAlias = Annotated[
    list[int] | None,
    typer.Option(
        "--partition", min=0, metavar="N", help="Only this partition; may be given again."
    ),
]

StartOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="START",
        help="Begin at this offset, or at this ISO 8601 time (local, unless it has a zone).",
        show_default=False,
    ),
]

EndOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="END",
        help="Leave out what is at or above this offset, or at or after this time.",
        show_default=False,
    ),
]

ColumnsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Only these, in this order, with commas between them; of "
        + ", ".join(ALL_COLUMNS)
        + ".",
        show_default="all",
    ),
]

OnCorruptOption: TypeAlias = Annotated[
    OnCorrupt,
    typer.Option(
        help="At damage: fail; skip it and say so; or tag: also write a row for it, with what is "
        "wrong in a column `corrupt`."
    ),
]

IsolationOption: TypeAlias = Annotated[
    Isolation, typer.Option(help="Whether to leave out what aborted transactions have written.")
]

CrcOption: TypeAlias = Annotated[
    bool, typer.Option("--check-crc/--no-check-crc", help="Check the CRC of every batch.")
]

ControlOption: TypeAlias = Annotated[
    bool, typer.Option("--control", help="Also count or write the markers of transactions.")
]

ForceOption: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Replace FILE if it is there.")
]

CompressionOption: TypeAlias = Annotated[
    Compression, typer.Option(help="How to compress the columns.")
]

MaxOption: TypeAlias = Annotated[
    int, typer.Option("--max", "-n", min=0, metavar="N", help="So many records.")
]

JsonLinesOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Write an object for each record, one a line.")
]

ProgressOption: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--progress/--quiet",
        help="Show a progress bar, or none. Without either there is one on a terminal.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the options say, as they are given."""

    topics: list[str] | None
    partitions: list[int] | None
    start: str | None
    end: str | None
    columns: str | None
    on_corrupt: OnCorrupt
    isolation: Isolation
    check_crc: bool
    control: bool

    def select(self, path: str, columns: tuple[str, ...] = ALL_COLUMNS) -> Selection:
        """Look up what that is of the files under a path.

        Args:
            columns: If the options do not say.

        Raises:
            SegmentError: there is nothing, or it cannot be read.
        """
        from tidelog.segments.reader import select

        names = columns if self.columns is None else tuple(self.columns.split(","))
        selection = select(path, columns=names, **self._arguments())
        for topic in self.topics or ():
            if all(split.topic != topic for split in selection.splits):
                output.say(f"nothing of the topic {topic} is in {path}")
        return selection

    def _arguments(self) -> dict[str, Any]:
        named: dict[str, Any] = {
            "topics": self.topics or None, "partitions": self.partitions or None,
            "on_corrupt": self.on_corrupt.value, "isolation": self.isolation.value,
            "check_crc": self.check_crc, "include_control": self.control,
        }  # fmt: skip
        for option, name, text in (("--from", "start", self.start), ("--to", "end", self.end)):
            if text is not None:
                kind, value = _place(option, text)
                named[f"{name}_{kind}"] = value
        return named


def _place(option: str, text: str) -> tuple[str, int]:
    if text.isdecimal():
        return "offset", int(text)
    try:
        return "timestamp", time_ms(parse_time(text))
    except ValueError:
        raise typer.BadParameter(
            f"{option} {text}: neither an offset nor an ISO 8601 time"
        ) from None
