"""Options of the jobs that copy records to a topic: `spark replay` and `spark repartition`."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

__all__ = ["CodecOption", "IdOption", "TargetOption"]

TargetOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--target",
        metavar="TOPIC",
        help="Where the records go. Made if missing, with retention.ms=-1: records may be older "
        "than retention allows.",
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

CodecOption: TypeAlias = Annotated[
    str,
    typer.Option("--codec", metavar="CODEC", help="Compression: none, gzip, snappy, lz4 or zstd."),
]
