"""Options of the jobs that copy records to a topic: `spark replay` and `spark repartition`."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from tidelog.cli.options import checked_topic

__all__ = ["CompressionOption", "IdOption", "TargetOption"]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def _checked_codec(name: str) -> str:
    if name not in CODECS:
        raise typer.BadParameter(f"{name}: it may be {', '.join(CODECS[:-1])} or {CODECS[-1]}")
    return name


TargetOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--target",
        metavar="TOPIC",
        help="Where the records go. Made if missing, with retention.ms=-1: records may be older "
        "than retention allows.",
        callback=checked_topic,
        show_default=False,
    ),
]

IdOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="NAME",
        help="What this transfer is remembered by, to go on with it; made of source and target "
        "where none is given. Another one copies all again.",
        show_default=False,
    ),
]

CompressionOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--compression",
        metavar="|".join(CODECS),
        help="How batches are compressed.",
        callback=_checked_codec,
    ),
]
