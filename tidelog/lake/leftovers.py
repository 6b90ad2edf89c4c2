"""Leftovers: what runs that were cut off have staged and never committed."""

from __future__ import annotations

from typing import Final

from tidelog.lake.entry import LOG, STAGED
from tidelog.lake.log import TopicLog

__all__ = ["LEFTOVER_AGE_S", "remove_leftovers"]

LEFTOVER_AGE_S: Final = 24 * 3600.0
"""A task that writes a file takes minutes: whatever is as old has no writer any more."""


def remove_leftovers(log: TopicLog, now_s: float) -> int:
    """Delete what was staged a day ago and is not of the last commit; return how many files.

    What the store tells no age of stays: it may be another writer's, who is about to commit it.
    """
    log.refresh()
    needed = {file.staged for file in log.last.change.add} if log.last is not None else set()
    old = [
        file.path
        for file in (*log.store.files(STAGED), *log.store.files(LOG))
        if file.path not in needed
        and not file.path.endswith(".json")
        and (modified_s := log.store.modified_s(file.path)) is not None
        and modified_s < now_s - LEFTOVER_AGE_S
    ]
    for path in old:
        log.store.remove(path)
    return len(old)
