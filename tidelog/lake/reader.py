"""Reading a lake by its log: exactly what is committed, at any time, with a compaction under way.

Who only lists `<lake>/<topic>/data` needs nothing of this: DuckDB's `read_parquet`, Polars' and
pandas' readers and Spark's take the directory as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import FileSelector, FileType

from tidelog.lake.entry import entry_path
from tidelog.lake.errors import LakeError
from tidelog.lake.log import TopicLog, location_of
from tidelog.lake.parquet_files import SCHEMA
from tidelog.lake.store import locate_lake, open_store
from tidelog.segments.location import Location

__all__ = ["lake_topics", "open_topic", "read_lake", "read_lake_table"]

TRIES_MAX: Final = 5


def open_topic(location: Location, topic: str, *, is_single_writer: bool = False) -> TopicLog:
    """Return the log of a lake's topic; of a topic that is not there yet an empty one."""
    store = open_store(location.child(topic), is_single_writer=is_single_writer)
    return TopicLog(store, topic)


def lake_topics(location: Location) -> list[str]:
    """Return the topics of a lake, by name; none if there is no lake yet."""
    filesystem, path = location
    names = (
        info.base_name
        for info in filesystem.get_file_info(FileSelector(path, allow_not_found=True))
        if info.type is FileType.Directory
    )
    return sorted(
        name for name in names if open_store(location.child(name)).size(entry_path(0)) is not None
    )


def read_lake(path: str | Path, topic: str, *, filesystem: Any = None) -> ds.Dataset:
    """Return a topic's records as a dataset of pyarrow: columns and filters are its own business.

    The files are those of the last commit. A compaction that comes while it is read deletes files
    of it: the read fails then, and one that begins anew does not.

    Args:
        path: The lake; of this machine, or a URL.
        filesystem: Of pyarrow or fsspec, to which the path belongs.

    Raises:
        LakeError: there is no such topic in the lake.
    """
    log = open_topic(locate_lake(path, filesystem), topic)
    log.refresh()
    if log.last is None:
        raise LakeError(f"{path} has no topic {topic!r}")
    root = log.store.location("")
    files = sorted(log.state.files.values(), key=lambda file: (file.partition, file.start_offset))
    paths = [log.store.location(location_of(log, file)).path for file in files]
    if not paths:
        return ds.dataset(pa.table({}, schema=SCHEMA))
    return ds.dataset(paths, schema=SCHEMA, format="parquet", filesystem=root.filesystem)


def read_lake_table(
    path: str | Path,
    topic: str,
    *,
    filesystem: Any = None,
    columns: list[str] | None = None,
    filter: ds.Expression | None = None,
) -> pa.Table:
    """Return a topic's records, by partition and offset.

    It begins anew if a compaction or a writer moves files under it.

    Args:
        columns: These only, in this order.
        filter: Such as `pyarrow.dataset.field("partition") == 3`.
    """
    for _ in range(TRIES_MAX - 1):
        try:
            return _to_table(path, topic, filesystem, columns, filter)
        except FileNotFoundError:
            continue
    return _to_table(path, topic, filesystem, columns, filter)


def _to_table(
    path: str | Path,
    topic: str,
    filesystem: Any,
    columns: list[str] | None,
    condition: ds.Expression | None,
) -> pa.Table:
    dataset = read_lake(path, topic, filesystem=filesystem)
    return dataset.to_table(columns=columns, filter=condition)
