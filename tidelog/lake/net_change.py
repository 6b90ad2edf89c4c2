"""NetChange: what some commits come to together, for a table that was left behind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.lake.entry import DataFile, Entry

__all__ = ["NetChange", "net_change"]


class NetChange(NamedTuple):
    """Files that are there now and were not, and the other way round."""

    sequence: int
    """Of the last of the commits."""
    added: tuple[DataFile, ...]
    removed: tuple[str, ...]
    """Paths, relative to the topic's directory."""


def net_change(entries: Iterable[Entry]) -> NetChange | None:
    """Return what the commits come to; None if there is none."""
    sequence: int | None = None
    added: dict[str, DataFile] = {}
    removed: list[str] = []
    for entry in entries:
        sequence = entry.sequence
        removed += [path for path in entry.change.remove if added.pop(path, None) is None]
        added |= {file.path: file for file in entry.change.add}
    return None if sequence is None else NetChange(sequence, tuple(added.values()), tuple(removed))
