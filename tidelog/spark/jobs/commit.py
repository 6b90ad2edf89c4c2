"""Commit: what a group said of a partition, and the ends of a partition that it is held against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Commit", "PartitionEnds"]


class Commit(NamedTuple):
    """The last thing that a group said of a partition in an interval."""

    group: str
    topic: str
    partition: int
    interval: int
    """It ends at this many times its length. 0 where there are none."""
    offset: int | None
    """The next one that the group will read; None: it was deleted."""
    at_ms: int | None
    """When; None: nobody says."""


class PartitionEnds(NamedTuple):
    """What of a partition can be read, and where it ended in the past."""

    start: int
    end: int
    """The offset that the next record will have."""
    past: Mapping[int, int]
    """The end at each time that was asked for, in ms."""
