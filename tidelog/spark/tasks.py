"""Tasks: one task of Spark for each of a list of items; what they return comes back as it is.

For jobs whose records stay in the Python task. `mapInArrow` would do it, too, but wants pandas.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any, Final, TypeVar

from tidelog.spark.worker import freeze_modules

__all__ = ["run_tasks"]

Item = TypeVar("Item")
Result = TypeVar("Result")

LOOK_INTERVAL_S: Final = 0.5


def run_tasks(
    spark: Any,
    work: Callable[[Item], Result],
    items: Sequence[Item],
    on_done: Callable[[int, int], object] = lambda done, total: None,
) -> list[Result]:
    """Do `work(item)` for each item in a task of its own; return the results in the same order.

    Args:
        work: A function of a module, or a `partial` of one; it, items and results are pickled.
            It may be called again for an item, if its executor is lost.
        on_done: Told how many tasks are done, of how many.

    Raises:
        Py4JJavaError: `work` raised; the text has its traceback.
    """
    if not items:
        return []
    context = spark.sparkContext
    group = str(uuid.uuid4())

    def collected() -> list[Result]:
        context.setJobGroup(group, getattr(work, "__name__", "tidelog"), interruptOnCancel=True)
        data = context.parallelize(items, len(items)).map(partial(_done, work))
        results: list[Result] = data.collect()
        return results

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(collected)
        try:
            while not wait([future], LOOK_INTERVAL_S).done:
                on_done(_done_count(context, group), len(items))
        except BaseException:
            context.cancelJobGroup(group)  # Ctrl-C: else the pool would wait for all of it
            raise
        results = future.result()
    on_done(len(items), len(items))
    return results


def _done(work: Callable[[Item], Result], item: Item) -> Result:
    result = work(item)
    freeze_modules()
    return result


def _done_count(context: Any, group: str) -> int:
    tracker = context.statusTracker()
    stages = [
        tracker.getStageInfo(stage)
        for job in tracker.getJobIdsForGroup(group)
        for stage in tracker.getJobInfo(job).stageIds
    ]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)
