"""TaskRun: a pure function over many pieces of work, as tasks of one Spark job.

Pieces and results cross as pickled objects, through the JVM but not into its rows; so they are to
be small: what a task reads and finds out stays in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from tidelog.spark.jobs.job import Job
from tidelog.spark.worker import freeze_modules

__all__ = ["grouped", "run_tasks"]

GROUP_BYTES: Final = 64 * 1024 * 1024
"""Of files, to one task: enough that what a task costs by itself, some 10 ms, is lost in it."""
GROUPS_PER_SLOT: Final = 4
"""With fewer tasks than this, the last one would leave the others' cores idle for long."""
POLL_SECONDS: Final = 0.5

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def grouped(
    pieces: Iterable[Piece], size_of: Callable[[Piece], int], *, slots: int
) -> list[list[Piece]]:
    """Return the pieces in groups for one task each: neighbours together, the largest group first.

    Args:
        size_of: Bytes that a piece has its task read.
        slots: Tasks that run at a time.
    """
    pieces = list(pieces)
    total = sum(map(size_of, pieces))
    bytes_max = min(GROUP_BYTES, max(total // (slots * GROUPS_PER_SLOT), 1))
    groups: list[tuple[int, list[Piece]]] = []
    for piece in pieces:
        size = size_of(piece)
        if groups and groups[-1][0] + size <= bytes_max:
            groups[-1] = (groups[-1][0] + size, [*groups[-1][1], piece])
        else:
            groups.append((size, [piece]))
    groups.sort(key=lambda each: -each[0])
    return [group for _, group in groups]


def run_tasks(
    job: Job,
    function: Callable[[Piece], Result],
    pieces: Sequence[Piece],
    size_of: Callable[[Piece], int],
) -> list[Result]:
    """Return the function's results, in the order in which their groups were made.

    Args:
        function: Pure, and known by its name to the executors.
    """
    if not pieces:
        return []
    context = job.session.sparkContext
    groups = grouped(pieces, size_of, slots=context.defaultParallelism)

    def run_group(group: list[Piece]) -> list[Result]:
        results = [function(piece) for piece in group]
        freeze_modules()
        return results

    with _Watch(job, context, len(groups)):
        found = context.parallelize(groups, len(groups)).map(run_group).collect()
    return [result for results in found for result in results]


class _Watch:
    """Tells the job how many tasks are done, while they run."""

    def __init__(self, job: Job, context: Any, total: int) -> None:
        self._job, self._context, self._total = job, context, total
        self._group = f"tidelog {job.name} {id(self)}"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._context.setJobGroup(self._group, self._job.name, interruptOnCancel=True)
        self._job.progress("tasks", 0, self._total)
        self._thread.start()

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self._ended.set()
        self._thread.join()
        self._context.setLocalProperty("spark.jobGroup.id", None)
        if kind is None:
            self._job.progress("tasks", self._total, self._total)

    def _watch(self) -> None:
        tracker = self._context.statusTracker()
        while not self._ended.wait(POLL_SECONDS):
            done = 0
            for number in tracker.getJobIdsForGroup(self._group):
                known = tracker.getJobInfo(number)
                for stage in known.stageIds if known is not None else ():
                    info = tracker.getStageInfo(stage)
                    done += 0 if info is None else info.numCompletedTasks
            self._job.progress("tasks", done, self._total)
