"""Output: results to standard output, for people or as JSON; everything else to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal

import typer

SIZE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
COLUMN_GAP: Final = 3
"""Between two columns of a terminal's table."""
TEXT_WIDTH_MIN: Final = 16
"""Of a column on a terminal: longer text may go on in a second line, a number may not."""


def write_line(text: str) -> None:
    """Write one line of the result."""
    typer.echo(text)


def write_json(value: Any) -> None:
    """Write a value as one line of JSON."""
    typer.echo(json.dumps(value))


def say(text: str) -> None:
    """Tell the person at the terminal something that is not the result."""
    typer.echo(f"tidelog: {text}", err=True)


def confirm(question: str) -> bool:
    """Ask the person at the terminal; anything but a yes is a no, as is the end of the input."""
    typer.echo(f"{question} [y/N] ", nl=False, err=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):  # nobody is there; what follows begins a line of its own
        typer.echo(err=True)
    return answer.strip().lower() in ("y", "yes")


def write_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write rows below their column names; columns of numbers are aligned to the right.

    On a terminal with rich, or row below row where it is too narrow; elsewhere plain and never
    shortened, for awk and its friends.
    """
    cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    numeric = [
        all(isinstance(row[number], int | float | None) for row in rows)
        for number in range(len(columns))
    ]
    if sys.stdout.isatty():
        _write_rich_table(columns, cells, numeric)
        return
    lines = [[name.upper() for name in columns], *cells]
    widths = [max(len(line[number]) for line in lines) for number in range(len(columns))]
    for line in lines:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        write_line("  ".join(padded).rstrip())


def _write_rich_table(
    columns: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool]
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    widths = []
    for number, (name, right) in enumerate(zip(columns, numeric, strict=True)):
        width = max((len(row[number]) for row in cells), default=0)
        width = max(width if right else min(width, TEXT_WIDTH_MIN), *map(len, name.split()))
        justify: Literal["left", "right"] = "right" if right else "left"
        table.add_column(name, justify=justify, overflow="fold", min_width=width)
        widths.append(width)
    if sum(widths) + COLUMN_GAP * len(widths) > console.width:
        _write_row_by_row(columns, cells)
        return
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)


def _write_row_by_row(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Write a line a cell: a number that is broken over lines cannot be read."""
    width = max(map(len, columns))
    for row in cells:
        write_line("")
        for name, cell in zip(columns, row, strict=True):
            write_line(f"{name:{width}}  {cell}")


@contextmanager
def progress_bar(
    description: str, total: int | None, *, is_shown: bool | None = None
) -> Iterator[Callable[[int], None]]:
    """Show a bar of bytes on standard error; yield what advances it.

    Args:
        total: Bytes in all; None where nobody knows.
        is_shown: None: if standard error is a terminal.
    """
    if is_shown is None:
        is_shown = sys.stderr.isatty()
    if not is_shown:
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    # On a terminal it vanishes when it is done; in a file its last state stays.
    is_terminal = sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=is_terminal) as progress:
        task = progress.add_task(description, total=total)
        yield lambda size: progress.advance(task, size)


def counted(count: int) -> str:
    """Return "1 message", "2,000 messages"."""
    return f"{count:,} message{'' if count == 1 else 's'}"


def size_text(size_bytes: int) -> str:
    """Return a number of bytes as people read it, such as "1.5 MiB"."""
    size, unit = float(size_bytes), 0
    while size >= 1024 and unit < len(SIZE_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size_bytes} B" if unit == 0 else f"{size:.1f} {SIZE_UNITS[unit]}"
