"""Task groups: many files of any size as a few tasks of about the same size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from tidelog.spark.tasks import run_tasks

__all__ = ["grouped", "run_grouped"]

GROUP_BYTES: Final = 256 * 1024 * 1024
"""To one task: what one costs by itself, some 10 ms, is then little. With 64 MB it is a fifth."""
GROUPS_PER_SLOT: Final = 4
"""With fewer groups than this, the last one would leave the other cores idle for long."""

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def run_grouped(
    spark: Any,
    work: Callable[[Piece], Result],
    pieces: Sequence[Piece],
    size_of: Callable[[Piece], int],
    on_done: Callable[[int, int], object],
) -> list[Result]:
    """Do `work(piece)` for each piece, neighbours in one task; return the results in any order.

    Args:
        work: A function of a module, or a `partial` of one.
        size_of: Bytes that a piece has its task read.
        on_done: Told how many tasks are done, of how many.
    """
    groups = grouped(pieces, size_of, slots=spark.sparkContext.defaultParallelism)
    found = run_tasks(spark, partial(_each, work), groups, on_done)
    return [result for results in found for result in results]


def grouped(
    pieces: Iterable[Piece], size_of: Callable[[Piece], int], *, slots: int
) -> list[list[Piece]]:
    """Return the pieces in groups for a task each: neighbours together, the largest group first.

    Args:
        slots: Tasks that run at a time.
    """
    pieces = list(pieces)
    total = sum(map(size_of, pieces))
    bytes_max = min(GROUP_BYTES, total // (slots * GROUPS_PER_SLOT))
    groups: list[list[Piece]] = []
    sizes: list[int] = []
    for piece in pieces:
        size = size_of(piece)
        if sizes and sizes[-1] + size <= bytes_max:
            groups[-1].append(piece)
            sizes[-1] += size
        else:
            groups.append([piece])
            sizes.append(size)
    order = sorted(range(len(groups)), key=lambda number: -sizes[number])
    return [groups[number] for number in order]


def _each(work: Callable[[Piece], Result], group: Sequence[Piece]) -> list[Result]:
    return [work(piece) for piece in group]
